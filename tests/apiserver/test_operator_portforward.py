"""The tunnel through a real API server: what it asks is passed on to the node's kubelet, in its protocol.

The kubelet here is a small server that answers as the kubelet's port forwarding does.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass

import aiohttp
import kopf
from aiohttp import web
from kindling.kube.credentials import Credentials
from kindling.kube.portforward import PROTOCOL, PortForwarder

from tests.apiserver.support.apiclient import MERGE_PATCH, Api
from tests.apiserver.support.controlplane import ControlPlane


@dataclass(frozen=True)
class To:
    namespace: str = "default"
    pod: str = "tunnelled"
    port: int = 5432


async def forward(request: web.Request) -> web.WebSocketResponse:
    assert request.path_qs == "/portForward/default/tunnelled?port=5432"
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    for channel in (0, 1):
        await socket.send_bytes(bytes([channel]) + (5432).to_bytes(2, "little"))
    async for message in socket:
        if message.type == aiohttp.WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


def run_pod(api: Api, *, kubelet_port: int) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tunnel"}}
    api.create("/api/v1/nodes", node).accepted()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
    }
    api.request("PUT", "/api/v1/nodes/tunnel/status", body={**node, "status": status}).accepted()
    spec = {"nodeName": "tunnel", "containers": [{"name": "server", "image": "server:1"}]}
    pod = {"metadata": {"name": "tunnelled"}, "spec": spec}
    api.create("/api/v1/namespaces/default/pods", pod).accepted()
    path = "/api/v1/namespaces/default/pods/tunnelled/status"
    api.request("PATCH", path, body={"status": {"phase": "Running"}}, content_type=MERGE_PATCH).accepted()


def test_bytes_go_through_the_api_server_to_the_pod_and_back(plane: ControlPlane, api: Api) -> None:
    sent = os.urandom(300_000)

    async def scenario() -> bytes:
        app = web.Application()
        app.router.add_get("/{path:.*}", forward)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.load_cert_chain(plane.ca, plane.ca.with_suffix(".key"))
        await web.TCPSite(runner, host="127.0.0.1", port=0, ssl_context=certificate).start()
        run_pod(api, kubelet_port=runner.addresses[0][1])
        info = kopf.ConnectionInfo(server=plane.url, token=plane.token, ca_path=str(plane.ca))
        try:
            async with PortForwarder(Credentials(info=info)).dial(To()) as (host, port):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(sent)
                return await asyncio.wait_for(reader.readexactly(len(sent)), 20)
        finally:
            await runner.cleanup()

    assert asyncio.run(scenario()) == sent

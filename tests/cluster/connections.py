"""Whether one Pod reaches another: connections tried from inside of the cluster.

A NetworkPolicy states what should be allowed; these connections show what the network allows. Agents drop
packets that are not allowed, so a blocked connection gets no answer, unlike one that a server refuses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from tests.cluster.stack import Environment

Attempt = Literal["connected", "refused", "silence"]
# A policy, or a Pod's address, is known on every node within this time.
KNOWN_SECONDS = 20.0
# Longer than the first repetition of an unanswered packet (1 s).
CONNECT_TIMEOUT_SECONDS = 1.5
# In the Pod, not from outside: each `kubectl exec` takes longer than all connections that it tries.
_TRY = """
import socket, sys, time

host, port, timeout, wanted, times, seconds = sys.argv[1:]


def outcome():
    try:
        socket.create_connection((host, int(port)), float(timeout)).close()
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "silence"
    return "connected"


met, deadline = 0, time.monotonic() + float(seconds)
while True:
    last = outcome()
    met = met + 1 if last == wanted else 0
    if met == int(times) or (not met and time.monotonic() > deadline):
        break
    time.sleep(0.1)
print(last)
"""
_LISTEN = """
import socketserver, sys, threading
servers = [
    socketserver.ThreadingTCPServer(("", int(port)), socketserver.BaseRequestHandler) for port in sys.argv[1:]
]
for server in servers:
    threading.Thread(target=server.serve_forever).start()
"""


class Client:
    """A Pod from which a test tries connections."""

    def __init__(self, environment: Environment, name: str, namespace: str) -> None:
        self._environment, self.name, self.namespace = environment, name, namespace

    def tries(self, host: str, port: int) -> Attempt:
        """The outcome of one TCP connection; a host name that is not found is silence too."""
        return self._tried(host, port, "connected", times=1, seconds=0)

    def reaches(self, host: str, port: int) -> None:
        """It gets in, by the time that all nodes know of the Pods and policies concerned."""
        assert self._tried(host, port, "connected", times=1, seconds=KNOWN_SECONDS) == "connected"

    def is_kept_out(self, host: str, port: int) -> None:
        """It gets no answer, by that time, and still none after it."""
        assert self._tried(host, port, "silence", times=2, seconds=KNOWN_SECONDS) == "silence"

    def _tried(self, host: str, port: int, wanted: Attempt, *, times: int, seconds: float) -> Attempt:
        """The last outcome: `wanted`, that many times in a row, or whatever it was at the deadline."""
        words = (host, str(port), str(CONNECT_TIMEOUT_SECONDS), wanted, str(times), str(seconds))
        printed = self._environment.kubectl(
            "exec", "-n", self.namespace, self.name, "--", "python3", "-c", _TRY, *words, timeout=120
        )
        outcome = printed.strip()
        assert outcome in ("connected", "refused", "silence"), printed
        return outcome  # type: ignore[return-value]


@contextmanager
def client(
    environment: Environment,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    node: str | None = None,
) -> Iterator[Client]:
    """A client of its own in this namespace, on this node if one is named, ready; removed at the end."""
    name = f"client-{os.urandom(3).hex()}"
    _run(environment, name, namespace, labels or {}, ["sleep", "infinity"], node=node)
    try:
        environment.wait_ready(f"pod/{name}", "-n", namespace)
        yield Client(environment, name, namespace)
    finally:
        environment.kubectl("delete", "pod", name, "-n", namespace, "--wait=false")


def listen(
    environment: Environment, name: str, *, namespace: str, ports: Mapping[str, int], node: str | None = None
) -> str:
    """A Pod that accepts connections at these ports, each with a name; the kubelet asks whether it does.

    Returns its address. Its label `app` is its name.
    """
    words = ["python3", "-c", _LISTEN, *map(str, ports.values())]
    _run(environment, name, namespace, {"app": name}, words, ports=ports, node=node)
    environment.wait_ready(f"pod/{name}", "-n", namespace)
    return str(environment.get("pod", name, "-n", namespace)["status"]["podIP"])


def _run(
    environment: Environment,
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    command: list[str],
    *,
    ports: Mapping[str, int] | None = None,
    node: str | None = None,
) -> None:
    deployment = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
    container = {
        "name": "python",
        # The one image on every node that has a Python.
        "image": deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        "command": command,
        "ports": [{"name": key, "containerPort": number} for key, number in (ports or {}).items()],
    }
    if ports:
        probe = {"tcpSocket": {"port": next(iter(ports.values()))}, "periodSeconds": 1}
        container |= {"readinessProbe": probe}
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **({} if node is None else {"nodeName": node}),
    }
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    environment.kubectl("create", "-f", "-", stdin=json.dumps(pod))

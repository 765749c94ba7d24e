"""The pages, over HTTP: what is known is shown by name and version, if that is asked for, without content."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from kindling import web
from kindling.engine.store import Store
from kindling.kube.resources import SECRET, ResourceType

TYPE = ResourceType("example.com", "v1", "Toy", "toys")


def page(path: str, *, store: Store | None, host: str = "127.0.0.1") -> tuple[int, str]:
    async def run() -> tuple[int, str]:
        runner = await web.serve(
            port=0,
            alive=lambda: None,
            ready=lambda: "starting",
            metrics=lambda: "",
            versions=store.versions if store is not None else None,
            decisions=lambda key: {"key": key} if key == "toy/ns/x" else None,
        )
        try:
            port = next(address[1] for address in runner.addresses if len(address) == 2)  # Of IPv4.
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{host}:{port}{path}") as found,
            ):
                return found.status, await found.text()
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def test_the_store_is_shown_without_what_is_in_it() -> None:
    store = Store([TYPE], watches=[SECRET])
    meta = {"namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "7"}
    store.upsert(TYPE, {"metadata": meta, "spec": {"password": "canary"}})
    store.upsert(
        SECRET, {"metadata": {**meta, "uid": "v", "annotations": {"a": "canary"}}, "data": {"a": "canary"}}
    )
    assert page("/debug/store", store=store) == (200, '{"toy.example.com/ns/x":"7","secret/ns/x":"7"}')


def test_the_store_is_not_shown_unasked() -> None:
    assert page("/debug/store", store=None)[0] == 404


def test_decisions_are_for_this_pod_alone() -> None:
    """Whoever may forward a port comes from there; a Pod of the cluster does not."""
    assert page("/debug/decisions?key=toy/ns/x", store=None) == (200, '{"key":"toy/ns/x"}')
    status, text = page("/debug/decisions?key=toy/ns/y", store=None)
    assert (status, "KIND.GROUP/NAMESPACE/NAME" in text) == (404, True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect(("192.0.2.1", 9))  # No packet goes out: it only says from where one would.
        address = unsent.getsockname()[0]
    assert page("/debug/decisions?key=toy/ns/x", store=None, host=address)[0] == 403


@pytest.mark.parametrize(("path", "answer"), [("/healthz", (200, "ok")), ("/readyz", (503, "starting"))])
def test_the_probes(path: str, answer: tuple[int, str]) -> None:
    assert page(path, store=None) == answer

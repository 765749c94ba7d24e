"""Following a type of objects: nothing is lost or seen twice, whatever the server does meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from kindling.kube import reflector
from kindling.kube.reflector import Reflector
from kindling.kube.resources import SERVICE, Object, ResourceType

SECONDS = 10.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def service(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int) -> bytes:
    return json.dumps({"type": kind, "object": service(name, version)}).encode() + b"\n"


EXPIRED = json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "old"}})


class Server:
    """Answers each request by the next of its answers, then leaves a watch open and silent."""

    def __init__(self, *answers: Handler) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.seen: list[tuple[str, str, str]] = []
        self.quiet = asyncio.Event()
        self.page_lock = asyncio.Lock()
        self.held: list[bool] = []  # whether the page lock was held at each request and event

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        self.held.append(self.page_lock.locked())
        if self.answers:
            return await self.answers.pop(0)(request)
        self.quiet.set()
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(3600)
        return response

    def on_event(self, type: ResourceType, kind: str, obj: Object) -> None:
        self.seen.append((kind, obj["metadata"]["name"], obj["metadata"]["resourceVersion"]))
        self.held.append(self.page_lock.locked())


def test_metadata_is_asked_for_where_nothing_else_is_wanted() -> None:
    accepted: list[str] = []

    def noted(answer: Handler) -> Handler:
        async def note(request: web.Request) -> web.StreamResponse:
            accepted.append(request.headers["Accept"])
            return await answer(request)

        return note

    followed(noted(page(service("a", 1))), noted(watch(event("ADDED", "b", 11))), metadata=True)
    assert [found.partition(";g=")[0] for found in accepted] == [
        "application/json;as=PartialObjectMetadataList",
        "application/json;as=PartialObjectMetadata",
    ]


def page(*items: Object, version: int = 10, token: str = "", **more: Any) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        meta = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
        return web.json_response({"metadata": meta, "items": list(items), **more})

    return answer


def watch(*pieces: bytes) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.01)
        return response

    return answer


def refusal(status: int, **body: Any) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return answer


async def broken(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def cut_after(piece: bytes) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await watch(piece)(request)
        assert request.transport is not None
        request.transport.abort()
        return response

    return answer


def followed(*answers: Handler, selector: str = "", metadata: bool = False) -> Server:
    """Until all the answers were given and a watch is open after them."""

    async def scenario() -> Server:
        server = Server(*answers)
        app = web.Application()
        app.router.add_get("/services", server.answer)
        async with TestServer(app, shutdown_timeout=0.1) as running, ClientSession() as session:
            reflector = Reflector(
                session=session,
                url=str(running.make_url("/services")),
                type=SERVICE,
                selector=selector,
                seconds=60,
                on_event=server.on_event,
                page_lock=server.page_lock,
                metadata=metadata,
            )
            task = asyncio.create_task(reflector.run())
            async with asyncio.timeout(SECONDS):
                await server.quiet.wait()
            assert reflector.synced.is_set()
            task.cancel()
        return server

    return asyncio.run(scenario())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "BASE_DELAY_SECONDS", 0.01)


def test_lists_page_by_page_then_watches_from_there() -> None:
    server = followed(
        page(service("a", 1), token="more"),
        page(service("b", 2), version=7),
        watch(event("MODIFIED", "a", 8), event("DELETED", "b", 9)),
        selector="x=y",
    )
    assert server.seen == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("MODIFIED", "a", "8"),
        ("DELETED", "b", "9"),
    ]
    first, second, third, last = server.asked
    assert "watch" not in first
    assert second["continue"] == "more"
    assert (third["watch"], third["resourceVersion"], third["timeoutSeconds"]) == ("true", "7", "60")
    assert last["resourceVersion"] == "9"  # on from the last event
    assert {asked["labelSelector"] for asked in server.asked} == {"x=y"}


def test_has_the_turn_while_it_takes_in_a_page_and_at_no_other_time() -> None:
    """Of what is listed, one page at a time is parsed; and a server that hangs keeps nobody from his turn."""
    server = followed(
        page(service("a", 1), token="more"), page(service("b", 2)), watch(event("MODIFIED", "a", 8))
    )
    assert server.held == [False, True, False, True, False, False, False]


def test_pieces_need_not_end_with_lines() -> None:
    whole = event("ADDED", "ä", 11) + event("ADDED", "b", 12)
    cuts = [whole[:20], whole[20:21], whole[21:-5], whole[-5:]]
    assert followed(page(), watch(*cuts)).seen == [("ADDED", "ä", "11"), ("ADDED", "b", "12")]


def test_a_bookmark_only_moves_the_place() -> None:
    server = followed(page(), watch(event("BOOKMARK", "", 50)))
    assert server.seen == []
    assert server.asked[-1]["resourceVersion"] == "50"


@pytest.mark.parametrize(
    "forgotten",
    [watch(event("ADDED", "a", 11), EXPIRED.encode() + b"\n"), refusal(410, message="too old")],
    ids=["in the watch", "at its start"],
)
def test_an_expired_version_is_followed_by_another_list(forgotten: Handler) -> None:
    server = followed(page(), forgotten, page(service("a", 90), version=100))
    assert server.seen[-1] == ("ADDED", "a", "90")
    assert server.asked[-1]["resourceVersion"] == "100"
    assert len([asked for asked in server.asked if "watch" not in asked]) == 2


@pytest.mark.parametrize(
    "fault",
    [broken, refusal(500), refusal(429, message="slow"), refusal(403)],
    ids=["broken off", "500", "429", "403"],
)
def test_a_fault_loses_neither_the_place_nor_the_list(fault: Handler) -> None:
    server = followed(fault, page(version=3), fault, watch(event("ADDED", "a", 4)), fault)
    assert server.seen == [("ADDED", "a", "4")]
    assert len([asked for asked in server.asked if "watch" not in asked]) == 2
    assert server.asked[-1]["resourceVersion"] == "4"


def test_cut_off_again_and_again_it_keeps_up_as_long_as_something_comes() -> None:
    """Found by the sweep of cut watches: sixty cuts of one watch, and it came ten seconds late to each."""
    cuts = [cut_after(event("ADDED", f"s{number}", 10 + number)) for number in range(12)]
    assert (
        len(followed(page(), *cuts).seen) == 12
    )  # within SECONDS: with growing pauses it would take a minute


@pytest.mark.parametrize(("status", "level"), [(401, "WARNING"), (403, "WARNING"), (500, "INFO")])
def test_a_right_that_is_gone_is_a_warning(caplog: pytest.LogCaptureFixture, status: int, level: str) -> None:
    """Nothing is seen until somebody grants it again; anything else ends by itself."""
    caplog.set_level(logging.INFO)
    followed(page(), refusal(status))
    [record] = [record for record in caplog.records if record.name == reflector.__name__]
    assert record.levelname == level


def test_pauses_grow_while_nothing_comes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "BASE_DELAY_SECONDS", 0.1)
    caplog.set_level(logging.INFO)
    followed(*[refusal(500)] * 4, page(), refusal(500))
    messages = [record.getMessage() for record in caplog.records if record.name == reflector.__name__]
    waits = [float(message.partition(" in ")[2].split()[0]) for message in messages]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_no_items_may_be_null() -> None:
    assert followed(page(items=None), watch(event("ADDED", "a", 11))).seen == [("ADDED", "a", "11")]

"""The API client against a real HTTP server: what it sends, and what it makes of every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import kopf
import orjson
import pytest
from aiohttp import web
from kindling.kube.client import Client, _encoded
from kindling.kube.credentials import Credentials, NoCredentials, load_credentials
from kindling.kube.errors import (
    ApiError,
    Conflict,
    NotFound,
    Rejected,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kindling.kube.resources import SECRET, SERVICE, STATEFUL_SET, ListPage, Ref, ResourceType

REF = Ref(STATEFUL_SET, "ns", "db")
Handler = Callable[[web.Request], Awaitable[web.Response]]


def call(handler: Handler, use: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """Serve `handler` for every request, and use a client of it."""

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        credentials = Credentials(info=kopf.ConnectionInfo(server=f"http://127.0.0.1:{port}", token="first"))
        try:
            async with Client(credentials, **options) as client:
                return await use(client)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def answering(*answers: tuple[int, Any, dict[str, str]]) -> tuple[Handler, list[tuple[str, str, Any, str]]]:
    """A server of these answers, the last one for ever, and the list of what it was sent."""
    seen: list[tuple[str, str, Any, str]] = []

    async def handler(request: web.Request) -> web.Response:
        raw = await request.read()
        sent = orjson.loads(raw) if raw else None
        seen.append((request.method, str(request.rel_url), sent, request.headers["Content-Type"]))
        status, body, headers = answers[min(len(seen), len(answers)) - 1]
        return web.Response(status=status, body=orjson.dumps(body), headers=headers)

    return handler, seen


def test_apply_is_forced_server_side_apply() -> None:
    handler, seen = answering((201, {"ok": 1}, {}))
    wrote: list[tuple[str, ResourceType]] = []
    body = {"metadata": {"namespace": "ns", "name": "db"}, "spec": {}}
    made = call(handler, lambda c: c.apply(STATEFUL_SET, body), on_write=lambda *what: wrote.append(what))
    assert made == {"ok": 1}
    assert seen == [
        (
            "PATCH",
            "/apis/apps/v1/namespaces/ns/statefulsets/db?fieldManager=kindling&force=true",
            {"apiVersion": "apps/v1", "kind": "StatefulSet", **body},
            "application/apply-patch+yaml",
        )
    ]
    assert wrote == [("apply", STATEFUL_SET)]


def test_an_apply_is_yaml_that_the_server_takes() -> None:
    """It reads JSON as YAML, which knows no control characters but escaped ones."""
    text = "a\x7f\x85\ufeff\uffff\u00a0é"
    handler, seen = answering((200, {}, {}))
    body = {"metadata": {"namespace": "ns", "name": "db"}, "spec": {"topic": text}}
    call(handler, lambda client: client.apply(STATEFUL_SET, body))
    assert seen[0][2]["spec"]["topic"] == text
    assert _encoded({"topic": text}) == rb'{"topic":"a\u007f\u0085\ufeff\uffff' + "\u00a0é".encode() + b'"}'


def test_status_patch_and_delete_carry_preconditions() -> None:
    handler, seen = answering((200, {}, {}))
    call(handler, lambda c: c.merge(REF, {"metadata": {"uid": "u"}, "status": {}}, subresource="status"))
    call(handler, lambda c: c.delete(REF, uid="u", resource_version="7"))
    assert seen[0][1].startswith("/apis/apps/v1/namespaces/ns/statefulsets/db/status?")
    assert seen[0][3] == "application/merge-patch+json"
    assert seen[1][2]["preconditions"] == {"uid": "u", "resourceVersion": "7"}


def test_warnings_are_those_of_this_very_object() -> None:
    asked: list[web.Request] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request)
        return web.json_response(
            {"metadata": {"resourceVersion": "7"}, "items": [{"reason": "FailedCreate"}]}
        )

    assert call(handler, lambda client: client.warnings(REF, uid="u")) == [{"reason": "FailedCreate"}]
    (request,) = asked
    assert request.path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    fields = "type=Warning,regarding.kind=StatefulSet,regarding.name=db,regarding.uid=u"
    assert request.query["fieldSelector"] == fields


def test_list_follows_pages() -> None:
    handler, seen = answering(
        (200, {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [1]}, {}),
        (200, {"metadata": {"resourceVersion": "7"}, "items": None}, {}),
    )

    async def pages(client: Client) -> list[ListPage]:
        return [page async for page in client.pages(SERVICE, namespace=None, selector="a=b")]

    assert call(handler, pages) == [(7, [1]), (7, [])]
    assert [where for _, where, _, _ in seen] == [
        "/api/v1/services?limit=100&labelSelector=a%3Db",
        "/api/v1/services?limit=100&labelSelector=a%3Db&continue=more",
    ]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Rejected), (401, Unauthorized), (403, Rejected), (404, NotFound), (409, Conflict),
        (413, Rejected), (422, Rejected), (429, TooManyRequests), (500, ServerError), (503, ServerError),
        (302, ApiError),
    ],
)  # fmt: skip
def test_errors_are_typed_and_hold_the_servers_words(status: int, error: type[ApiError]) -> None:
    handler, _ = answering((status, {"reason": "Because", "message": "of this"}, {}))
    with pytest.raises(error) as caught:
        call(handler, lambda c: c.get(REF))
    assert (caught.value.reason, caught.value.message, caught.value.status) == ("Because", "of this", status)


def test_an_answer_that_is_no_json_is_still_an_error_with_words() -> None:
    async def proxy(_: web.Request) -> web.Response:
        return web.Response(status=502, text="<h1>Bad gateway</h1>")

    with pytest.raises(ServerError, match="Bad gateway"):
        call(proxy, lambda c: c.get(REF))


def test_short_retry_after_is_waited_for_a_long_one_is_not() -> None:
    handler, seen = answering((429, {}, {"Retry-After": "0"}), (200, {"ok": 1}, {}))
    assert call(handler, lambda c: c.get(REF)) == {"ok": 1}
    assert len(seen) == 2
    handler, seen = answering((429, {}, {"Retry-After": "120"}))
    with pytest.raises(TooManyRequests) as caught:
        call(handler, lambda c: c.get(REF))
    assert caught.value.retry_after == 120
    assert len(seen) == 1


def test_a_write_that_must_not_be_is_not_sent_nor_tried_again() -> None:
    handler, seen = answering((429, {"message": "busy"}, {"Retry-After": "0"}))
    asked = 0

    def before_write() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise RuntimeError("the lease is lost")

    async def use(client: Client) -> None:
        with pytest.raises(TooManyRequests):
            await client.get(REF)
        assert asked == 0
        seen.clear()
        with pytest.raises(RuntimeError, match="lease"):
            await client.merge(REF, {"a": 1})

    call(handler, use, before_write=before_write)
    assert len(seen) == 1


def test_a_write_that_waits_for_its_turn_is_asked_when_it_comes() -> None:
    """A process that slept meanwhile must not send what was right before."""
    release = asyncio.Event()
    asked: list[str] = []

    async def handler(_: web.Request) -> web.Response:
        await release.wait()
        return web.json_response({})

    async def use(client: Client) -> None:
        first, second = (asyncio.create_task(client.merge(REF, {"a": number})) for number in range(2))
        async with asyncio.timeout(5):
            while not asked:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert asked == ["asked"]
            release.set()
            await asyncio.gather(first, second)
        assert asked == ["asked", "asked"]

    call(handler, use, limit=1, before_write=lambda: asked.append("asked"))


def test_no_server_is_unreachable() -> None:
    async def run() -> None:
        credentials = Credentials(info=kopf.ConnectionInfo(server="http://127.0.0.1:9"))
        async with Client(credentials) as client:
            await client.get(REF)

    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "body", "served"),
    [(200, {"resources": [{"name": "services"}]}, True), (200, {}, False), (404, {}, False)],
)
def test_served(status: int, body: Any, served: bool) -> None:
    handler, _ = answering((status, body, {}))
    assert call(handler, lambda c: c.served(SERVICE)) is served


def test_rotated_token_is_used_in_the_same_session(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({})

    async def use(client: Client) -> None:
        credentials = Credentials(
            info=kopf.ConnectionInfo(server=client._server, token="stale"), token_path=token
        )
        async with Client(credentials) as rotating:
            await rotating.get(REF)
            token.write_text("two\n")
            await rotating.get(REF)
            credentials._read_at -= 61
            await rotating.get(REF)

    call(handler, use)
    assert seen == ["Bearer one", "Bearer one", "Bearer two"]


def test_secrets_are_listed_and_watched_by_their_metadata_alone() -> None:
    seen: list[tuple[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers.get("Accept", "")))
        return web.json_response({"items": None})

    async def use(client: Client) -> Any:
        credentials = Credentials(info=kopf.ConnectionInfo(server=client._server))
        async with credentials.session(limit=1) as session:
            answer = await session.get(f"{credentials.server}{SECRET.path(namespace='ns')}")
            await session.get(f"{credentials.server}{SECRET.path(namespace='ns')}?watch=true")
            await session.get(f"{credentials.server}{SERVICE.path(namespace='ns')}")
            return await answer.json()

    assert call(handler, use) == {"items": []}  # what kopf can iterate over
    assert "as=PartialObjectMetadataList;" in seen[0][1]
    assert "as=PartialObjectMetadata;" in seen[1][1]
    assert "Partial" not in seen[2][1]


def test_bad_kubeconfig_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(NoCredentials, match="KUBECONFIG"):
        load_credentials()
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoCredentials, match="KUBECONFIG"):
        load_credentials()

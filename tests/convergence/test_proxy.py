"""The proxy does the harm that it is asked to do, and no other; it knows a write that changed nothing.

What the operator makes of such harm the other tests say; without these they might be seeing none.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request
from kindling.kube.resources import CONFIG_MAP

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import ControlPlane
from tests.convergence.forward_target import ForwardTarget
from tests.convergence.harness import Harness
from tests.convergence.proxy import Fault, Proxy, proxy
from tests.convergence.watch_faults import Event

SECONDS = 20.0
WHERE = CONFIG_MAP.path(namespace="default")


@pytest.fixture(scope="module")
def plane(harness: Harness) -> ControlPlane:
    """One on which others' objects are about as well; a proxy of its own is put before it."""
    return harness.cluster.plane


@pytest.fixture
def between(plane: ControlPlane, tmp_path: Path) -> Iterator[Proxy]:
    with proxy(plane, directory=tmp_path) as running:
        yield running


@pytest.fixture
def api(between: Proxy) -> Iterator[Api]:
    """Through the proxy."""
    with closing(Api(between.plane)) as client:
        yield client


@pytest.fixture
def truth(plane: ControlPlane) -> Iterator[Api]:
    """Past the proxy."""
    with closing(Api(plane)) as client:
        for name in names(client):
            client.delete(f"{WHERE}/{name}")
        yield client


def body(name: str, value: str = "one") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}}


def names(api: Api) -> list[str]:
    """Those of the tests: every namespace has a certificate of the cluster's besides."""
    found = [item["metadata"]["name"] for item in api.get(WHERE).accepted()["items"]]
    return sorted(name for name in found if len(name) == 1)


class Watch:
    """A watch through the proxy, on a thread of its own: `last_result` is what it brought so far."""

    def __init__(self, plane: ControlPlane, *, since: str) -> None:
        self.last_result: list[str] = []
        self.ended = False
        self._client = Api(plane)
        self._since = since
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            for event in self._client.watch(WHERE, since=self._since):
                meta = event["object"].get("metadata", {})
                self.last_result.append(str(meta.get("name") or event["object"]["code"]))
        self.ended = True

    def wait(self, *last_result: str) -> None:
        wait_until(
            lambda: self.last_result == list(last_result), seconds=SECONDS, what=lambda: self.last_result
        )


def version(api: Api) -> str:
    return str(api.get(WHERE).accepted()["metadata"]["resourceVersion"])


def test_writes_are_numbered_and_one_without_effect_is_known(between: Proxy, truth: Api, api: Api) -> None:
    api.create(WHERE, body("a")).accepted()
    for value in ("two", "two"):
        api.merge(f"{WHERE}/a", {"data": {"key": value}}).accepted()
    lease = {"metadata": {"name": "a"}, "spec": {}}
    api.create("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).accepted()
    api.delete(f"{WHERE}/a").accepted()
    assert [(write.asked.method, write.effective) for write in between.writes("default")] == [
        ("POST", True),
        ("PATCH", True),
        ("PATCH", False),
        ("DELETE", True),
    ]


@pytest.mark.parametrize("status", [409, 429, 500])
@pytest.mark.parametrize("commits", [False, True])
def test_a_write_is_answered_as_asked(
    between: Proxy, truth: Api, api: Api, status: int, commits: bool
) -> None:
    between.at_write("default", 2, Fault(commits=commits, answer=status))
    assert [api.create(WHERE, body(name)).status for name in "abc"] == [201, status, 201]
    assert names(truth) == (["a", "b", "c"] if commits else ["a", "c"])
    assert between.fired("default", 2)
    assert not between.fired("default", 1)


@pytest.mark.parametrize("commits", [False, True])
def test_a_write_can_lose_its_answer_and_something_be_done_first(
    between: Proxy, truth: Api, api: Api, commits: bool
) -> None:
    there: list[list[str]] = []
    fault = Fault(commits=commits, first=lambda: there.append(names(truth)))
    between.at_write("default", 1, fault)
    with pytest.raises((OSError, http.client.HTTPException)):
        api.create(WHERE, body("a"))
    assert there == [names(truth)] == [["a"] if commits else []]


def test_an_event_that_is_lost_never_arrives(between: Proxy, truth: Api) -> None:
    since = version(truth)
    between.streams.drops.add(Event("default", "configmaps", 2))
    watch = Watch(between.plane, since=since)
    for name in "abc":
        truth.create(WHERE, body(name)).accepted()
    watch.wait("a", "c")
    Watch(between.plane, since=since).wait("a", "c")


def test_an_event_at_which_the_watch_is_cut_comes_with_the_next(between: Proxy, truth: Api) -> None:
    since = version(truth)
    between.streams.cuts.add(Event("default", "configmaps", 1))
    watch = Watch(between.plane, since=since)
    truth.create(WHERE, body("a")).accepted()
    wait_until(lambda: watch.ended, seconds=SECONDS, what="cut")
    assert watch.last_result == []
    Watch(between.plane, since=since).wait("a")


def test_what_is_held_back_comes_later_or_is_forgotten_with_410(between: Proxy, truth: Api) -> None:
    watch = Watch(between.plane, since=version(truth))
    truth.create(WHERE, body("a")).accepted()
    watch.wait("a")
    between.stall(WHERE)
    truth.create(WHERE, body("b")).accepted()
    assert watch.last_result == ["a"]
    between.streams.resume(WHERE)
    watch.wait("a", "b")
    between.stall(WHERE)
    truth.create(WHERE, body("c")).accepted()
    between.expire(WHERE)
    watch.wait("a", "b", "410")
    wait_until(lambda: watch.ended, seconds=SECONDS, what="ended")


def test_a_list_is_as_it_was(between: Proxy, truth: Api, api: Api) -> None:
    truth.create(WHERE, body("a")).accepted()
    between.streams.version = int(version(truth))
    truth.create(WHERE, body("b")).accepted()
    assert names(api) == ["a"]
    assert api.get(f"{WHERE}/b").status == 200
    between.streams.version = None
    assert names(api) == ["a", "b"]


def test_every_watch_is_cut_at_once_and_a_new_one_is_not(between: Proxy, truth: Api) -> None:
    since = version(truth)
    watches = [Watch(between.plane, since=since) for _ in range(2)]
    truth.create(WHERE, body("a")).accepted()
    for watch in watches:
        watch.wait("a")
    between.cut()
    wait_until(lambda: all(watch.ended for watch in watches), seconds=SECONDS, what="cut")
    Watch(between.plane, since=since).wait("a")


def test_a_share_of_all_requests_is_refused_and_no_later_one(between: Proxy, truth: Api, api: Api) -> None:
    between.refuse((429, 0.5), (500, 0.5))
    assert {api.create(WHERE, body("a")).status for _ in range(40)} == {429, 500}
    assert names(truth) == []
    between.refuse()
    assert api.create(WHERE, body("a")).status == 201


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_is_kept_back_until_it_may_go(between: Proxy, truth: Api, api: Api, method: str) -> None:
    between.hold((method, WHERE))
    answers: list[int] = []

    def ask() -> None:
        answer = api.create(WHERE, body("a")) if method == "POST" else api.get(WHERE)
        answers.append(answer.status)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: names(truth) == (["a"] if method == "POST" else []), seconds=SECONDS, what="made")
    thread.join(0.5)
    assert answers == []
    between.hold()
    thread.join(SECONDS)
    assert answers == [201 if method == "POST" else 200]


def test_a_login_that_is_given_up_takes_nothing_from_the_next() -> None:
    """Under load a check ends before it is let in; what `enters` uses must not be used by two at once."""
    came: list[str] = []
    inside: list[str] = []
    seen: list[int] = []

    def enters(namespace: str, pod: str) -> None:
        inside.append(pod)
        time.sleep(0.1)
        seen.append(len(inside))
        inside.remove(pod)

    class Counted(ForwardTarget):
        """One that is given up before its thread is there never enters: each is waited for."""

        def _let_in(self, turn: threading.Lock, namespace: str, pod: str) -> None:
            came.append(pod)
            super()._let_in(turn, namespace, pod)

    async def workload() -> None:
        door = Counted(lambda namespace, pod: 1, enters)
        for number in range(4):
            path = f"/api/v1/namespaces/ns/pods/pod-{number}/portforward"
            turn = asyncio.create_task(door.forward(make_mocked_request("GET", path)))
            while len(came) == number:
                await asyncio.sleep(0.01)
            turn.cancel()
        await asyncio.to_thread(wait_until, lambda: len(seen) == 4, what="not all four", seconds=SECONDS)

    asyncio.run(workload())
    assert seen == [1, 1, 1, 1]

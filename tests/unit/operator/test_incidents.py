"""A container that failed and runs again is an Event of its resource, once, and its reason is in it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kindling.engine import events as module
from kindling.engine.events import EventRecorder
from kindling.kinds import incidents, reasons
from kindling.kinds.base import CachedResult, ExternalResult, Notice, Observed
from kindling.kinds.incidents import NEWS_SECONDS
from kindling.kinds.postgresql import usage
from kindling.kube.errors import Conflict
from kindling.kube.resources import POD, Object, Ref, ResourceType

from tests.apiserver.support.cluster import KINDS_BY_NAME
from tests.unit.operator.test_crash_loop import NOW, WAITING, ago, ended, pod, running


def notes(found: Object) -> list[str]:
    said = incidents.terminated([found], now=NOW)
    assert all(one.reason == "ContainerTerminated" for one in said)
    return [one.note for one in said]


def test_one_that_was_killed_for_its_memory_says_so_though_it_is_ready_again() -> None:
    last = ended(began=7000, stopped=90, code=137, reason="OOMKilled")
    for ready in (True, False):
        assert notes(pod(running(89), last=last, restarts=1, ready=ready)) == [
            f"Container c of Pod p failed at {ago(90)} and was started again: it used more memory than its "
            "limit, 256Mi, and was killed for that (OOMKilled). "
            "Raise the limit in the spec, or have it use less."
        ]


def test_any_other_failure_has_its_exit_code_and_where_its_last_words_are() -> None:
    last = ended(began=7000, stopped=90, code=3)
    assert notes(pod(running(89), last=last, restarts=1, ready=True)) == [
        f"Container c of Pod p failed at {ago(90)} and was started again, with exit code 3: see "
        "`kubectl logs p -c c --previous -n ns`."
    ]


@pytest.mark.parametrize(
    "found",
    [
        pod(running(89), last=ended(code=0, stopped=90), restarts=1),
        pod(running(), restarts=0),
        pod(running(NEWS_SECONDS), last=ended(began=9000, stopped=NEWS_SECONDS), restarts=1, ready=True),
        pod(WAITING, last=ended()),
        pod(running(), last=ended()),
        pod(running(), last={"exitCode": 1, "finishedAt": "soon"}, restarts=1, ready=True),
    ],
    ids=["it ended well", "never ended", "an hour ago", "keeps failing", "is tried once more", "no time"],
)
def test_no_news(found: Object) -> None:
    assert notes(found) == []


@pytest.mark.parametrize("kind", ["Postgresql", "Memcached", "PulsarConsumer"])
def test_each_kind_with_pods_has_it(kind: str) -> None:
    found = next(one for one in KINDS_BY_NAME.values() if one.type.kind == kind)
    name = "it-0" if kind == "Postgresql" else "it-x"
    labels = {"kindling.dev/kind": found.type.group_kind, "app.kubernetes.io/instance": "it"}
    failed = pod(running(89), last=ended(began=7000, stopped=90), restarts=1, ready=True)
    failed["metadata"] = {"namespace": "ns", "name": name, "labels": labels}
    observed = Observed(objects={Ref(POD, "ns", name): failed}, now=NOW, entropy=b"")
    (said,) = found.incidents(resource(), observed)
    assert said.note.startswith(f"Container c of Pod {name} failed at ")
    failed["metadata"]["deletionTimestamp"] = ago(1)
    assert not found.incidents(resource(), observed)


def resource() -> Object:
    return {"metadata": {"namespace": "ns", "name": "it", "uid": "u", "generation": 1}, "spec": {}}


@pytest.mark.parametrize(
    ("facts", "ok", "said"),
    [
        ({usage.CRASHED: ago(200)}, True, True),
        ({usage.CRASHED: ago(200)}, False, False),
        ({usage.CRASHED: ago(NEWS_SECONDS)}, True, False),
        ({usage.CRASHED: ""}, True, False),
        ({}, True, False),
    ],
)
def test_a_server_that_ended_all_sessions_is_named(facts: dict[str, Any], ok: bool, said: bool) -> None:
    result = ExternalResult(ok=ok, reason="" if ok else reasons.NOT_RESPONDING, facts=facts)
    objects = {Ref(POD, "ns", "it-0"): {"metadata": {"namespace": "ns", "name": "it-0"}}}
    results = {usage.MEMBER: CachedResult(cache_key=(usage.MEMBER, "u", 300, 0), result=result, at=NOW)}
    observed = Observed(objects=objects, now=NOW, entropy=b"", results=results)
    found = usage.incidents(resource(), observed)
    assert [one.reason for one in found] == ([reasons.SERVER_CRASHED] if said else [])
    assert all(f"at {ago(200)}, so that all sessions were ended" in one.note for one in found)
    another = {**resource(), "metadata": {**resource()["metadata"], "uid": "another"}}
    assert not usage.incidents(another, observed)


TYPE = ResourceType("d.io", "v1", "Thing", "things")


class Server:
    def __init__(self) -> None:
        self.posted: list[Object] = []
        self.known: set[str] = set()
        self.asked = 0

    async def create(self, type: ResourceType, body: Object) -> Object:
        self.asked += 1
        if body["metadata"]["name"] in self.known:
            raise Conflict(status=409, reason="AlreadyExists", message="")
        self.known.add(body["metadata"]["name"])
        self.posted.append(body)
        return body


def test_it_is_posted_once_also_by_the_next_process() -> None:
    async def run() -> None:
        server = Server()
        for instance in ("op-1", "op-2"):
            events = EventRecorder(api=server, instance=instance)
            running = asyncio.create_task(events.run())
            for note in ("a", "a", "b", "a"):
                events.incident(TYPE, resource(), Notice("Because", note))
            await asyncio.sleep(0.01)
            running.cancel()
        assert server.asked == 4
        assert [body["note"] for body in server.posted] == ["a", "b"]
        assert {body["type"] for body in server.posted} == {"Warning"}

    asyncio.run(run())


def test_one_for_which_there_was_no_place_is_posted_later() -> None:
    async def run() -> None:
        server = Server()
        events = EventRecorder(api=server, instance="op-1")
        for number in range(module.WAITING + 1):
            events.incident(TYPE, resource(), Notice("Because", str(number)))
        running = asyncio.create_task(events.run())
        await asyncio.sleep(0.5)
        events.incident(TYPE, resource(), Notice("Because", str(module.WAITING)))
        await asyncio.sleep(0.05)
        assert server.posted[-1]["note"] == str(module.WAITING)
        running.cancel()

    asyncio.run(run())


def test_so_many_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        server = Server()
        events = EventRecorder(api=server, instance="op-1")
        running = asyncio.create_task(events.run())
        for note in ("1", "2", "3", "3", "2", "1"):
            events.incident(TYPE, resource(), Notice("Because", note))
        await asyncio.sleep(0.05)
        assert server.asked == 4
        assert [body["note"] for body in server.posted] == ["1", "2", "3"]
        running.cancel()

    monkeypatch.setattr(module, "INCIDENTS", 2)
    asyncio.run(run())

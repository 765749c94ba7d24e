"""NAME-servers, the list where applications read it: only on request, never empty, and at rest when it is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from kindling.engine.plan import Apply, Delete, plan
from kindling.kinds.base import Child, SyncResult
from kindling.kube.resources import CONFIG_MAP, POD, Object, Ref

from tests.model.memory import MemoryApi
from tests.unit.operator.memcacheds import KIND, deployment, memcached, observed, pod, running

SERVERS = Ref(CONFIG_MAP, "ns", "cache-servers")


def asked(**spec: Any) -> Object:
    return memcached(binding="ConfigMap", **spec)


def child(cr: Object, children: dict[Ref, Object]) -> Child | None:
    found = [child for child in KIND.desired(cr, observed(children)) if child.type == CONFIG_MAP]
    return found[0] if found else None


def data(children: dict[Ref, Object], **spec: Any) -> dict[str, str]:
    made = child(asked(**spec), children)
    assert made is not None
    assert made.ref == SERVERS
    found: dict[str, str] = made.body["data"]
    return found


@pytest.mark.parametrize("spec", [{}, {"binding": None}])
def test_who_does_not_ask_has_the_children_of_before(spec: Object) -> None:
    with_it, without = KIND.desired(asked(), observed(running())), KIND.desired(memcached(), observed())
    assert [child.body for child in KIND.desired(memcached(**spec), observed(running()))] == [
        child.body for child in without
    ]
    assert [child.body for child in with_it[:-1]] == [child.body for child in without]


def test_one_a_line_and_as_json_and_under_the_keys_of_a_binding() -> None:
    found = data(running(["10.0.0.2", "fd00::1", "10.0.0.1"]), size=3)
    proxy = found.pop("proxy.lua")
    assert found == {
        "type": "memcached",
        "provider": "kindling",
        "host": "cache.ns.svc",
        "port": "11211",
        "servers": "10.0.0.1:11211\n10.0.0.2:11211\n[fd00::1]:11211\n",
        "servers.json": json.dumps(
            [
                {"host": "10.0.0.1", "port": 11211},
                {"host": "10.0.0.2", "port": 11211},
                {"host": "fd00::1", "port": 11211},
            ]
        ),
    }
    assert [line.strip() for line in proxy.splitlines() if "backend" in line] == [
        'mcp.backend("10.0.0.1:11211", "10.0.0.1", 11211),',
        'mcp.backend("10.0.0.2:11211", "10.0.0.2", 11211),',
        'mcp.backend("[fd00::1]:11211", "fd00::1", 11211),',
    ]


def test_it_is_the_list_of_the_status() -> None:
    cr, seen = asked(size=3), running(["10.0.0.2", "10.0.0.1"]) | deployment(replicas=3, availableReplicas=1)
    for _ in range(2):
        made = child(cr, seen)
        assert made is not None
        cr["status"] = KIND.status(cr, observed(seen), SyncResult(in_sync=True)).status
        assert made.body["data"]["servers"].split() == cr["status"]["serverList"] == ["10.0.0.1:11211"]


def test_it_is_made_with_the_first_cache_that_is_ready() -> None:
    starting = deployment(replicas=1, availableReplicas=0) | pod("cache-0", ready=False, ip=None)
    assert child(asked(), starting) is None
    assert child(asked(), running()) is not None


def test_it_stays_as_it_is_while_none_is_ready() -> None:
    """An empty list keeps most clients from starting, and helps none."""
    lost = deployment(replicas=1, availableReplicas=0) | pod("cache-0", ready=False)
    known = {SERVERS: {"metadata": {"namespace": "ns", "name": "cache-servers"}, "data": {"servers": "x"}}}
    made = child(asked(), lost | known)
    assert made is not None
    assert made.frozen
    assert "data" not in made.body


def test_each_cache_is_named_by_its_own_port_and_the_service_by_the_wanted_one() -> None:
    found = data(
        running() | pod("cache-1", ip="10.0.0.2", port="80") | deployment(replicas=2), containerPort=80
    )
    assert found["servers"] == "10.0.0.1:11211\n10.0.0.2:80\n"
    assert found["port"] == "80"


@pytest.mark.parametrize(
    ("ip", "port"),
    [
        ("10.0.0.9", "0"),
        ("10.0.0.9", "65536"),
        ("10.0.0.9", "١١"),
        ('1", os.exit()) --', "11211"),
        ("fe80::1%et\nh", "11211"),
        ("cache", "11211"),
    ],
)
def test_what_is_no_address_gets_nowhere(ip: str, port: str) -> None:
    """The configuration of a proxy is a program."""
    found = data(running() | pod("cache-9", ip=ip, port=port) | deployment(replicas=2))
    assert found == data(running())


def test_written_only_when_the_list_changes_and_set_back_when_edited_and_gone_when_not_wanted() -> None:
    api, cr = MemoryApi(), asked(size=2)
    seen = running(["10.0.0.1", "10.0.0.2"])

    def actions(cr: Object, seen: dict[Ref, Object]) -> list[object]:
        world = {**api.objects, **{ref: obj for ref, obj in seen.items() if ref.type == POD}}
        world |= {ref: {**api.objects.get(ref, {}), **obj} for ref, obj in seen.items() if ref.type != POD}
        wanted = KIND.desired(cr, observed(world))
        decided = plan(type=KIND.type, cr=cr, desired=wanted, observed=api.objects)
        assert decided.problem is None
        for action in decided.actions:
            if isinstance(action, Apply):
                asyncio.run(api.apply(action.type, action.body))
        return list(decided.actions)

    assert len(actions(cr, seen)) == 5
    assert actions(cr, dict(reversed(seen.items()))) == []
    (written,) = actions(cr, seen | pod("cache-2", ip="10.0.0.3") | deployment(replicas=3))
    assert isinstance(written, Apply)
    assert (written.type, written.drift) == (CONFIG_MAP, False)
    api.edit(SERVERS, {"data": {"servers": "10.6.6.6:11211\n"}})
    (repair,) = actions(cr, seen | pod("cache-2", ip="10.0.0.3") | deployment(replicas=3))
    assert isinstance(repair, Apply)
    assert repair.drift
    assert [action.ref for action in actions(memcached(size=2), seen) if isinstance(action, Delete)] == [
        SERVERS
    ]

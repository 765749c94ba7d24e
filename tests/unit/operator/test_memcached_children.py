"""What a Memcached wants: the documents' command as it was meant, in restricted Pods, then at rest."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from kindling.engine.plan import Apply, Delete, plan
from kindling.engine.quantity import quantity
from kindling.kinds.base import Child
from kindling.kinds.memcached import Memcached, spec
from kindling.kube.resources import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    SECRET,
    SERVICE,
    Object,
    Ref,
    ResourceType,
)

from tests.model.memory import MemoryApi
from tests.unit.operator.memcacheds import KIND, NAMES, SPECS, memcached, observed
from tests.unit.operator.networks import DEFAULT_PEERS


def children(cr: Object) -> dict[ResourceType, Child]:
    return {child.type: child for child in KIND.desired(cr, observed())}


def body(type: ResourceType, **wanted: Any) -> Object:
    return children(memcached(**wanted))[type].body


def pod_of(**wanted: Any) -> Object:
    found: Object = body(DEPLOYMENT, **wanted)["spec"]["template"]["spec"]
    return found


def command(**wanted: Any) -> list[str]:
    found: list[str] = pod_of(**wanted)["containers"][0]["command"]
    return found


def resources(**wanted: Any) -> Object:
    found: Object = pod_of(**wanted)["containers"][0]["resources"]
    return found


@given(SPECS, NAMES)
def test_total_and_plan_comes_to_rest(wanted: Object, name: str) -> None:
    """Any admitted spec: applied once as it is, nothing is left to write."""
    cr, api = memcached(name=name, **wanted), MemoryApi()

    def actions() -> list[Apply]:
        decided = plan(type=KIND.type, cr=cr, desired=KIND.desired(cr, observed()), observed=api.objects)
        assert decided.problem is None
        return [action for action in decided.actions if isinstance(action, Apply)]

    first = actions()
    assert len([one for one in first if one.type != SECRET]) == (
        3 + (wanted.get("size", 1) > 1) + 2 * wanted.get("discovery", False)
    )
    for action in first:
        asyncio.run(api.apply(action.type, action.body))
    assert actions() == []
    assert all(ref.type in KIND.children for ref in api.objects)
    assert all(len(ref.name) <= 52 for ref in api.objects if ref.type != SECRET)


def test_the_documents_command_with_64_mebibytes() -> None:
    """Not -m=64: memcached takes that for 0 and ends."""
    meant = ["memcached", "--memory-limit=64", "-o", "modern", "-v", "--port=11211"]
    assert command() == command(size=1, containerPort=11211) == meant


def test_what_is_asked_reaches_memcached() -> None:
    words = command(containerPort=80, memoryMB=256, maxConnections=2000, threads=2)
    assert words == [
        "memcached", "--memory-limit=256", "-o", "modern", "-v", "--port=80",
        "--conn-limit=2000", "--threads=2",
    ]  # fmt: skip


@pytest.mark.parametrize("port", [1, 1023, 1024, 11211, 65535])
def test_port_is_one_everywhere_and_a_low_one_may_be_bound(port: int) -> None:
    pod = pod_of(containerPort=port)
    assert pod["containers"][0]["ports"] == [{"name": "memcached", "containerPort": port, "protocol": "TCP"}]
    assert body(SERVICE, containerPort=port)["spec"]["ports"] == [
        {"name": "memcached", "port": port, "targetPort": "memcached", "protocol": "TCP"}
    ]
    low = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    assert pod["securityContext"].get("sysctls") == (low if port < 1024 else None)


def test_size_changes_the_number_alone() -> None:
    """Whatever else it changed in the template would restart every cache empty."""
    one, three = body(DEPLOYMENT, size=1)["spec"], body(DEPLOYMENT, size=3)["spec"]
    assert (one.pop("replicas"), three.pop("replicas")) == (1, 3)
    assert one == three


def test_pod_is_restricted() -> None:
    """The restricted pod security standard, rule by rule."""
    pod = pod_of()
    assert pod["automountServiceAccountToken"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == 1001
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "volumes" not in pod
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_no_shell_anywhere() -> None:
    for word in json.dumps(pod_of()).split('"'):
        assert word not in {"sh", "bash", "/bin/sh", "/bin/bash", "-c"}


def test_a_leaving_pod_has_time_to_be_forgotten() -> None:
    pod = pod_of()
    seconds = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < seconds < pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        (None, {"cpu": "50m", "memory": "152Mi"}, {"memory": "152Mi"}),
        ({"limits": {"memory": "1Gi"}}, {"cpu": "50m", "memory": "152Mi"}, {"memory": "1Gi"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "50m", "memory": "1Gi"}, {"memory": "1Gi"}),
        ({"requests": {"memory": 1}}, {"cpu": "50m", "memory": 1}, {"memory": "152Mi"}),
        ({"limits": {"cpu": "10m"}}, {"memory": "152Mi"}, {"cpu": "10m", "memory": "152Mi"}),
        ({"requests": {"cpu": 2}}, {"cpu": 2, "memory": "152Mi"}, {"memory": "152Mi"}),
    ],
)
def test_memory_left_out_is_what_memcached_needs(given: Object, requests: Object, limits: Object) -> None:
    assert resources(resources=given) == {"requests": requests, "limits": limits}


@given(SPECS)
def test_no_default_exceeds_its_limit(wanted: Object) -> None:
    """Or the API server would refuse the Deployment for a value that nobody wrote."""
    written = wanted.get("resources", {})
    made = spec.read(memcached(**wanted)).resources
    for name in made["requests"].keys() & made["limits"].keys():
        both_written = name in written.get("requests", {}) and name in written.get("limits", {})
        assert both_written or quantity(made["requests"][name]) <= quantity(made["limits"][name])


def test_service_is_headless_and_names_the_ready_alone() -> None:
    found = body(SERVICE)["spec"]
    assert (found["clusterIP"], found["publishNotReadyAddresses"]) == ("None", False)


def test_nothing_but_its_port_may_be_reached_and_nobody_by_it() -> None:
    found = body(NETWORK_POLICY)["spec"]
    assert sorted(found["policyTypes"]) == ["Egress", "Ingress"]
    assert found["egress"] == []
    (rule,) = found["ingress"]
    assert rule["from"] == DEFAULT_PEERS
    (port,) = rule["ports"]
    assert port["port"] == pod_of()["containers"][0]["ports"][0]["name"]


def test_every_selector_selects_the_pods() -> None:
    made = children(memcached(size=2))
    labels = made[DEPLOYMENT].body["spec"]["template"]["metadata"]["labels"].items()
    constraint = pod_of(size=2)["topologySpreadConstraints"][0]
    for selector in (
        made[SERVICE].body["spec"]["selector"],
        made[DEPLOYMENT].body["spec"]["selector"]["matchLabels"],
        made[DISRUPTION_BUDGET].body["spec"]["selector"]["matchLabels"],
        made[NETWORK_POLICY].body["spec"]["podSelector"]["matchLabels"],
        constraint["labelSelector"]["matchLabels"],
    ):
        assert selector
        assert selector.items() <= labels
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"


def test_budget_goes_with_the_second_replica() -> None:
    api = MemoryApi()

    def actions(size: int) -> list[object]:
        cr = memcached(size=size)
        decided = plan(type=KIND.type, cr=cr, desired=KIND.desired(cr, observed()), observed=api.objects)
        return list(decided.actions)

    for action in actions(2):
        assert isinstance(action, Apply)
        asyncio.run(api.apply(action.type, action.body))
    budget = Ref(DISRUPTION_BUDGET, "ns", "cache")
    assert api.objects[budget]["spec"]["maxUnavailable"] == 1
    assert [action.ref for action in actions(1) if isinstance(action, Delete)] == [budget]


@pytest.mark.parametrize(
    ("type", "edit"),
    [
        (DEPLOYMENT, {"spec": {"replicas": 5}}),
        (DEPLOYMENT, {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}}),
        (SERVICE, {"spec": {"publishNotReadyAddresses": True}}),
        (NETWORK_POLICY, {"spec": {"egress": [{}]}}),
        (DISRUPTION_BUDGET, {"spec": {"maxUnavailable": 3}}),
    ],
)
def test_edits_are_seen(type: ResourceType, edit: Object) -> None:
    cr, api = memcached(size=2), MemoryApi()
    wanted = KIND.desired(cr, observed())
    for action in plan(type=KIND.type, cr=cr, desired=wanted, observed={}).actions:
        assert isinstance(action, Apply)
        asyncio.run(api.apply(action.type, action.body))
    api.edit(Ref(type, "ns", "cache"), edit)
    (repair,) = plan(type=KIND.type, cr=cr, desired=wanted, observed=api.objects).actions
    assert isinstance(repair, Apply)
    assert (repair.type, repair.drift) == (type, True)


def test_image_is_the_operators() -> None:
    made = {
        child.type: child
        for child in Memcached(image="mine:1", exporters_image="exporters:1").desired(memcached(), observed())
    }
    assert made[DEPLOYMENT].body["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:1"

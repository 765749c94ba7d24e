"""spec.workload: stable names of a StatefulSet's caches, and one workload in the other's place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kindling.engine.plan import Delete, plan
from kindling.kinds.base import RequeueAfter, SyncResult
from kindling.kinds.certificates import Certificate, read
from kindling.kinds.conditions import find_condition
from kindling.kinds.memcached import observation, workloads
from kindling.kinds.memcached.workload import WORKLOAD_LABEL
from kindling.kinds.metadata import INSTANCE_LABEL
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Object,
    Ref,
    ResourceType,
)

from tests.unit.operator.memcacheds import (
    KIND,
    deployment,
    memcached,
    named_pod,
    observed,
    owned,
    pod,
    stateful_set,
)

SETTLED = SyncResult(in_sync=True)
NAMES = [f"cache-{number}.cache.ns.svc:11211" for number in range(3)]


def named(count: int, **status: object) -> dict[Ref, Object]:
    """A StatefulSet and its ready Pods."""
    found = stateful_set(replicas=count, **status)
    for number in range(count):
        found |= named_pod(number)
    return found


def owned_deployment(ips: list[str], **counts: int) -> dict[Ref, Object]:
    """A Deployment of the resource's own and its ready Pods."""
    (body,) = deployment(replicas=len(ips)).values()
    found = {Ref(DEPLOYMENT, "ns", "cache"): owned({**body, "status": {**body["status"], **counts}})}
    for ip in ips:
        found |= pod(f"cache-5d8f-{ip}", ip=ip)
    return found


def stateful(size: int = 1, **spec: Any) -> Object:
    return memcached(size=size, workload="StatefulSet", **spec)


def servers(cr: Object, children: dict[Ref, Object]) -> list[str]:
    found: list[str] = KIND.status(cr, observed(children), SETTLED).status["serverList"]
    return found


def deleted(cr: Object, children: dict[Ref, Object]) -> list[ResourceType]:
    """The types of what would be deleted."""
    wanted = KIND.desired(cr, observed(children))
    found = plan(type=KIND.type, cr=cr, desired=wanted, observed=children).actions
    return [action.ref.type for action in found if isinstance(action, Delete)]


def child(cr: Object, type: ResourceType, children: dict[Ref, Object] | None = None) -> Object:
    (found,) = (each.body for each in KIND.desired(cr, observed(children)) if each.type == type)
    return found


def test_the_names_are_listed_by_number_of_those_that_are_ready() -> None:
    children = {**named(12), **named_pod(1, ready=False)}
    listed = servers(stateful(12), children)
    assert listed == [f"cache-{number}.cache.ns.svc:11211" for number in (0, *range(2, 12))]


def test_the_list_for_applications_has_the_names() -> None:
    data = child(stateful(2, binding="ConfigMap"), CONFIG_MAP, named(2))["data"]
    assert data["servers"].split() == NAMES[:2]
    assert json.loads(data["servers.json"])[1] == {"host": "cache-1.cache.ns.svc", "port": 11211}
    assert f'mcp.backend("{NAMES[1]}", "cache-1.cache.ns.svc", 11211)' in data["proxy.lua"]


def test_a_pod_is_asked_at_its_address() -> None:
    """A name is the next Pod's too, and is not resolved outside of the cluster."""
    (probe,) = KIND.probes(stateful(statistics=True), observed(named(1))).values()
    assert probe.request.host == "10.0.1.0"


def test_of_the_ready_those_are_listed_first_that_were_ready_first() -> None:
    """minReadySeconds has the StatefulSet count them later than they are ready, and the names be resolved."""
    children = stateful_set(replicas=2, availableReplicas=1)
    children |= named_pod(0, since="2026-01-01T00:00:59Z") | named_pod(1, since="2026-01-01T00:00:10Z")
    assert servers(stateful(2), children) == [NAMES[1]]
    assert child(stateful(), STATEFUL_SET)["spec"]["minReadySeconds"] > 0


@pytest.mark.parametrize(
    "name", ["cache-x", "cache-01", "other-0", "0", "cache-", "cache-1234567890", "cache-٣"]
)
def test_a_pod_of_another_name_is_none_of_the_statefulsets(name: str) -> None:
    (strange,) = named_pod(0).values()
    strange["metadata"]["name"] = name
    children = {**stateful_set(replicas=1, availableReplicas=9), Ref(POD, "ns", name): strange}
    assert servers(stateful(), children) == []


def test_no_selector_of_a_workload_takes_the_others_pods() -> None:
    """A Deployment's own cannot change, so a StatefulSet's has a label more, and its Pods too."""
    before, after = child(memcached(), DEPLOYMENT)["spec"], child(stateful(), STATEFUL_SET)["spec"]
    asked = after["selector"]["matchLabels"]
    assert not asked.items() <= before["template"]["metadata"]["labels"].items()
    assert asked.items() <= after["template"]["metadata"]["labels"].items()
    assert WORKLOAD_LABEL in asked
    assert after["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == asked


def test_what_leads_to_the_pods_and_protects_them_selects_both() -> None:
    for cr, workload in ((memcached(size=2), DEPLOYMENT), (stateful(2), STATEFUL_SET)):
        labels = child(cr, workload)["spec"]["template"]["metadata"]["labels"]
        found = {
            SERVICE: child(cr, SERVICE)["spec"]["selector"],
            DISRUPTION_BUDGET: child(cr, DISRUPTION_BUDGET)["spec"]["selector"]["matchLabels"],
            NETWORK_POLICY: child(cr, NETWORK_POLICY)["spec"]["podSelector"]["matchLabels"],
        }
        for type, selector in found.items():
            assert selector.items() <= labels.items(), type
            assert selector[INSTANCE_LABEL] == "cache"


ADDRESSES = ["10.0.0.1:11211", "10.0.0.2:11211"]


def world(workload: ResourceType, **counts: int) -> dict[Ref, Object]:
    """Two caches of that workload."""
    if workload == STATEFUL_SET:
        return named(2, **counts)
    return owned_deployment(["10.0.0.1", "10.0.0.2"], **counts)


@pytest.mark.parametrize(
    ("before", "to", "old", "new"),
    [(DEPLOYMENT, STATEFUL_SET, ADDRESSES, NAMES[:2]), (STATEFUL_SET, DEPLOYMENT, NAMES[:2], ADDRESSES)],
    ids=["named", "unnamed"],
)
def test_what_ran_before_stays_until_all_of_the_other_are_ready(
    before: ResourceType, to: ResourceType, old: list[str], new: list[str]
) -> None:
    cr = memcached(size=2, workload=to.kind, binding="ConfigMap", status={"serverList": old})
    steps = {
        "nothing of it yet": ({}, old),
        "not counted": (world(to, availableReplicas=0), old),
        "one counted": (world(to, availableReplicas=1), [*old, new[0]]),
        "not of this spec": (world(to, updatedReplicas=1), [*old, *new]),
    }
    for name, (made, listed) in steps.items():
        children = {**made, **world(before)}
        assert set(servers(cr, children)) == set(listed), name
        assert set(child(cr, CONFIG_MAP, children)["data"]["servers"].split()) == set(listed), name
        assert before not in deleted(cr, children), name
        ready = find_condition(KIND.status(cr, observed(children), SETTLED).status, "Ready")
        assert ready["status"] == "False", name
        assert f"The {before.kind} stays until the {to.kind} has all its replicas and" in ready["message"], (
            name
        )
    children = {**world(to), **world(before)}
    assert deleted(cr, children) == [before]
    assert servers(cr, children) == new, "and its Pods are left out in the same moment"
    left = {ref: obj for ref, obj in children.items() if ref.type != before}
    report = KIND.status(cr, observed(left), SETTLED).status
    assert find_condition(report, "Ready")["status"] == "True"
    assert report["serverList"] == new
    assert report["replicas"] == 2


def on_its_way(*listed: str) -> Object:
    """The status of one that has made no progress since the day before."""
    since = {"lastTransitionTime": "2025-12-31T00:00:00Z", "reason": "Reconciling"}
    conditions = [
        {"type": "Ready", "status": "False", **since},
        {"type": "Progressing", "status": "True", **since},
    ]
    return {"observedGeneration": 1, "conditions": conditions, "serverList": [*listed]}


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [({"binding": "ConfigMap"}, 81.0), ({"discovery": True}, 141.0)],
    ids=["files", "clients that ask once a minute"],
)
def test_with_a_list_what_ran_before_stays_until_who_reads_it_has_the_others(
    asked: Object, seconds: float
) -> None:
    """The kubelet has files up to date within 120 s; now is 2026-01-01T00:01:00Z."""
    young = {**stateful_set(replicas=1), **named_pod(0, since="2026-01-01T00:00:20Z")}
    children = {**young, **owned_deployment(["10.0.0.1"])}
    status = on_its_way("10.0.0.1:11211")
    cr = stateful(progressDeadlineSeconds=10, status=status, **asked)
    assert deleted(cr, children) == []
    report = KIND.status(cr, observed(children), SETTLED)
    assert report.result == RequeueAfter(seconds)
    assert report.status["serverList"] == ["10.0.0.1:11211", NAMES[0]]
    assert find_condition(report.status, "Ready")["reason"] == "Reconciling"
    assert find_condition(report.status, "Degraded")["status"] == "False", "it waits on purpose"
    assert deleted(stateful(status=status), children) == [DEPLOYMENT], "without one at once"


def test_while_others_serve_a_cache_is_listed_once_clients_get_to_it() -> None:
    """The network may let them in later than it is ready, which the kubelet says."""
    children = {**owned_deployment([]), **named(1)}
    (body,) = deployment(replicas=1).values()
    children[Ref(DEPLOYMENT, "ns", "cache")] = owned(body)
    children |= pod("cache-5d8f-1", since="2026-01-01T00:00:58Z")
    cr = memcached(size=1, status={"serverList": NAMES[:1]})
    assert servers(cr, children) == NAMES[:1]
    assert deleted(cr, children) == []
    report = KIND.status(cr, observed(children), SETTLED)
    assert report.result == RequeueAfter(2.0)
    assert find_condition(report.status, "Ready")["status"] == "False", "as many as wanted, but not those"
    children |= pod("cache-5d8f-1", since="2026-01-01T00:00:56Z")
    assert servers(cr, children) == ADDRESSES[:1]
    assert deleted(cr, children) == [STATEFUL_SET]
    del children[Ref(STATEFUL_SET, "ns", "cache")]
    children |= pod("cache-5d8f-1", since="2026-01-01T00:00:59Z")
    assert servers(memcached(size=1), children) == ADDRESSES[:1], "where it is the only one, at once"


def test_a_pod_that_is_not_ready_counts_for_nothing_whatever_the_workload_says() -> None:
    children = {**named(2), **named_pod(1, ready=False), **owned_deployment(["10.0.0.1"])}
    assert DEPLOYMENT not in deleted(stateful(2), children)


@pytest.mark.parametrize("taken_back", [DEPLOYMENT, STATEFUL_SET], ids=["unnamed", "named"])
def test_of_a_change_that_is_taken_back_what_is_half_made_is_deleted(taken_back: ResourceType) -> None:
    """At once, because what serves is whole."""
    (half,) = (workload for workload in workloads.BOTH if workload != taken_back)
    children = {**world(taken_back), **world(half, availableReplicas=1)}
    assert deleted(memcached(size=2, workload=taken_back.kind), children) == [half]


def test_what_ran_before_is_not_touched_by_another_spec() -> None:
    """Else a change of two fields would restart what is to go, and empty it."""
    children = {**owned_deployment(["10.0.0.1"])}
    cr = stateful(1, memoryMB=128)
    (kept,) = (each for each in KIND.desired(cr, observed(children)) if each.type == DEPLOYMENT)
    assert kept.frozen
    written = plan(type=KIND.type, cr=cr, desired=KIND.desired(cr, observed(children)), observed=children)
    assert not [each for each in written.actions if getattr(each, "type", None) == DEPLOYMENT]


def test_anothers_workload_of_that_name_is_left_alone() -> None:
    (body,) = deployment(replicas=1).values()
    body["metadata"] |= {"uid": "theirs", "resourceVersion": "1"}
    children = {Ref(DEPLOYMENT, "ns", "cache"): body, **stateful_set(replicas=1, availableReplicas=0)}
    assert deleted(stateful(), children) == []
    assert all(each.type != DEPLOYMENT for each in KIND.desired(stateful(), observed(children)))


def test_what_keeps_the_wanted_one_from_running_is_said_not_what_becomes_of_the_other() -> None:
    waiting = {"name": "memcached", "state": {"waiting": {"reason": "ImagePullBackOff"}}, "image": "x"}
    broken = pod("old", ready=False, containerStatuses=[waiting])
    children = {**named(2, availableReplicas=1), **owned_deployment(["10.0.0.1"]), **broken}
    ready = find_condition(KIND.status(stateful(2), observed(children), SETTLED).status, "Ready")
    assert ready["reason"] == "Reconciling"
    (new,) = named_pod(1, ready=False).values()
    new["status"]["containerStatuses"] = [waiting]
    children |= {Ref(POD, "ns", "cache-1"): new}
    ready = find_condition(KIND.status(stateful(2), observed(children), SETTLED).status, "Ready")
    assert ready["reason"] == "ImagePullFailed"


def test_a_pod_that_is_being_deleted_is_waited_for_and_one_beyond_size_is_not() -> None:
    at = "2026-01-01T00:00:30Z"
    children = {**named(2), **named_pod(1, deletionTimestamp=at), **named_pod(2, deletionTimestamp=at)}
    progress = observation.pod_progress(KIND.type, stateful(2), observed(children))
    assert [each["metadata"]["name"] for each in progress.ending] == ["cache-1"]
    assert [each["metadata"]["name"] for each in progress.pods] == ["cache-0"]
    assert progress.workload == Ref(STATEFUL_SET, "ns", "cache")
    assert progress.observed_by_controller
    assert servers(stateful(2), children) == NAMES[:1]


def certificate(cr: Object, children: dict[Ref, Object] | None = None) -> Certificate:
    (body,) = (
        each.body
        for each in KIND.desired(cr, observed(children))
        if each.type == SECRET and each.body["metadata"]["name"] == "cache-server-tls"
    )
    found = read(observed({Ref(SECRET, "ns", "s"): body}).secret(namespace="ns", name="s")["tls.crt"])
    assert found is not None
    return found


def test_the_certificate_has_each_caches_name_while_there_is_one() -> None:
    stars = {"*.cache.ns", "*.cache.ns.svc", "*.cache.ns.svc.cluster.local"}
    on = {"enabled": True}
    assert certificate(stateful(tls=on)).names >= {*stars, "cache.ns.svc"}
    assert not certificate(memcached(tls=on)).names & stars
    assert certificate(memcached(tls=on), named(1)).names >= stars, "until those caches are gone"


def test_serving_is_both_only_in_between() -> None:
    both = {**named(1, availableReplicas=0), **owned_deployment(["10.0.0.1"])}
    assert workloads.serving(KIND.type, stateful(), observed(both)) == [DEPLOYMENT, STATEFUL_SET]
    assert workloads.serving(KIND.type, memcached(), observed(both)) == [DEPLOYMENT]

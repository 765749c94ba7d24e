"""A database that makes no progress, with Kubernetes' own controllers: it is reported, then it is a fault.

In a cluster of its own, which has few addresses for Services, asks for ServiceAccounts, and has a node that
stops reporting.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from kindling.kinds.backup import results, runs
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.pods import UNSCHEDULABLE_AFTER_SECONDS
from kindling.kinds.restore import start_deadline
from kindling.kube.resources import DEPLOYMENT, JOB, POD, SERVICE, STATEFUL_SET, Ref, ResourceType

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, cluster, path, ref_to
from tests.apiserver.support.controllers import NODE_SECONDS
from tests.apiserver.support.controlplane import ACCOUNTS
from tests.apiserver.support.kinds import MEMCACHED, POSTGRESQL
from tests.apiserver.support.kubelet import NODE
from tests.apiserver.support.operator_process import operator

KIND = KINDS_BY_NAME[POSTGRESQL.id]
DEADLINE_SECONDS = 30
SECONDS = 30.0
LATE_SECONDS = 10.0
RANGE = "10.0.0.0/28"
ADDRESSES = 16


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("deadline")
    with (
        cluster(directory=directory, options=[f"--service-cluster-ip-range={RANGE}", ACCOUNTS]) as running,
        operator(running.operator_plane, env={"RES_OPTIONS": "timeout:1 attempts:1"}) as process,
    ):
        process.wait_ready()
        yield running


def condition(place: Cluster, ref: Ref, type: str) -> Json:
    return find_condition((place.get(ref) or {}).get("status") or {}, type)


def wait_degraded(place: Cluster, ref: Ref, reason: str, *, seconds: float) -> float:
    """Returns after how many seconds since it was on its way."""
    wait_until(
        lambda: (
            [condition(place, ref, "Degraded").get(name) for name in ("status", "reason")] == ["True", reason]
        ),
        seconds=seconds,
        what=lambda: f"{ref} is Degraded, {reason}: {place.ready(ref)}",
    )
    since, until = (condition(place, ref, type)["lastTransitionTime"] for type in ("Ready", "Degraded"))
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def refuse_pods(place: Cluster, namespace: str) -> str:
    """A quota that admits no Pod, in force; returns its path."""
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    place.api.create(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}).accepted()
    wait_until(
        lambda: "hard" in place.api.get(f"{quotas}/few").accepted().get("status", {}),
        seconds=SECONDS,
        what="the quota in force",
    )
    return f"{quotas}/few"


def test_a_pod_that_a_quota_refuses_is_missing_in_the_quotas_words(place: Cluster) -> None:
    namespace = place.namespace("refused")
    quota = refuse_pods(place, namespace)
    ref = ref_to(KIND, namespace, "db")
    place.create(KIND, namespace, "db", {"progressDeadlineSeconds": DEADLINE_SECONDS})
    found = place.wait_ready_reason(ref, "PodMissing", seconds=UNSCHEDULABLE_AFTER_SECONDS + LATE_SECONDS)
    assert "exceeded quota: few" in found["message"]
    assert condition(place, ref, "Degraded")["status"] == "False"
    took = wait_degraded(place, ref, "PodMissing", seconds=DEADLINE_SECONDS + LATE_SECONDS)
    assert DEADLINE_SECONDS <= took <= DEADLINE_SECONDS + LATE_SECONDS
    mark = place.audit.mark()
    place.audit.wait_quiet()
    assert [request for request in place.audit.writes(mark, namespace=namespace) if request.status] == []
    place.api.delete(quota).accepted()
    # Its controller has by now grown slow to try again; touched, it tries at once.
    place.merge(Ref(STATEFUL_SET, namespace, "db"), {"metadata": {"labels": {"touched": "yes"}}})
    wait_until(
        lambda: place.ready(ref).get("reason") != "PodMissing", seconds=SECONDS, what="the Pod is there"
    )


@pytest.mark.parametrize(
    ("crd", "reason", "type"),
    [(POSTGRESQL.id, "PodMissing", STATEFUL_SET), (MEMCACHED.id, "FailedCreate", DEPLOYMENT)],
)
def test_an_account_that_does_not_exist_is_named_and_awaited(
    place: Cluster, crd: str, reason: str, type: ResourceType
) -> None:
    kind = KINDS_BY_NAME[crd]
    namespace = place.namespace(f"account-{kind.type.plural}")
    ref, workload = ref_to(kind, namespace, "one"), Ref(type, namespace, "one")
    place.create(kind, namespace, "one", {"podTemplate": {"spec": {"serviceAccountName": "shop"}}})
    found = place.wait_ready_reason(ref, reason, seconds=UNSCHEDULABLE_AFTER_SECONDS + LATE_SECONDS)
    assert 'serviceaccount "shop" not found' in found["message"]
    assert (
        "Create that ServiceAccount, or name another in spec.podTemplate.spec.serviceAccountName"
        in (found["message"])
    )
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    place.api.create(accounts, {"metadata": {"name": "shop"}}).accepted()
    # Its controller has by now grown slow to try again; touched, it tries at once.
    place.merge(workload, {"metadata": {"labels": {"touched": "yes"}}})
    wait_until(lambda: place.ready(ref).get("reason") != reason, seconds=2 * SECONDS, what="the Pod is there")
    selector = place.api.get(path(workload)).accepted()["spec"]["selector"]["matchLabels"]
    pods = place.list(POD, namespace, selector=selector)
    assert [pod["spec"]["serviceAccountName"] for pod in pods] == ["shop"]
    volumes = [volume for pod in pods for volume in pod["spec"].get("volumes", ())]
    assert not any("projected" in volume for volume in volumes), "no token is mounted"


def test_a_full_service_range_is_reported_with_the_servers_message(place: Cluster) -> None:
    """Rejected with status 500, which looks transient and is not."""
    namespace = place.namespace("full")
    taken: list[Ref] = []
    services = SERVICE.path(namespace=namespace)
    for number in range(ADDRESSES):
        body = {"metadata": {"name": f"s{number}"}, "spec": {"ports": [{"port": 80}]}}
        answer = place.api.create(services, body)
        if answer.status != 201:
            assert "range is full" in answer.message
            break
        taken.append(Ref(SERVICE, namespace, f"s{number}"))
    try:
        ref = ref_to(KIND, namespace, "db")
        place.create(KIND, namespace, "db", {"progressDeadlineSeconds": 10})
        found = place.wait_ready_reason(ref, "ServerError", seconds=SECONDS)
        assert "range is full" in found["message"]
        wait_degraded(place, ref, "ServerError", seconds=SECONDS)
    finally:
        for service in taken:
            place.delete(service)
    wait_until(lambda: place.ready(ref).get("reason") != "ServerError", seconds=90.0, what="the Service")


def test_a_node_that_stops_reporting_is_lost(place: Cluster) -> None:
    """Last, because it takes all Pods with it."""
    namespace = place.namespace("lost")
    ref, pod = ref_to(KIND, namespace, "db"), Ref(POD, namespace, "db-0")
    place.create(KIND, namespace, "db", {"progressDeadlineSeconds": DEADLINE_SECONDS})
    wait_until(
        lambda: find_condition((place.get(pod) or {}).get("status") or {}, "Ready").get("status") == "True",
        seconds=SECONDS,
        what="the Pod is ready",
    )
    place.api.create("/api/v1/nodes", {"metadata": {"name": NODE}}).accepted()
    now = rfc3339(datetime.now(UTC))
    said = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting"}
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    last_result = {"status": {"conditions": [{**said, **times}]}}
    place.api.merge(f"/api/v1/nodes/{NODE}/status", last_result).accepted()
    found = place.wait_ready_reason(ref, "NodeLost", seconds=4 * NODE_SECONDS + SECONDS)
    assert f"kubectl get pod db-0 -n {namespace} -o wide" in found["message"]
    assert condition(place, ref, "Degraded")["status"] == "False"
    wait_degraded(place, ref, "NodeLost", seconds=DEADLINE_SECONDS + SECONDS)
    assert place.api.get(path(pod)).accepted()["spec"]["nodeName"] == NODE


@pytest.mark.parametrize("quota", [False, True])
def test_a_job_whose_pod_has_not_started_ends_at_once_and_leaves_no_pod(place: Cluster, quota: bool) -> None:
    """What a Restore in place counts on before it lets a server start: no run begins after that."""
    namespace = place.namespace("job" + "-quota" * quota)
    if quota:
        refuse_pods(place, namespace)
    container = {"name": runs.CONTAINER, "image": "none"}
    template = {
        "metadata": {"labels": {"run": "one"}},
        "spec": {"nodeSelector": {"no": "node"}, "restartPolicy": "Never", "containers": [container]},
    }
    spec = {"backoffLimit": 0, "activeDeadlineSeconds": runs.SECONDS, "template": template}
    job = Ref(JOB, namespace, "one")
    place.api.create(JOB.path(namespace=namespace), {"metadata": {"name": "one"}, "spec": spec}).accepted()
    wait_until(
        lambda: "startTime" in ((place.get(job) or {}).get("status") or {}), seconds=SECONDS, what="its start"
    )
    if not quota:
        wait_until(
            lambda: len(place.list(POD, namespace, selector={"run": "one"})) == 1,
            seconds=SECONDS,
            what="its Pod",
        )
    place.merge(job, start_deadline.ENDED)
    wait_until(lambda: results.ended(place.get(job) or {}) is not None, seconds=SECONDS, what="its end")
    assert results.ended(place.get(job) or {}) == results.FAILED
    assert place.list(POD, namespace, selector={"run": "one"}) == []

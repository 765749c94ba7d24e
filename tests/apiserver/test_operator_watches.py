"""MyCustomResource follows Pods of all namespaces by one watch, which is there while somebody looks: at once,
and never by listing them again.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.metadata import SELECTOR
from kindling.kube.resources import POD, Ref

from tests.apiserver.conftest import Replica
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path, ref_to
from tests.apiserver.support.kinds import MY_CUSTOM_RESOURCE

MANY, CHURN = 1000, 200
ROUNDS = 10
# A second is what is promised; the machine may be busy with other things.
SECONDS = 5.0
MANY_SECONDS = 60.0

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture(scope="module", autouse=True)
def nobody_looks_yet(running_cluster: Cluster) -> None:
    """Whatever other modules left: the replica of this one begins with none that looks for anybody."""
    everywhere = KINDS_BY_NAME[MY_CUSTOM_RESOURCE.id].type.path(namespace=None)

    def left() -> list[Json]:
        return [item["metadata"] for item in running_cluster.api.get(everywhere).accepted()["items"]]

    def who() -> str:
        namespaces = {metadata["namespace"] for metadata in left()}
        going = [
            running_cluster.api.get(f"/api/v1/namespaces/{name}").accepted() for name in sorted(namespaces)
        ]
        return f"no MyCustomResource is left, as each module's namespace goes with it: {left()}; {going}"

    wait_until(lambda: left() == [], seconds=MANY_SECONDS, what=who)


@pytest.fixture(scope="module")
def kind() -> Kind:
    return KINDS_BY_NAME[MY_CUSTOM_RESOURCE.id]


@pytest.fixture(scope="module")
def elsewhere(running_cluster: Cluster) -> Iterator[str]:
    """A namespace that has Pods and none of the resources."""
    yield running_cluster.namespace("watched-elsewhere")
    running_cluster.api.delete("/api/v1/namespaces/watched-elsewhere")


@pytest.fixture(scope="module")
def many(running_cluster: Cluster, namespace: str, kind: Kind, replica: object) -> list[Ref]:
    """A thousand resources that have all been looked at."""
    refs = [ref_to(kind, namespace, f"many-{number}") for number in range(MANY)]
    for number, ref in enumerate(refs):
        running_cluster.create(kind, namespace, ref.name, {"name": f"friend-{number}"})
    wait_until(
        lambda: _healthy(running_cluster, kind, namespace).count(False) == MANY,
        seconds=MANY_SECONDS,
        what=lambda: f"{MANY} statuses; {_healthy(running_cluster, kind, namespace).count(None)} have none",
    )
    running_cluster.audit.wait_quiet()
    return refs


def _healthy(cluster: Cluster, kind: Kind, namespace: str) -> list[bool | None]:
    listed = cluster.api.get(kind.type.path(namespace=namespace)).accepted()["items"]
    return [(item.get("status") or {}).get("Healthy") for item in listed]


def _pod(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "one", "image": "image:1"}]}}


def _wait_healthy(cluster: Cluster, ref: Ref, *, healthy: bool) -> float:
    return wait_until(
        lambda: ((cluster.get(ref) or {}).get("status") or {}).get("Healthy") is healthy,
        seconds=SECONDS,
        what=lambda: f"{ref} healthy: {healthy}; it is {(cluster.get(ref) or {}).get('status')}",
    )


def test_health_follows_the_friend(
    running_cluster: Cluster, elsewhere: str, kind: Kind, many: list[Ref]
) -> None:
    """Its coming and going in another namespace, with a thousand others being looked for."""
    coming, going = [], []
    for number in range(ROUNDS):
        friend = Ref(POD, elsewhere, f"friend-{number}")
        running_cluster.api.create(POD.path(namespace=elsewhere), _pod(friend.name)).accepted()
        coming.append(_wait_healthy(running_cluster, many[number], healthy=True))
        running_cluster.delete(friend)
        wait_until(lambda: running_cluster.get(friend) is None, seconds=SECONDS, what=f"{friend} gone")  # noqa: B023
        going.append(_wait_healthy(running_cluster, many[number], healthy=False))
    for what, took in (("coming", coming), ("going", going)):
        print(f"{what}: p50 {statistics.median(took) * 1000:.0f} ms, max {max(took) * 1000:.0f} ms")


def test_one_friend_of_two_is_enough(
    running_cluster: Cluster, namespace: str, elsewhere: str, many: list[Ref]
) -> None:
    friends = [Ref(POD, where, "friend-20") for where in (namespace, elsewhere)]
    for friend in friends:
        running_cluster.api.create(POD.path(namespace=friend.namespace), _pod(friend.name)).accepted()
    _wait_healthy(running_cluster, many[20], healthy=True)
    running_cluster.delete(friends[0])
    running_cluster.audit.wait_quiet()
    assert (running_cluster.get(many[20]) or {})["status"]["Healthy"] is True
    running_cluster.delete(friends[1])
    _wait_healthy(running_cluster, many[20], healthy=False)


def test_edited_name_is_looked_for_at_once(running_cluster: Cluster, elsewhere: str, many: list[Ref]) -> None:
    running_cluster.api.create(POD.path(namespace=elsewhere), _pod("new-friend")).accepted()
    running_cluster.merge(many[30], {"spec": {"name": "new-friend"}})
    _wait_healthy(running_cluster, many[30], healthy=True)
    running_cluster.merge(many[30], {"spec": {"name": "friend-30"}})
    _wait_healthy(running_cluster, many[30], healthy=False)


def test_pods_that_nobody_looks_for_cost_nothing(
    running_cluster: Cluster, elsewhere: str, many: list[Ref]
) -> None:
    """Two hundred come, run and go: no write, and no list of Pods."""
    mark = running_cluster.audit.mark()
    began = time.monotonic()

    def churn(numbers: range) -> None:
        with closing(Api(running_cluster.plane)) as api:
            for number in numbers:
                api.create(POD.path(namespace=elsewhere), _pod(f"stranger-{number}")).accepted()
            for number in numbers:
                api.delete(path(Ref(POD, elsewhere, f"stranger-{number}"))).accepted()

    threads = [Thread(target=churn, args=(range(start, CHURN, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(
        lambda: (
            not any(
                pod["metadata"]["name"].startswith("stranger")
                for pod in running_cluster.list(POD, elsewhere, selector={})
            )
        ),
        seconds=MANY_SECONDS,
        what="all strangers gone",
    )
    running_cluster.audit.wait_quiet()
    print(f"{CHURN} Pods came and went in {time.monotonic() - began:.1f} s")
    requests = running_cluster.audit.requests(mark)
    # An earlier test's namespace may still be terminating, where each repair is rejected and retried.
    concerned = {elsewhere, *(ref.namespace for ref in many)}
    assert [request for request in requests if request.write and request.namespace in concerned] == []
    assert [request for request in requests if request.resource == "pods" and request.verb != "watch"] == []


def test_pods_were_listed_once_when_somebody_looked(
    running_cluster: Cluster, replica: Replica, many: list[Ref]
) -> None:
    """After all of the above, too; a second list would make up for a watch that was lost, and none was."""
    requests = running_cluster.audit.requests(replica.mark)
    lists = [r.selector for r in requests if r.resource == "pods" and r.verb == "list"]
    assert sorted(lists) == ["", SELECTOR]  # others', by their metadata, and ours


def test_nobody_elses_pods_are_watched_or_known_once_nobody_looks(
    running_cluster: Cluster, namespace: str, elsewhere: str, kind: Kind, replica: Replica, many: list[Ref]
) -> None:
    """Last, because it deletes all that look. And with the next one that looks, all is known again."""
    stranger = Ref(POD, elsewhere, "stranger")
    running_cluster.api.create(POD.path(namespace=elsewhere), _pod(stranger.name)).accepted()

    def known() -> bool:
        status, text = replica.process.get("/debug/store")
        assert status == 200, text
        return f"pod/{elsewhere}/{stranger.name}" in json.loads(text)

    wait_until(known, seconds=SECONDS, what="a Pod is known while somebody looks")
    running_cluster.api.request("DELETE", kind.type.path(namespace=namespace)).accepted()
    wait_until(lambda: not known(), seconds=MANY_SECONDS, what="nobody looks, and nothing is known")
    mark = running_cluster.audit.mark()
    running_cluster.delete(stranger)
    running_cluster.create(kind, namespace, "next", {"name": "next-friend"})
    _wait_healthy(running_cluster, ref_to(kind, namespace, "next"), healthy=False)
    running_cluster.api.create(POD.path(namespace=elsewhere), _pod("next-friend")).accepted()
    _wait_healthy(running_cluster, ref_to(kind, namespace, "next"), healthy=True)
    assert not known()
    asked = [r.verb for r in running_cluster.audit.requests(mark) if r.resource == "pods" and not r.selector]
    assert asked == ["list", "watch"]


def test_pods_of_others_were_not_asked_for_before_somebody_looked(
    running_cluster: Cluster, replica: Replica, many: list[Ref]
) -> None:
    requests = running_cluster.audit.requests(replica.mark)
    first = next(n for n, r in enumerate(requests) if r.resource == "pods" and not r.selector)
    asked = [r for r in requests[:first] if r.resource == "pods" and r.verb in ("list", "watch")]
    assert asked
    assert {r.selector for r in asked} == {SELECTOR}

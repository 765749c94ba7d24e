"""A CRD that is removed takes its kind along, and no other; once it is back, so is the kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.conftest import ENVIRONMENT
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import CRD_COLLECTION, KINDS, MEMCACHED
from tests.apiserver.support.operator_process import OperatorProcess, operator

REMOVED = "mycustomresources.poc.test.domain"
SECONDS = 60.0
"""Half a minute until the others are served without it; a node's kubelet needs a moment to start it again."""


@pytest.fixture
def removed(running_cluster: Cluster) -> Iterator[None]:
    """Without that CRD until the test puts it back, or ends."""
    path = f"{CRD_COLLECTION}/{REMOVED}"
    running_cluster.api.delete(path)
    wait_until(lambda: running_cluster.api.get(path).status == 404, seconds=SECONDS, what="it is removed")
    yield
    put_back(running_cluster)


def put_back(cluster: Cluster) -> None:
    if cluster.api.get(f"{CRD_COLLECTION}/{REMOVED}").status == 404:
        cluster.api.create(CRD_COLLECTION, KINDS[REMOVED].manifest).accepted()
    collection = KINDS[REMOVED].collection
    wait_until(lambda: cluster.api.get(collection).status == 200, seconds=SECONDS, what="it is served")


def wait_ended(process: OperatorProcess) -> int:
    wait_until(lambda: process.ended() is not None, seconds=SECONDS, what=process.log)
    return int(process.ended() or 0)


def test_the_others_are_served_without_it_and_it_is_once_it_is_back(
    running_cluster: Cluster, namespace: str, removed: None
) -> None:
    cluster, cache = running_cluster, ref_to(KINDS_BY_NAME[MEMCACHED.id], namespace, "served")
    with operator(cluster.operator_plane, env=ENVIRONMENT) as process:
        process.wait_ready(SECONDS)
        cluster.create(KINDS_BY_NAME[MEMCACHED.id], namespace, cache.name)
        cluster.wait_settled(cache)
        assert f"serving all but these, whose CRDs are not installed: {REMOVED}" in process.log()
        put_back(cluster)
        assert wait_ended(process) == 0, process.log()
    with operator(cluster.operator_plane, env=ENVIRONMENT) as process:
        process.wait_ready()
        found = ref_to(KINDS_BY_NAME[REMOVED], namespace, "back")
        cluster.create(KINDS_BY_NAME[REMOVED], namespace, found.name)
        cluster.wait_settled(found)


def test_a_standby_that_takes_over_meanwhile_does_not_go_without_it_for_ever(
    running_cluster: Cluster, namespace: str
) -> None:
    """It had all CRDs when it began to stand by, and kopf skips one that is not there, without a word."""
    cluster, plane = running_cluster, running_cluster.operator_plane
    with (
        operator(plane, env=ENVIRONMENT, identity="first") as first,
        operator(plane, env=ENVIRONMENT, identity="second") as second,
    ):
        for each in (first, second):
            each.wait_ready()
        leader, standby = (first, second) if first.leads else (second, first)
        cluster.api.delete(f"{CRD_COLLECTION}/{REMOVED}")
        try:
            # Each would be started again by the kubelet.
            assert wait_ended(leader) == 1
            assert wait_ended(standby) == 1
            assert f"CRDs were removed meanwhile: {REMOVED}" in standby.log()
        finally:
            put_back(cluster)

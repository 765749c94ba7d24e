"""What a server has beside it once a Backup has made its Secret, and that it has nothing of it without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kindling.kinds.base import Child, Observed, WatchedObject
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kinds.postgresql import archiver, parameters, updates
from kindling.kube.resources import (
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Object,
    Ref,
    ResourceType,
)

from tests.unit.operator.postgresqls import KIND, observed, postgresql, request, running

NAME = Ref(SECRET, "ns", "db-archive")
LABELS = {KIND_LABEL: archiver.BACKUP, INSTANCE_LABEL: "nightly"}


def made_by_a_backup(**meta: Any) -> dict[Ref, Object]:
    found = {
        "namespace": "ns",
        "name": "db-archive",
        "uid": "archive-uid",
        "labels": LABELS,
        "annotations": {archiver.STORE_PORT: "7070"},
        **meta,
    }
    return {NAME: {"metadata": found}}


ARCHIVED = replace(observed(running()), watched=made_by_a_backup())


def child(type: ResourceType, seen: Observed, **spec: Any) -> Child:
    (found,) = (each for each in KIND.desired(postgresql(**spec), seen) if each.type == type)
    return found


def test_it_is_watched_by_its_name() -> None:
    assert WatchedObject(SECRET, NAME.name, "ns") in KIND.watched_objects(postgresql())


def test_the_pod_has_the_archiver_and_the_server_its_files() -> None:
    pod = child(STATEFUL_SET, ARCHIVED).body["spec"]["template"]["spec"]
    server, beside = pod["containers"]
    assert (server["name"], beside["name"]) == ("postgres", "archiver")
    assert beside["image"] == server["image"]
    (alone,) = child(STATEFUL_SET, observed(running())).body["spec"]["template"]["spec"]["containers"]
    assert server["command"] == ["tini", "--", *alone["command"]], "pgBackRest leaves processes to process 1"
    for container in (server, beside):
        assert {"name": "archive", "mountPath": "/etc/kindling/archive", "readOnly": True} in container[
            "volumeMounts"
        ]
    assert {"name": "archive", "secret": {"secretName": "db-archive", "defaultMode": 0o440}} in pod["volumes"]


def test_the_parameters_are_the_servers_at_its_start_and_while_it_runs() -> None:
    conf = child(CONFIG_MAP, ARCHIVED).body["data"]["parameters.conf"]
    assert "archive_mode = 'on'\n" in conf
    assert "archive_timeout = '45s'\n" in conf
    login = request(postgresql(), ARCHIVED)
    assert login is not None
    assert login.parameters == archiver.PARAMETERS
    without = request(postgresql(), observed(running()))
    assert without is not None
    assert without.parameters == {}
    assert login.cache_key != without.cache_key


def test_the_network_is_open_for_the_runs_and_the_store_alone() -> None:
    ports = child(SERVICE, ARCHIVED).body["spec"]["ports"]
    assert [port["port"] for port in ports] == [5432, 8432]
    spec = child(NETWORK_POLICY, ARCHIVED).body["spec"]
    closed = child(NETWORK_POLICY, observed()).body["spec"]
    assert spec["ingress"][:-1] == closed["ingress"]
    runs = {"podSelector": {"matchLabels": LABELS}}
    assert spec["ingress"][-1] == {"from": [runs], "ports": [{"port": 8432, "protocol": "TCP"}]}
    assert [port["port"] for rule in spec["egress"] for port in rule["ports"]] == [53, 53, 7070]
    assert closed["egress"] == []


@pytest.mark.parametrize(
    "watched",
    [
        {},
        made_by_a_backup(labels={}),
        made_by_a_backup(labels={**LABELS, KIND_LABEL: "memcached.cache.example.com"}),
        made_by_a_backup(annotations={}),
        made_by_a_backup(annotations={archiver.STORE_PORT: "0"}),
        made_by_a_backup(annotations={archiver.STORE_PORT: "443; rm"}),
        made_by_a_backup(annotations={archiver.STORE_PORT: "443,"}),
        made_by_a_backup(annotations={archiver.STORE_PORT: "443,99999"}),
        made_by_a_backup(deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
)
def test_without_a_backups_secret_there_is_nothing_of_it(watched: dict[Ref, Object]) -> None:
    plain = KIND.desired(postgresql(), observed(running()))
    assert KIND.desired(postgresql(), replace(observed(running()), watched=watched)) == plain
    assert "archive" not in repr(plain)


def with_archiver(policy: Object) -> Observed:
    """A server that still has its archiver, and no Secret of a Backup any more."""
    known = running()
    pod, at = Ref(POD, "ns", "db-0"), Ref(NETWORK_POLICY, "ns", "db")
    statuses = [{"name": "postgres"}, {"name": archiver.NAME}]
    known[pod] = {**known[pod], "status": {**known[pod]["status"], "containerStatuses": statuses}}
    known[at] = {"metadata": {"namespace": "ns", "name": "db"}, **policy}
    return observed(known)


def test_a_store_of_two_ports_is_reached_until_the_archiver_is_gone() -> None:
    two = made_by_a_backup(annotations={archiver.STORE_PORT: "7070,443"})
    was = child(NETWORK_POLICY, replace(observed(running()), watched=two)).body["spec"]
    assert [port["port"] for rule in was["egress"] for port in rule["ports"]] == [53, 53, 7070, 443]
    assert child(NETWORK_POLICY, with_archiver({"spec": was})).body["spec"] == was


def test_the_network_is_open_until_the_archiver_is_gone() -> None:
    """A server that stops uploads the last of its log."""
    was = child(NETWORK_POLICY, ARCHIVED).body["spec"]
    closed = child(NETWORK_POLICY, observed(running())).body["spec"]
    stopping = with_archiver({"spec": was})
    assert child(NETWORK_POLICY, stopping).body["spec"] == was
    (alone,) = child(STATEFUL_SET, stopping).body["spec"]["template"]["spec"]["containers"]
    assert alone["name"] == "postgres"
    gone = observed({**running(), Ref(NETWORK_POLICY, "ns", "db"): {"metadata": {}, "spec": was}})
    assert child(NETWORK_POLICY, gone).body["spec"] == closed
    others: list[Object] = [{}, {"spec": {}}, {"spec": closed}, {"spec": {**was, "egress": []}}]
    for other in others:
        assert child(NETWORK_POLICY, with_archiver(other)).body["spec"] == closed


def test_another_image_has_no_archiver() -> None:
    plain = KIND.desired(postgresql(image="mine:1"), observed(running()))
    assert KIND.desired(postgresql(image="mine:1"), ARCHIVED) == plain


@pytest.mark.parametrize("rule", ["Auto", "OnRestart", "Manual"])
def test_it_comes_at_once_by_one_restart_whatever_the_updates(rule: str) -> None:
    """A Backup is a user's word, not an operator's later image."""
    known = running()
    before = child(STATEFUL_SET, observed(known), updates=rule).body
    workload = Ref(STATEFUL_SET, "ns", "db")
    known[workload] = {
        **known[workload],
        "metadata": {**known[workload]["metadata"], **before["metadata"]},
        "spec": before["spec"],
    }
    after = child(STATEFUL_SET, replace(ARCHIVED, objects=known), updates=rule).body
    assert after["spec"]["updateStrategy"] == updates.AT_ONCE
    known[workload] = {**known[workload], "metadata": {**known[workload]["metadata"], **after["metadata"]}}
    known[workload]["spec"] = after["spec"]
    assert child(STATEFUL_SET, replace(ARCHIVED, objects=known), updates=rule).body == after


@pytest.mark.parametrize("name", sorted([*archiver.PARAMETERS, "archive_library"]))
def test_nobody_else_sets_where_the_log_goes(name: str) -> None:
    problem = parameters.validate({name: "off"}, resources={})
    assert problem is not None
    assert f"spec.parameters.{name}" in problem.message

"""spec.podTemplate with a real scheduler: Pods go where it says, and where none may run, that is reported."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.stack import Environment, within

DATABASE, CACHE = "postgresqls.database.db.example.com", "memcacheds.cache.example.com"
LINUX = {"kubernetes.io/os": "linux"}
NOWHERE = {"disk": "none-such"}
SECONDS = 120.0


def pod_template(node: dict[str, str]) -> dict[str, Any]:
    anti = [{"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]
    return {
        "metadata": {"labels": {"team": "shop"}, "annotations": {"example.com/owner": "shop"}},
        "spec": {
            "nodeSelector": node,
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": anti}},
            "priorityClassName": "system-cluster-critical",
        },
    }


@pytest.fixture
def database(environment: Environment) -> Iterator[str]:
    """A Postgresql of one test's own, placed and ready, whose log is JSON."""
    yield from placed(environment, DATABASE, "v1", "Postgresql", {
        "storage": {"size": "256Mi"}, "deletionPolicy": "Delete", "logging": {"format": "JSON"},
    })  # fmt: skip


@pytest.fixture
def cache(environment: Environment) -> Iterator[str]:
    """A Memcached with two Pods, the same way."""
    yield from placed(environment, CACHE, "v1alpha1", "Memcached", {"size": 2})


def placed(
    environment: Environment, plural: str, version: str, kind: str, spec: dict[str, Any]
) -> Iterator[str]:
    name = f"placed-{os.urandom(3).hex()}"
    group = plural.partition(".")[2]
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}}
    environment.apply({**body, "spec": {**spec, "podTemplate": pod_template(LINUX)}})
    try:
        environment.wait_ready(f"{plural}/{name}", seconds=180)
        yield name
    finally:
        environment.kubectl("delete", f"{plural}/{name}", "--ignore-not-found", "--wait=true")


def pods(environment: Environment, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def condition(environment: Environment, resource: str, type: str) -> dict[str, Any]:
    """Of the spec as it stands; empty until it is reported."""
    found = environment.get(resource)
    for item in found["status"].get("conditions", []):
        if item["type"] == type and item["observedGeneration"] == found["metadata"]["generation"]:
            return dict(item)
    return {}


def send(environment: Environment, resource: str, node: Mapping[str, str | None]) -> None:
    """Change the node selector."""
    patch = {"spec": {"podTemplate": {"spec": {"nodeSelector": node}}}}
    environment.kubectl("patch", resource, "--type=merge", f"--patch={json.dumps(patch)}")


def unschedulable(environment: Environment, resource: str) -> str:
    """The message of Degraded once it is so for that."""
    within(SECONDS, lambda: condition(environment, resource, "Degraded").get("reason") == "Unschedulable")
    return str(condition(environment, resource, "Degraded")["message"])


def back(environment: Environment, resource: str) -> None:
    send(environment, resource, dict.fromkeys(NOWHERE))
    within(SECONDS, lambda: condition(environment, resource, "Ready").get("status") == "True")


def assert_placed(pod: dict[str, Any]) -> None:
    assert pod["metadata"]["labels"]["team"] == "shop"
    assert pod["metadata"]["annotations"]["example.com/owner"] == "shop"
    assert pod["spec"]["nodeSelector"] == LINUX
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert any(item.get("key") == "dedicated" for item in pod["spec"]["tolerations"])


def test_a_database_that_no_node_takes_is_reported_and_comes_back_with_its_data(
    environment: Environment, database: str
) -> None:
    resource = f"{DATABASE}/{database}"
    (pod,) = pods(environment, database)
    assert_placed(pod)
    environment.psql(database, "CREATE TABLE kept AS SELECT 1 AS x")
    send(environment, resource, NOWHERE)
    message = unschedulable(environment, resource)
    assert "node affinity/selector" in message  # the scheduler's words
    assert "or change spec.podTemplate.spec.nodeSelector" in message
    back(environment, resource)
    assert environment.psql(database, "SELECT x FROM kept", retried=True) == "1"
    (pod,) = pods(environment, database)
    assert_placed(pod)
    environment.psql(database, "DO $do$ BEGIN RAISE LOG E'one\\ntwo'; END $do$")
    within(30, lambda: any(one["message"] == "one\ntwo" for one in logged(environment, database)))
    (found,) = [one for one in logged(environment, database) if one["message"] == "one\ntwo"]
    assert (found["user"], found["dbname"], found["error_severity"]) == ("postgres", "postgres", "LOG")


def logged(environment: Environment, database: str) -> list[dict[str, Any]]:
    """What the server has logged by `kubectl logs`, each line of which has to be an object."""
    written = environment.kubectl("logs", f"{database}-0", "--container=postgres")
    _, _, after = written.partition('Future log output will go to log destination "jsonlog".\n')
    return [json.loads(line) for line in after.splitlines()]


def test_caches_serve_on_while_new_ones_find_no_node(environment: Environment, cache: str) -> None:
    resource = f"{CACHE}/{cache}"
    before = pods(environment, cache)
    assert len(before) == 2
    for pod in before:
        assert_placed(pod)
    servers = environment.get(resource)["status"]["serverList"]
    send(environment, resource, NOWHERE)
    assert "or change spec.podTemplate.spec.nodeSelector" in unschedulable(environment, resource)
    assert condition(environment, resource, "Available")["status"] == "True"
    assert environment.get(resource)["status"]["serverList"] == servers
    back(environment, resource)
    kept = {pod["metadata"]["uid"] for pod in pods(environment, cache)}
    assert kept == {pod["metadata"]["uid"] for pod in before}

"""No claim without a test: every status field, column and metric of every kind, against the thing itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
from collections.abc import Iterator
from typing import Any

import prometheus_client.parser
import pytest

from tests.cluster.claims import CLAIMS
from tests.cluster.claims.contract import COMMON_METRICS, Reported
from tests.cluster.consumers import produce, wait_ready
from tests.cluster.stack import Environment, within
from tests.cluster.test_memcached import run
from tests.cluster.watching import Seen, watching
from tests.unit.schema.judges import judge

CACHE = "memcacheds.cache.example.com"
CONSUMER = "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com"
DATABASE = "postgresqls.database.db.example.com"
FRIEND = "mycustomresources.poc.test.domain"
# More than 16 MiB, of which one item is read that is there, and one that never was.
FILL = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as connection:
    for number in range(60):
        head = b"set k%d 0 0 500000 noreply\\r\\n" % number
        connection.sendall(head + b"x" * 500000 + b"\\r\\n")
    connection.sendall(b"get none\\r\\nget k59\\r\\nmn\\r\\n")
    said = b""
    while not said.endswith(b"MN\\r\\n"):
        part = connection.recv(65536)
        assert part, "it closed the connection"
        said += part
"""
HANDLER = """
import time

def handle(message):
    began = time.monotonic()
    time.sleep(0.25)
    print(f"call {time.monotonic() - began:.3f}", flush=True)
    if message.data() == b"hello 7":
        raise ValueError("canary-5d2e")
"""
OPERATOR = "kindling-system"
BROKER = "pulsar://pulsar.pulsar.svc:6650"
ADMIN = "http://pulsar.pulsar.svc:8080"


def cells(environment: Environment, kind: str, name: str, namespace: str) -> dict[str, str]:
    """What `kubectl get -o wide` prints of one resource, by column; a cell that holds nothing is empty."""
    heading, line = environment.kubectl("get", kind, name, "-n", namespace, "-o", "wide").splitlines()
    starts = [heading.index(word) for word in heading.split()]
    return {
        heading[start:end].strip(): line[start:end].strip()
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    }


def metrics(environment: Environment, resource: dict[str, Any]) -> tuple[dict[str, float], str]:
    """The series of one resource, from whichever Pod of the operator leads, and their label `reason`."""
    meta, (group, _, _) = resource["metadata"], resource["apiVersion"].partition("/")
    wanted = {"group": group, "kind": resource["kind"], "namespace": meta["namespace"], "name": meta["name"]}
    values: dict[str, float] = {}
    reason = ""
    pods = environment.get(
        "pods",
        "-n",
        OPERATOR,
        "-l",
        "app.kubernetes.io/component=operator",
        "--field-selector=status.phase=Running",
    )
    for pod in pods["items"]:
        if "deletionTimestamp" in pod["metadata"]:
            continue  # still Running for the API server, and it may answer no more
        path = f"/api/v1/namespaces/{OPERATOR}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
        text = environment.kubectl("get", "--raw", path)
        for family in prometheus_client.parser.text_string_to_metric_families(text):
            for sample in family.samples:
                if wanted.items() <= sample.labels.items():
                    values[sample.name] = sample.value
                    reason = sample.labels.get("reason", reason)
    return values, reason


def hold(environment: Environment, kind: str, name: str, namespace: str = "default") -> None:
    """Every claim of this resource, all at once: a failure names each that is not so.

    The status, the metrics and the server are read one after another: where the status was written meanwhile
    (how much the volume has, which the operator asks once it can), all of it is read once more.
    """
    for _ in range(5):
        before = environment.get(kind, name, "-n", namespace)
        broken, shown = compared(environment, kind, before)
        if broken == {} or environment.get(kind, name, "-n", namespace)["status"] == before["status"]:
            break
    assert broken == {}, json.dumps(shown, indent=1)


def compared(
    environment: Environment, kind: str, resource: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """By field, column or metric, what is wrong with its claim; and what was read."""
    name, namespace = resource["metadata"]["name"], resource["metadata"]["namespace"]
    found = CLAIMS[kind]
    values, reason = metrics(environment, resource)
    state = Reported(
        environment=environment,
        resource=resource,
        cells=cells(environment, kind, name, namespace),
        metrics=values,
        reason=reason,
        evidence=found.gather(environment, resource),
    )
    broken = {}
    for place, claim in {**found.claims, **COMMON_METRICS, **found.metrics}.items():
        try:
            claim(state)
        except (AssertionError, KeyError) as error:
            broken[place] = repr(error)[:500]
    [judged] = judge(resource)
    if judged[:2] != (expected := gitops(resource)):
        broken["GitOps"] = f"{judged}, not {expected}"
    return broken, {"status": resource["status"], "cells": state.cells, "metrics": state.metrics}


def gitops(resource: dict[str, Any]) -> tuple[str, str]:
    """What Flux and Helm (kstatus), and Argo CD, are to make of a resource that says this of itself."""
    conditions = {one["type"]: one["status"] for one in resource["status"]["conditions"]}
    if conditions["Ready"] == "True":
        # A friend that is missing is waited for, and is no fault (docs/guides/gitops.md).
        waits = conditions.get("Healthy") == "False"
        return "Current", "Progressing" if waits else "Healthy"
    if conditions.get("Stalled") == "True":
        return "Failed", "Degraded"
    if any(one["reason"] == "ApprovalPending" for one in resource["status"]["conditions"]):
        return "InProgress", "Suspended"
    return "InProgress", "Degraded" if conditions.get("Degraded") == "True" else "Progressing"


class Make:
    """Makes resources of one test's own, and deletes them at its end."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.made: list[str] = []

    def __call__(self, kind: str, version: str, type: str, **spec: Any) -> str:
        name = f"claim-{os.urandom(3).hex()}"
        group = kind.partition(".")[2]
        self.made.append(f"{kind}/{name}")
        self.environment.apply(
            {"apiVersion": f"{group}/{version}", "kind": type, "metadata": {"name": name}, "spec": spec}
        )
        return name

    def reason(self, kind: str, name: str, reason: str, *, seconds: int = 120) -> None:
        """Wait until Ready has it."""
        path = '{.status.conditions[?(@.type=="Ready")].reason}'
        self.environment.kubectl(
            "wait", f"{kind}/{name}", f"--for=jsonpath={path}={reason}", f"--timeout={seconds}s"
        )


@pytest.fixture
def make(environment: Environment) -> Iterator[Make]:
    maker = Make(environment)
    yield maker
    for resource in maker.made:
        environment.kubectl("delete", resource, "--wait=true", "--cascade=foreground", timeout=180)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DATABASE, "mydb"),
        ("postgresqls.database.technotuesday.io", "postgresql-sample"),
        (CACHE, "memcached-sample"),
        (CONSUMER, "pulsarconsumer-sample-1"),
        (FRIEND, "my-custom-resource-01"),
    ],
)
def test_a_sample_claims_what_is_so(environment: Environment, kind: str, name: str) -> None:
    environment.wait_ready(f"{kind}/{name}")
    hold(environment, kind, name)


def test_a_cache_whose_spec_says_nothing(make: Make) -> None:
    name = make(CACHE, "v1alpha1", "Memcached")
    make.environment.wait_ready(f"{CACHE}/{name}")
    hold(make.environment, CACHE, name)


def test_a_database_with_roles_and_databases_one_of_which_is_not_the_operators(make: Make) -> None:
    """An item that is refused stands beside those that are not, and each is as its status says."""
    made = make(
        DATABASE,
        "v1",
        "Postgresql",
        roles=[
            {"name": "app", "login": True, "memberOf": ["owner"], "connectionLimit": 5},
            {"name": "owner"},
            {"name": "report", "login": True, "memberOf": ["shop_reader"]},
            {"name": "certified", "login": True, "clientCertificate": {"enabled": True}},
            {"name": "refused", "memberOf": ["nobody_at_all"], "reclaimPolicy": "Delete"},
        ],
        databases=[
            {
                "name": "shop",
                "owner": "owner",
                "extensions": [{"name": "pg_trgm"}],
                "schemas": [{"name": "s"}],
                "accessRoles": True,
            },
            {"name": "postgres", "extensions": [{"name": "citext"}], "reclaimPolicy": "Retain"},
        ],
        storage={"ephemeral": True},
    )
    make.reason(DATABASE, made, "StatementRejected")
    hold(make.environment, DATABASE, made)
    path = "{.status.roles[?(@.name=='refused')].reason}"
    said = make.environment.kubectl("get", f"{DATABASE}/{made}", "-o", f"jsonpath={path}")
    assert said.strip() == "StatementRejected"


def test_three_caches(make: Make) -> None:
    name = make(CACHE, "v1alpha1", "Memcached", size=3, containerPort=11300)
    make.environment.wait_ready(f"{CACHE}/{name}")
    hold(make.environment, CACHE, name)


def test_caches_that_are_asked_what_they_say_of_themselves(make: Make) -> None:
    """In use until one is full, then at rest: within two minutes all that they say is in the status."""
    environment = make.environment
    name = make(CACHE, "v1alpha1", "Memcached", size=2, statistics=True, memoryMB=16)
    environment.wait_ready(f"{CACHE}/{name}")
    server, _, port = environment.get(f"{CACHE}/{name}")["status"]["serverList"][0].rpartition(":")
    run(environment, FILL, server, port)

    def evicted() -> bool:
        found = environment.get(f"{CACHE}/{name}")["status"].get("statistics", {})
        return bool(found.get("evictions")) and "hitRatioPercent" in found

    within(150, evicted)
    hold(environment, CACHE, name)
    environment.kubectl("patch", f"{CACHE}/{name}", "--type=merge", "-p", '{"spec":{"statistics":false}}')
    within(30, lambda: "statistics" not in environment.get(f"{CACHE}/{name}")["status"])


def test_a_consumer_whose_topic_is_not_there(make: Make) -> None:
    name = make(
        CONSUMER,
        "v1",
        "PulsarConsumer",
        serverAddress=BROKER,
        topic="persistent://public/nowhere/topic",
        subscriptionName="claims",
        replicas=1,
    )
    make.reason(CONSUMER, name, "TopicNotFound")
    hold(make.environment, CONSUMER, name)


def test_two_consumers(make: Make) -> None:
    name = make(
        CONSUMER,
        "v1",
        "PulsarConsumer",
        serverAddress=BROKER,
        topic=f"claims-{os.urandom(3).hex()}",
        subscriptionName="claims",
        replicas=2,
    )
    make.environment.wait_ready(f"{CONSUMER}/{name}")
    hold(make.environment, CONSUMER, name)


def test_a_consumer_whose_broker_is_asked_what_waits(make: Make) -> None:
    """Its figures are the broker's, of a subscription at rest: at most a minute old."""
    environment = make.environment
    name = make(
        CONSUMER,
        "v1",
        "PulsarConsumer",
        serverAddress=BROKER,
        adminURL=ADMIN,
        deletionPolicy="Unsubscribe",
        autoscaling={"min": 1, "max": 3, "targetBacklog": 100},
        replay={"from": "2026-11-24T06:45:00Z"},
        topic=f"claims-{os.urandom(3).hex()}",
        subscriptionName="claims",
        replicas=0,
    )
    environment.wait_ready(f"{CONSUMER}/{name}")

    def said() -> bool:
        """The moment of the replay is on record a write before its condition."""
        status = environment.get(f"{CONSUMER}/{name}")["status"]
        truths = {item["type"]: item["status"] for item in status["conditions"]}
        return bool(status.get("backlog", {}).get("consumers") == 1 and truths["Replayed"] == "True")

    within(150, said)
    hold(environment, CONSUMER, name)


def test_a_consumer_whose_handler_does_not_get_past_one_message(make: Make) -> None:
    """It takes the others, each in a quarter of a second; its log has every call and every failure."""
    environment, topic = make.environment, f"claims-{os.urandom(3).hex()}"
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": topic}, "data": {"m.py": HANDLER}}
    environment.kubectl("apply", "-f", "-", stdin=json.dumps(code))
    try:
        name = make(
            CONSUMER,
            "v1",
            "PulsarConsumer",
            serverAddress=BROKER,
            topic=topic,
            subscriptionName="claims",
            replicas=1,
            initialPosition="Earliest",
            handler={"python": {"configMapRef": {"name": topic}, "handler": "m:handle"}},
        )
        environment.wait_ready(f"{CONSUMER}/{name}")
        produce(environment, topic=topic, count=20)
        wait_ready(environment, name, reason="PoisonMessage")
        hold(environment, CONSUMER, name)
    finally:
        environment.kubectl("delete", "configmap", topic, "--wait=false")


def test_a_friend_that_is_there(make: Make) -> None:
    name = make(FRIEND, "v1", "MyCustomResource", name="mydb-0")
    make.environment.kubectl(
        "wait", f"{FRIEND}/{name}", "--for=jsonpath={.status.Healthy}=true", "--timeout=30s"
    )
    hold(make.environment, FRIEND, name)


def test_a_restart_that_a_parameter_needs_is_reported_until_it_is_done(make: Make) -> None:
    """The server names the parameter before the restart, and no longer after it."""
    name = make(DATABASE, "v1", "Postgresql", deletionPolicy="Delete")
    environment, resource = make.environment, f"{DATABASE}/{name}"
    environment.wait_ready(resource, seconds=180)
    line = 'jsonpath={.status.pendingRestart}{"\\n"}'
    with watching(environment, resource, "--output", line) as seen:
        patch = {"spec": {"parameters": {"max_connections": "60"}}}
        environment.kubectl("patch", resource, "--type=merge", "-p", json.dumps(patch))
        path = "{.status.observedGeneration}"
        environment.kubectl("wait", resource, f"--for=jsonpath={path}=2", "--timeout=60s")
        within(60, lambda: any(line == '["max_connections"]' for _, line in seen))
    within(120, lambda: "pendingRestart" not in environment.get(resource)["status"])
    make.reason(DATABASE, name, "LoginSucceeded")
    assert environment.psql(name, "show max_connections") == "60"
    hold(environment, DATABASE, name)


def test_a_restart_waits_for_its_approval_and_the_message_has_the_command(make: Make) -> None:
    """The Pod lacks the edit until then, also one that was created again meanwhile."""
    name = make(DATABASE, "v1", "Postgresql", deletionPolicy="Delete", approval={"above": "Reload"})
    environment, resource = make.environment, f"{DATABASE}/{name}"
    environment.wait_ready(resource, seconds=180)
    hold(environment, DATABASE, name)
    spec = {"resources": {"limits": {"memory": "300Mi"}}}
    environment.kubectl("patch", resource, "--type=merge", "-p", json.dumps({"spec": spec}))
    make.reason(DATABASE, name, "ApprovalPending")
    hold(environment, DATABASE, name)
    uid = environment.get("pod", f"{name}-0")["metadata"]["uid"]
    environment.kubectl("delete", "pod", f"{name}-0", "--wait=true", "--timeout=120s")
    within(120, lambda: environment.get(resource)["status"].get("active", {}).get("uid", uid) != uid)
    make.reason(DATABASE, name, "ApprovalPending")
    hold(environment, DATABASE, name)
    assert limit(environment, name) == "512Mi"
    ready = next(
        item for item in environment.get(resource)["status"]["conditions"] if item["type"] == "Ready"
    )
    (command,) = re.findall(r"`kubectl (annotate [^`]+)`", ready["message"])
    environment.kubectl(*shlex.split(command))
    make.reason(DATABASE, name, "LoginSucceeded")
    assert limit(environment, name) == "300Mi"
    hold(environment, DATABASE, name)


def limit(environment: Environment, name: str) -> str:
    container = environment.get("pod", f"{name}-0")["spec"]["containers"][0]
    return str(container["resources"]["limits"]["memory"])


def events(seen: list[Seen]) -> dict[str, float]:
    """When each sort of event was seen first, by `--output-watch-events`."""
    return {line.split()[0]: moment for moment, line in reversed(seen) if line}


def test_a_deleted_deployment_is_back_within_a_second(environment: Environment, make: Make) -> None:
    """What the README promises. Timed by a client's watch, from the deletion's event to the creation's."""
    name = make(CACHE, "v1alpha1", "Memcached", size=1)
    environment.wait_ready(f"{CACHE}/{name}")
    took = []
    for _ in range(5):
        words = ("deployments", "--output-watch-events", "--field-selector", f"metadata.name={name}")
        with watching(environment, *words) as seen:
            within(60, lambda: "ADDED" in events(seen))
            seen.clear()
            environment.kubectl("delete", "deployment", name, "--wait=false")
            within(60, lambda: "ADDED" in events(seen))
        moments = events(seen)
        took.append(moments["ADDED"] - moments["DELETED"])
        environment.wait_ready(f"{CACHE}/{name}")
    assert statistics.median(took) < 1, took

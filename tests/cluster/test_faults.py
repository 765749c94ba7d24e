"""At 3 in the morning: servers killed, leaders killed or frozen, no API server, a node that restarts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import yaml

from bench.process import stolen_seconds
from tests.cluster.ledger import Ledger, ledger_of
from tests.cluster.node import Node
from tests.cluster.stack import ROOT, Environment, within

SAMPLES = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "samples").glob("*.yaml"))]
DATABASE = "postgresqls.database.db.example.com/mydb"
CACHE = "memcacheds.cache.example.com/memcached-sample"
CONSUMER = "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com/pulsarconsumer-sample-1"
SYSTEM = "kindling-system"
HANDOVER_SECONDS = 15.0
# Processor time that a machine left to itself never misses in the time that a takeover takes.
STOLEN_SECONDS = 1.0
OUTAGE_SECONDS = 120
HEAL_SECONDS = 240
MANAGED = "app.kubernetes.io/managed-by=kindling"
SUPERUSER = ("psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-Atc")
DNS = ("-n", "kube-system", "-l", "k8s-app=kube-dns")


def resource(sample: dict[str, object]) -> str:
    group = str(sample["apiVersion"]).partition("/")[0]
    metadata = sample["metadata"]
    assert isinstance(metadata, dict)
    return f"{str(sample['kind']).lower()}s.{group}/{metadata['name']}"


@pytest.fixture(scope="module")
def node(environment: Environment) -> Node:
    return Node(environment)


@pytest.fixture(scope="module")
def ledger(environment: Environment) -> Iterator[Ledger]:
    with ledger_of(environment, "mydb") as made:
        yield made


def test_no_committed_row_is_lost_by_a_killed_server(
    environment: Environment, node: Node, ledger: Ledger, thorough: bool
) -> None:
    """By turns its processes are killed, and its Pod is removed without being asked to stop."""
    for round in range(1, 11 if thorough else 3):
        environment.wait_ready(DATABASE, "pod/mydb-0")
        before = environment.get("pod", "mydb-0")
        container = node.container("mydb-0", "postgres")
        running = ledger.start(round=round, seconds=120)
        time.sleep(3)
        assert running.poll() is None, running.communicate()
        if round % 2:
            node.signal(container, "KILL")
        else:
            environment.kubectl("delete", "pod", "mydb-0", "--grace-period=0", "--force", "--wait=false")
        _, said = running.communicate(timeout=60)
        assert running.returncode != 0, said  # All its clients lost their server.

        def restarted(before: dict[str, object] = before, container: str = container) -> bool:
            pods = environment.get("pods", "-l", "app.kubernetes.io/instance=mydb")["items"]
            return any(
                status["ready"] and not status["containerID"].endswith(container)
                for pod in pods
                for status in pod["status"].get("containerStatuses", [])
            )

        within(120, restarted)
        environment.wait_ready(DATABASE, "pod/mydb-0")
        ledger.assert_kept(round=round)
        if round % 2:
            within(60, partial(is_reported, environment, at=failed_at(environment)))


def failed_at(environment: Environment) -> str:
    """When the kubelet saw the server's container end last."""
    statuses = environment.get("pod", "mydb-0")["status"]["containerStatuses"]
    [found] = [status for status in statuses if status["name"] == "postgres"]
    return str(found["lastState"]["terminated"]["finishedAt"])


def is_reported(environment: Environment, *, at: str) -> bool:
    said = f"Container postgres of Pod mydb-0 failed at {at} and was started again"
    return any(note.startswith(said) for note in notes(environment, "ContainerTerminated"))


def notes(environment: Environment, reason: str) -> list[str]:
    """Of the Events of the database that have this reason."""
    fields = f"--field-selector=involvedObject.name=mydb,reason={reason}"
    found = environment.get("events", fields)["items"]
    assert {event["type"] for event in found} <= {"Warning"}
    return [event["message"] for event in found]


def crashed_at(note: str) -> datetime:
    return datetime.fromisoformat(note.partition(" killed at ")[2].partition(",")[0])


def test_a_killed_process_of_a_server_is_named_with_its_time(environment: Environment) -> None:
    """Where the kernel kills one process for its memory, the container goes on, and so does its Pod."""
    environment.wait_ready(DATABASE, "pod/mydb-0")
    inside = ("exec", "mydb-0", "-c", "postgres", "--")
    before = environment.get("pod", "mydb-0")["status"]["containerStatuses"]
    age = "SELECT extract(epoch FROM now() - pg_postmaster_start_time()) > 10"
    within(60, lambda: environment.kubectl(*inside, *SUPERUSER, age).strip() == "t")
    began = datetime.now(UTC).replace(microsecond=0)
    with pytest.raises(AssertionError, match="server closed the connection"):
        environment.kubectl(*inside, *SUPERUSER, "COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID'")
    # It is asked every five minutes, and by an operator that has just started at once.
    environment.kubectl("rollout", "restart", "deployment/kindling-operator", "-n", SYSTEM)
    wait_both_ready(environment)
    until = began + timedelta(seconds=10)
    within(
        120, lambda: any(began <= crashed_at(note) <= until for note in notes(environment, "ServerCrashed"))
    )
    log = environment.kubectl("logs", "mydb-0", "-c", "postgres")
    assert "was terminated by signal 9" in log
    after = environment.get("pod", "mydb-0")["status"]["containerStatuses"]
    assert [item["containerID"] for item in after] == [item["containerID"] for item in before]


@pytest.mark.thorough
def test_a_killed_broker_is_there_again_and_its_consumers_ready(environment: Environment, node: Node) -> None:
    """In the same Pod: what the killed one left on disk must not be in its way."""
    [pod] = environment.get("pods", "-n", "pulsar")["items"]
    environment.wait_ready(CONSUMER)
    node.signal(node.container(pod["metadata"]["name"], "pulsar", namespace="pulsar"), "KILL")

    def gone() -> bool:
        return not environment.get("deployment", "pulsar", "-n", "pulsar")["status"].get("readyReplicas")

    within(60, gone)
    environment.kubectl("rollout", "status", "-n", "pulsar", "deployment/pulsar", "--timeout=180s")
    environment.wait_ready(CONSUMER)


def wait_both_ready(environment: Environment) -> None:
    """A container that died before, the kubelet does not start again for up to five minutes."""
    words = ("rollout", "status", "-n", SYSTEM, "deployment/kindling-operator", "--timeout=360s")
    environment.kubectl(*words, timeout=400)


def leader(environment: Environment) -> str:
    lease = environment.get("lease", "kindling-operator", "-n", SYSTEM)["spec"]
    return str(lease.get("holderIdentity") or "")


def reconciles(environment: Environment, *, size: int) -> float:
    """Change a cache's size; the seconds until its Deployment has it."""
    environment.kubectl("patch", CACHE, "--type=merge", "-p", json.dumps({"spec": {"size": size}}))
    wanted = {"spec": size}

    def done() -> bool:
        return bool(environment.get("deployment", "memcached-sample")["spec"]["replicas"] == wanted["spec"])

    return within(60, done)


@pytest.mark.parametrize("signal", ["KILL", pytest.param("STOP", marks=pytest.mark.thorough)])
def test_another_writes_within_seconds_of_a_leader_that_died_or_froze(
    environment: Environment, node: Node, signal: str
) -> None:
    """A frozen leader is resumed, and must notice that it is no longer the leader.

    A late handover is retried only if this machine's host took CPU time from it meanwhile.
    """
    for _ in range(3):
        stolen = stolen_seconds()
        took = handover(environment, node, signal)
        stolen = stolen_seconds() - stolen
        if took <= HANDOVER_SECONDS or stolen < STOLEN_SECONDS:
            break
    assert took <= HANDOVER_SECONDS, f"{took:.1f} s, of which the host took {stolen:.1f}"


def handover(environment: Environment, node: Node, signal: str) -> float:
    """Seconds from the signal until another has done what was asked for meanwhile."""
    wait_both_ready(environment)
    first = leader(environment)
    container = node.container(first, "operator", namespace=SYSTEM)
    began = time.monotonic()
    node.signal(container, signal)
    try:
        reconciles(environment, size=2)
        took = time.monotonic() - began
        if signal == "STOP":
            assert leader(environment) != first
    finally:
        if signal == "STOP":
            node.signal(container, "CONT")
    second = leader(environment)
    reconciles(environment, size=1)
    assert leader(environment) == second
    wait_both_ready(environment)
    return took


def workloads(environment: Environment) -> dict[str, list[int]]:
    """The Pods of all resources by uid, with how often their containers were started again."""
    pods = environment.get("pods", "-l", MANAGED)["items"]
    return {
        pod["metadata"]["uid"]: [status["restartCount"] for status in pod["status"]["containerStatuses"]]
        for pod in pods
    }


@pytest.mark.thorough
def test_two_minutes_without_an_api_server_stop_no_workload_and_heal(
    environment: Environment, node: Node, ledger: Ledger
) -> None:
    words = ledger.words(round=100, seconds=OUTAGE_SECONDS)
    container = node.container(ledger.pod, "load")
    environment.wait_ready(DATABASE, "pod/mydb-0")
    pods = workloads(environment)
    with node.without_api_server():
        node.execute(container, *words, timeout=OUTAGE_SECONDS + 60)
    environment.wait_ready(*map(resource, SAMPLES), seconds=HEAL_SECONDS)
    ledger.assert_kept(round=100)
    assert workloads(environment) == pods
    environment.kubectl("delete", "service", "memcached-sample")
    environment.kubectl("wait", "--for=create", "service/memcached-sample", "--timeout=60s")
    reconciles(environment, size=3)
    reconciles(environment, size=1)


@pytest.mark.thorough
def test_a_restarted_node_brings_every_sample_back_with_its_data(
    environment: Environment, node: Node
) -> None:
    word = os.urandom(6).hex()
    names = [sample["metadata"]["name"] for sample in SAMPLES if sample["kind"] == "Postgresql"]
    assert len(names) == 2
    for name in names:
        environment.psql(name, f"DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT '{word}' AS word")
    began = datetime.now(UTC).replace(microsecond=0)
    node.restart()

    def started(*which: str) -> bool:
        pods = environment.get("pods", *which)["items"]
        states = [status["state"] for pod in pods for status in pod["status"].get("containerStatuses", [])]
        return bool(states) and all(
            "running" in state and datetime.fromisoformat(state["running"]["startedAt"]) >= began
            for state in states
        )

    within(HEAL_SECONDS, lambda: started("-l", MANAGED))
    # Clients find the servers by name.
    within(HEAL_SECONDS, lambda: started(*DNS))
    environment.kubectl("wait", "pod", *DNS, "--for=condition=Ready", f"--timeout={HEAL_SECONDS:.0f}s")
    environment.wait_ready(*map(resource, SAMPLES), seconds=HEAL_SECONDS)
    for name in names:
        # A name may take a moment longer: that CoreDNS is ready is not known on the node at once.
        assert environment.psql(name, "SELECT word FROM kept", retried=True) == word
    reconciles(environment, size=2)
    reconciles(environment, size=1)

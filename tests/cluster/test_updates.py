"""An operator with another image of its own over databases that serve: one restarts at a time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import Any

import pytest

from infra.drivers.engine import ContainerEngine
from infra.settings import cluster_name
from tests.cluster.ledger import ledger_of
from tests.cluster.stack import STACK, Environment, within

pytestmark = pytest.mark.thorough

PLURAL = "postgresqls.database.db.example.com"
OTHER_PLURAL = "postgresqls.database.technotuesday.io"
SYSTEM = "kindling-system"
OPERATOR = "deployment/kindling-operator"
VARIABLE = "KINDLING_IMAGE_POSTGRES"
SMALL = {"requests": {"cpu": "10m", "memory": "64Mi"}}
IN_TURN = ("turn-1", "turn-2", "turn-3")
EPHEMERAL = "turn-ephemeral"
DONE_SECONDS = 300.0


@pytest.fixture(scope="module")
def databases(environment: Environment) -> Iterator[Environment]:
    """Three that take what an operator brings, and one that would lose its data by it."""
    for name in (*IN_TURN, EPHEMERAL):
        storage = {"ephemeral": True} if name == EPHEMERAL else {"size": "256Mi"}
        spec = {"storage": storage, "resources": SMALL, "deletionPolicy": "Delete"}
        body = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql", "metadata": {"name": name}}
        environment.apply({**body, "spec": spec})
    names = [f"{PLURAL}/{name}" for name in (*IN_TURN, EPHEMERAL)]
    environment.wait_ready(*names, seconds=240)
    yield environment
    environment.kubectl("delete", *names)


@pytest.fixture
def another_image(environment: Environment) -> Iterator[str]:
    """The same server under another name, on the node; the operator's own again at the end."""
    container = environment.get(OPERATOR, "-n", SYSTEM)["spec"]["template"]["spec"]["containers"][0]
    [image] = [item["value"] for item in container["env"] if item["name"] == VARIABLE]
    other = f"{image}-other"
    node = f"{cluster_name(STACK)}-control-plane"
    ContainerEngine.detect().run("exec", node, "ctr", "--namespace=k8s.io", "images", "tag", image, other)
    yield other
    environment.ok("up", STACK)

    def back() -> bool:
        """Each that takes turns runs the operator's own image again."""
        found = environment.get(f"{PLURAL},{OTHER_PLURAL}", "--all-namespaces")["items"]
        return all(
            item["status"].get("image") == image for item in found if item["metadata"]["name"] != EPHEMERAL
        )

    within(DONE_SECONDS, back)


@contextmanager
def watched(environment: Environment) -> Iterator[list[dict[str, Any]]]:
    """Every event of a Pod of the resources, in the order in which they came; complete once it has ended."""
    words = ("get", "pods", "-l", "app.kubernetes.io/managed-by=kindling", "--watch", "--output-watch-events")
    found: list[dict[str, Any]] = []
    with TemporaryFile("w+") as file:
        watch = environment.start(*words, "-o", "json", into=file)
        try:
            time.sleep(2)
            yield found
        finally:
            watch.terminate()
            watch.communicate(timeout=30)
        file.seek(0)
        said = file.read()
    decoder, rest = json.JSONDecoder(), said.lstrip()
    while rest:
        try:
            event, end = decoder.raw_decode(rest)
        except ValueError:
            break  # cut off in its midst
        found.append(event)
        rest = rest[end:].lstrip()


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def most_at_once(events: list[dict[str, Any]]) -> tuple[int, set[str]]:
    """How many of the databases' Pods were not ready at the same moment, and which ever were not."""
    state: dict[str, bool] = {}
    most, ever = 0, set[str]()
    for event in events:
        pod = event["object"]
        name = pod["metadata"]["name"].rpartition("-")[0]
        if name in (*IN_TURN, EPHEMERAL):
            state[name] = event["type"] != "DELETED" and ready(pod)
            down = {one for one, up in state.items() if not up}
            most, ever = max(most, len(down)), ever | down
    return most, ever


def test_one_server_restarts_at_a_time_and_loses_no_row(databases: Environment, another_image: str) -> None:
    def runs() -> dict[str, str]:
        found = databases.get(PLURAL)["items"]
        return {item["metadata"]["name"]: item["status"].get("image", "") for item in found}

    before = runs()
    with ExitStack() as stack, watched(databases) as events:
        ledgers = [stack.enter_context(ledger_of(databases, name)) for name in (*IN_TURN, EPHEMERAL)]
        loads: list[subprocess.Popen[str]] = [ledger.start(round=1, seconds=240) for ledger in ledgers]
        time.sleep(3)
        databases.kubectl("set", "env", OPERATOR, "-n", SYSTEM, f"{VARIABLE}={another_image}")
        within(DONE_SECONDS, lambda: all(runs()[name] == another_image for name in IN_TURN))
        databases.wait_ready(*(f"{PLURAL}/{name}" for name in IN_TURN))
        *lost, spared = loads
        for load in lost:
            load.communicate(timeout=60)
            assert load.returncode != 0, "its server was restarted"
        assert spared.poll() is None, spared.communicate()
        spared.terminate()
        spared.communicate(timeout=30)
        for ledger in ledgers[:-1]:
            ledger.assert_kept(round=1)
    assert runs()[EPHEMERAL] == before[EPHEMERAL]
    assert events
    assert most_at_once(events) == (1, set(IN_TURN))

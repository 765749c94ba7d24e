"""Sixty mixed resources at once on the dev cluster, and the same ones after a restart of its node."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.cluster.node import Node
from tests.cluster.sixty import manifests, record, rise, unready
from tests.cluster.stack import Environment, within

pytestmark = pytest.mark.thorough

NAMESPACE = "sixty"
READY_SECONDS = 600.0
RESTART_SECONDS = 600.0
GONE_SECONDS = 300.0


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, object]]:
    """What is measured; written down where KINDLING_FIGURES names a file."""
    found: dict[str, object] = {}
    yield found
    print(json.dumps(found, indent=2))
    if "KINDLING_FIGURES" in os.environ:
        record(Path(os.environ["KINDLING_FIGURES"]), **found)


@pytest.fixture(scope="module")
def crowded(environment: Environment) -> Iterator[Environment]:
    environment.kubectl("create", "namespace", NAMESPACE)
    yield environment
    environment.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")


def test_all_become_ready(crowded: Environment, figures: dict[str, object]) -> None:
    items = manifests(NAMESPACE)
    assert len(items) == 60
    crowded.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    figures["from_nothing"] = asdict(rise(crowded, NAMESPACE, seconds=READY_SECONDS))
    pods = crowded.get("pods", "-n", NAMESPACE)["items"]
    assert len(pods) == 45
    assert all(status["ready"] for pod in pods for status in pod["status"]["containerStatuses"])


def test_all_are_ready_after_a_restart_of_the_node(crowded: Environment, figures: dict[str, object]) -> None:
    """Ready by a status written since, and with Pods whose containers have started since."""
    before = restarts(crowded)
    Node(crowded).restart()
    began = time.monotonic()
    within(RESTART_SECONDS, lambda: all(restarts(crowded).get(pod, 0) > was for pod, was in before.items()))
    risen = rise(crowded, NAMESPACE, seconds=RESTART_SECONDS)
    figures["after_a_restart"] = {**asdict(risen), "seconds": time.monotonic() - began}
    time.sleep(20)
    assert unready(crowded, NAMESPACE) == {}, "once Ready, they stay so"


def restarts(environment: Environment) -> dict[str, int]:
    """By Pod, how often its containers were restarted; without Pods of which a container does not run."""
    return {
        pod["metadata"]["uid"]: sum(status["restartCount"] for status in statuses)
        for pod in environment.get("pods", "-n", NAMESPACE)["items"]
        if (statuses := pod["status"].get("containerStatuses", []))
        and all("running" in status["state"] for status in statuses)
    }


def test_all_are_gone_with_their_namespace(crowded: Environment, figures: dict[str, object]) -> None:
    began = time.monotonic()
    crowded.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=GONE_SECONDS)
    figures["namespace_deleted_seconds"] = time.monotonic() - began

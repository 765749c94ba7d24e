"""A container that keeps failing: its status says so all the time, with why, and its remedy works."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.stack import Environment, within
from tests.cluster.test_growing_volume import watched
from tests.cluster.test_pod_template import condition

TOO_LITTLE = "12Mi"
WATCHED_SECONDS = 40.0
"""In which the kubelet starts it again twice."""
SAID = (
    f"Container initdb keeps failing: it uses more memory than its limit, {TOO_LITTLE}, and is killed for "
    "that (OOMKilled). Raise the limit in the spec, or have it use less."
)


@pytest.fixture
def resource(environment: Environment) -> Iterator[str]:
    """A Postgresql whose memory is too little to make a database in."""
    name = f"small-{os.urandom(3).hex()}"
    body = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql", "metadata": {"name": name}}
    memory = {"requests": {"memory": "1Mi"}, "limits": {"memory": TOO_LITTLE}}
    found = f"postgresqls.database.db.example.com/{name}"
    try:
        environment.apply({**body, "spec": {"resources": memory, "deletionPolicy": "Delete"}})
        yield found
    finally:
        environment.kubectl("delete", found, "--ignore-not-found", "--wait=true")


def restarts(environment: Environment, resource: str) -> int:
    """Of its init container."""
    pod = environment.get("pod", f"{resource.partition('/')[2]}-0")
    statuses = {item["name"]: item for item in pod["status"]["initContainerStatuses"]}
    return int(statuses["initdb"]["restartCount"])


def test_one_that_is_killed_for_its_memory_is_named_until_it_has_enough(
    environment: Environment, resource: str, tmp_path: Path
) -> None:
    within(60, lambda: condition(environment, resource, "Degraded").get("reason") == "CrashLoopBackOff")
    before = restarts(environment, resource)
    query = '{.status.conditions[?(@.type=="Degraded")].message}'
    with watched(environment, query, resource, log=tmp_path / "log") as said:
        time.sleep(WATCHED_SECONDS)
        assert said() == [SAID]
    assert restarts(environment, resource) > before
    patch = '{"spec":{"resources":{"limits":{"memory":"256Mi"}}}}'
    environment.kubectl("patch", resource, "--type=merge", "--patch", patch)
    environment.wait_ready(resource, seconds=120)

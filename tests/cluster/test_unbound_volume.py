"""A StorageClass that does not exist, or that nobody serves: the status says so, and its remedy works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.stack import Environment, within
from tests.cluster.test_pod_template import condition

DATABASE = "postgresqls.database.db.example.com"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
"""The annotation of a class that claims get which name none."""
NOBODY = "storage.example.com/nobody"
SAID_SECONDS = 45.0
"""Twenty until it is said at all; where the Event comes after that, as long again."""


@pytest.fixture
def name(environment: Environment) -> Iterator[str]:
    """Of a Postgresql and of its StorageClass, which are there once a test makes them."""
    name = f"unbound-{os.urandom(3).hex()}"
    try:
        yield name
    finally:
        environment.kubectl("delete", f"{DATABASE}/{name}", "--ignore-not-found", "--wait=true")
        environment.kubectl("delete", "storageclass", name, "--ignore-not-found")


def make(environment: Environment, name: str) -> str:
    """A Postgresql of the class of its own name."""
    spec = {"storage": {"size": "256Mi", "storageClassName": name}, "deletionPolicy": "Delete"}
    body = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql", "metadata": {"name": name}}
    environment.apply({**body, "spec": spec})
    return f"{DATABASE}/{name}"


def storage_class(environment: Environment, name: str, *, provisioner: str, mode: str) -> None:
    meta = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    environment.apply({**meta, "provisioner": provisioner, "volumeBindingMode": mode})


def default_classes(environment: Environment) -> list[dict[str, Any]]:
    """The StorageClasses that are the cluster's default: one at least."""
    found = environment.get("storageclass")["items"]
    marked = [item for item in found if (item["metadata"].get("annotations") or {}).get(DEFAULT) == "true"]
    assert marked, "the cluster has no default StorageClass"
    return marked


def test_a_class_that_does_not_exist_is_named_and_once_it_does_the_server_comes_up(
    environment: Environment, name: str
) -> None:
    resource = make(environment, name)
    within(SAID_SECONDS, lambda: condition(environment, resource, "Degraded").get("status") == "True")
    found = condition(environment, resource, "Degraded")
    assert found["reason"] == "VolumeNotBound"
    said = f'storageclass.storage.k8s.io "{name}" not found. '
    said = f"PersistentVolumeClaim {name}-data has no volume: {said}"
    assert found["message"].startswith(said), found["message"]
    storage_class(
        environment,
        name,
        provisioner=default_classes(environment)[0]["provisioner"],
        mode="WaitForFirstConsumer",
    )
    environment.wait_ready(resource, seconds=120)


def test_a_provisioner_that_does_nothing_is_waited_for(environment: Environment, name: str) -> None:
    """The class waits for the first Pod, so the scheduler has chosen a node and says nothing."""
    storage_class(environment, name, provisioner=NOBODY, mode="WaitForFirstConsumer")
    resource = make(environment, name)
    within(SAID_SECONDS, lambda: condition(environment, resource, "Ready").get("reason") == "VolumeNotBound")
    found = condition(environment, resource, "Ready")
    assert f"the provisioner of StorageClass {name} has made none yet. Wait, or see" in found["message"]
    assert condition(environment, resource, "Degraded")["status"] == "False"
    assert condition(environment, resource, "Progressing")["status"] == "True"

"""A cluster without a default StorageClass: the status says so, and its remedy works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.stack import Environment, within
from tests.cluster.test_pod_template import condition
from tests.cluster.test_unbound_volume import DATABASE, DEFAULT, SAID_SECONDS, default_classes

SAID = (
    "it names no StorageClass, and the cluster has no default one. Mark a StorageClass as the default. "
    "For another class, delete this Postgresql"
)


@contextmanager
def no_default(environment: Environment) -> Iterator[None]:
    names = [found["metadata"]["name"] for found in default_classes(environment)]
    try:
        for name in names:
            environment.kubectl("annotate", "storageclass", name, f"{DEFAULT}=false", "--overwrite")
        yield
    finally:
        for name in names:
            environment.kubectl("annotate", "storageclass", name, f"{DEFAULT}=true", "--overwrite")


@pytest.mark.thorough
def test_without_a_default_class_the_status_says_so_until_there_is_one(environment: Environment) -> None:
    name = f"unbound-{os.urandom(3).hex()}"
    resource = f"{DATABASE}/{name}"
    body = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql", "metadata": {"name": name}}
    try:
        with no_default(environment):
            environment.apply({**body, "spec": {"deletionPolicy": "Delete"}})
            within(SAID_SECONDS, lambda: condition(environment, resource, "Degraded").get("status") == "True")
            found = condition(environment, resource, "Degraded")
            assert found["reason"] == "VolumeNotBound"
            said = f"PersistentVolumeClaim {name}-data has no volume: {SAID}"
            assert found["message"].startswith(said), found["message"]
        environment.wait_ready(resource, seconds=120)
    finally:
        environment.kubectl("delete", resource, "--ignore-not-found", "--wait=true")

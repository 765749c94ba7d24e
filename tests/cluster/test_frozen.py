"""Servers whose Pod the kubelet takes to be well: frozen, on a hung disk, without their role or database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.node import Node
from tests.cluster.stack import Environment, within

CRD = "postgresqls.database.db.example.com"
PROMISED_SECONDS = 15.0
AGAIN_SECONDS = 60.0
# A check is begun five seconds after the one before.
CHECKED_SECONDS = 7.0
PLACE = "/var/hanging"


@pytest.fixture(scope="module")
def node(environment: Environment) -> Node:
    return Node(environment)


@pytest.fixture
def make(environment: Environment) -> Iterator[Callable[..., str]]:
    """Makes a Postgresql, waits until it is Ready, and deletes it with its data at the end."""
    names: list[str] = []

    def made(name: str, **spec: Any) -> str:
        manifest = {
            "apiVersion": "database.db.example.com/v1",
            "kind": "Postgresql",
            "metadata": {"name": name},
            "spec": {"deletionPolicy": "Delete", **spec},
        }
        names.append(f"{CRD}/{name}")
        environment.apply(manifest)
        environment.wait_ready(names[-1], seconds=180)
        return names[-1]

    yield made
    for resource in names:
        delete(environment, resource)


def delete(environment: Environment, resource: str) -> None:
    words = ("--wait=true", "--cascade=foreground", "--ignore-not-found")
    environment.kubectl("delete", resource, *words, timeout=180)


def until(environment: Environment, resource: str, status: str, *, since: float) -> tuple[float, str]:
    """The seconds until Ready has that status, and its reason then."""
    while time.monotonic() < since + AGAIN_SECONDS:
        conditions = environment.get(resource)["status"]["conditions"]
        ready = next(item for item in conditions if item["type"] == "Ready")
        if ready["status"] == status:
            return time.monotonic() - since, ready["reason"]
        time.sleep(0.2)
    raise AssertionError(f"Ready was not {status} within {AGAIN_SECONDS:g} s")


def assert_found_out(environment: Environment, resource: str, broken: Any) -> None:
    """Not Ready for what `broken` does, as soon as promised, and Ready again by itself after it."""
    pod = f"{resource.partition('/')[2]}-0"
    time.sleep(CHECKED_SECONDS)
    before = environment.get("pod", pod)
    began = time.monotonic()
    with broken:
        took, reason = until(environment, resource, "False", since=began)
        status = environment.get(resource)["status"]
    again, _ = until(environment, resource, "True", since=time.monotonic())
    after = environment.get("pod", pod)
    print(f"not Ready after {took:.1f} s, Ready again after {again:.1f} s")
    assert reason == "NotResponding"
    assert status["pgPhase"] == "Failed"
    assert took <= PROMISED_SECONDS
    # It recovered by itself: nobody restarted it.
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]


def test_a_frozen_server_is_not_ready_within_seconds_and_comes_back(
    environment: Environment, node: Node, make: Callable[..., str]
) -> None:
    resource = make("freezing")
    assert_found_out(environment, resource, node.frozen(node.container("freezing-0", "postgres")))
    assert environment.psql("freezing", "select 1") == "1"


def test_a_server_whose_disk_hangs_is_not_ready_within_seconds_and_comes_back(
    environment: Environment, node: Node, make: Callable[..., str]
) -> None:
    """It runs, lets in and answers; what it commits does not get onto the disk."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "hanging"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": f"{PLACE}/data", "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "hanging",
        },
    }
    with node.disk(PLACE, size="1G"):
        environment.apply(volume)
        try:
            resource = make("hanging", storage={"storageClassName": "hanging"})
            assert_found_out(environment, resource, node.hung(PLACE))
        finally:
            delete(environment, f"{CRD}/hanging")
            environment.kubectl("delete", "pv/hanging", "--wait=true")


def test_a_dropped_database_or_role_is_there_again_within_seconds(
    environment: Environment, make: Callable[..., str]
) -> None:
    resource = make("dropping", defaultUser="ada", password="lovelace-1815")
    inside = ("exec", "dropping-0", "-c", "postgres", "--")
    psql = (*inside, "psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-tA")
    database, role = "DROP DATABASE ada WITH (FORCE)", "DROP ROLE ada"
    owned = "SELECT count(*) FROM pg_database WHERE datname = 'ada' AND pg_get_userbyid(datdba) = 'ada'"
    for statements in ((database,), (database, role)):
        time.sleep(CHECKED_SECONDS)
        environment.kubectl(*psql, *(word for statement in statements for word in ("-c", statement)))
        took = within(PROMISED_SECONDS, lambda: environment.kubectl(*psql, "-c", owned).strip() == "1")
        print(f"{'; '.join(statements)}: made again after {took:.1f} s")
        assert environment.psql("dropping", "SELECT current_user") == "ada"
        environment.wait_ready(resource)

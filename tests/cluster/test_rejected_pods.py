"""A quota that lets no Pod be made: the message has the command with which they are made once it is gone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.stack import Environment, within

DATABASE, CACHE = "postgresqls.database.db.example.com", "memcacheds.cache.example.com"
KINDS = {
    DATABASE: ("v1", "Postgresql", {"storage": {"ephemeral": True}}, "PodMissing"),
    CACHE: ("v1alpha1", "Memcached", {"size": 1}, "FailedCreate"),
}
NAMES = {DATABASE: "db", CACHE: "cache"}
SAID_SECONDS = 60.0
MADE_SECONDS = 5.0
"""Attempts pause for half a minute by then, and each time for twice as long."""


@pytest.fixture
def namespace(environment: Environment) -> Iterator[str]:
    name = f"rejected-{os.urandom(3).hex()}"
    environment.kubectl("create", "namespace", name)
    try:
        environment.kubectl("create", "quota", "none", "--hard=pods=0", "-n", name)
        yield name
    finally:
        environment.kubectl("delete", "namespace", name, "--wait=false")


def ready(environment: Environment, plural: str, namespace: str) -> dict[str, Any]:
    found = environment.get(plural, NAMES[plural], "-n", namespace)
    for item in found.get("status", {}).get("conditions", []):
        if item["type"] == "Ready":
            return dict(item)
    return {}


def pods(environment: Environment, namespace: str, plural: str) -> list[Any]:
    kind = f"{KINDS[plural][1].lower()}.{plural.partition('.')[2]}"
    words = ("pods", "-n", namespace, "-l", f"kindling.dev/kind={kind}")
    return list(environment.get(*words)["items"])


def test_the_command_of_the_message_has_pods_made_at_once(environment: Environment, namespace: str) -> None:
    for plural, (version, kind, spec, _) in KINDS.items():
        head = {"apiVersion": f"{plural.partition('.')[2]}/{version}", "kind": kind}
        metadata = {"name": NAMES[plural], "namespace": namespace}
        environment.apply({**head, "metadata": metadata, "spec": spec})
    commands = {}
    for plural, (_, _, _, reason) in KINDS.items():

        def said(plural: str = plural, reason: str = reason) -> bool:
            return bool(ready(environment, plural, namespace).get("reason") == reason)

        within(SAID_SECONDS, said)
        message = ready(environment, plural, namespace)["message"]
        assert "exceeded quota: none" in message
        found = re.search(r"at once after `kubectl ([^`]+)`", message)
        assert found is not None, message
        commands[plural] = found[1].split(" ")
    environment.kubectl("delete", "quota", "none", "-n", namespace)
    for plural, words in commands.items():
        environment.kubectl(*words)

        def made(plural: str = plural) -> bool:
            return pods(environment, namespace, plural) != []

        within(MADE_SECONDS, made)
    for plural in KINDS:
        environment.wait_ready(f"{plural}/{NAMES[plural]}", "-n", namespace, seconds=120)

"""MyCustomResource as its users meet it: a friend comes, lingers and goes, in another namespace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.stack import Environment

NAMESPACE = "friends"
RESOURCE = "mycustomresources.poc.test.domain/my-custom-resource-01"
FINALIZER = "kindling.dev/test"
# Nobody schedules it, so it never runs, needs no image, and is gone at once when it is let go.
FRIEND = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "funny-joe", "namespace": NAMESPACE, "finalizers": [FINALIZER]},
    "spec": {"schedulerName": "nobody", "containers": [{"name": "joe", "image": "registry.invalid/joe:1"}]},
}


@pytest.fixture(scope="module")
def friends(environment: Environment) -> Iterator[Environment]:
    """A namespace for the friend, which is not the resource's."""
    environment.kubectl("create", "namespace", NAMESPACE)
    yield environment
    environment.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def healthy(environment: Environment, expected: bool) -> dict[str, Any]:
    """Wait until it says so, and return the condition that does."""
    truth = str(expected)
    field = f"{{.status.Healthy}}={truth.lower()}"
    environment.kubectl("wait", RESOURCE, f"--for=jsonpath={field}", "--timeout=30s")
    status = environment.get(RESOURCE)["status"]
    conditions = {item["type"]: item for item in status["conditions"]}
    assert conditions["Ready"]["status"] == "True"
    assert conditions["Healthy"]["status"] == truth
    found: dict[str, Any] = conditions["Healthy"]
    return found


def seconds(later: str, earlier: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def test_healthy_follows_the_friend_within_a_second(friends: Environment) -> None:
    assert healthy(friends, False)["reason"] == "FriendMissing"
    friends.kubectl("apply", "-f", "-", stdin=json.dumps(FRIEND))
    try:
        came = healthy(friends, True)
        pod = friends.get("pod", "-n", NAMESPACE, "funny-joe")["metadata"]
        assert came["reason"] == "FriendFound"
        assert seconds(came["lastTransitionTime"], pod["creationTimestamp"]) <= 1

        friends.kubectl("delete", "pod", "-n", NAMESPACE, "funny-joe", "--wait=false")
        time.sleep(2)
        assert "deletionTimestamp" in friends.get("pod", "-n", NAMESPACE, "funny-joe")["metadata"]
        assert healthy(friends, True) == came  # not gone yet, and nothing written
    finally:
        let_go = json.dumps([{"op": "remove", "path": "/metadata/finalizers"}])
        friends.kubectl("patch", "pod", "-n", NAMESPACE, "funny-joe", "--type=json", "-p", let_go)
        friends.kubectl("delete", "pod", "-n", NAMESPACE, "funny-joe", "--ignore-not-found")
    assert healthy(friends, False)["reason"] == "FriendMissing"


def test_the_printer_columns_say_who_and_whether(friends: Environment) -> None:
    heading, line = friends.kubectl("get", RESOURCE).splitlines()
    assert heading.split()[:4] == ["NAME", "FRIEND", "HEALTHY", "READY"]
    assert line.split()[:4] == ["my-custom-resource-01", "funny-joe", "false", "True"]

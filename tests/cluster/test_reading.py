"""What the suites read without kubectl is what kubectl prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stack import Environment, within

SYSTEM = ("-n", "kindling-system")


def without_counters(found: dict[str, Any]) -> Any:
    """Without what goes on meanwhile: the operator's own writes, and heartbeats."""
    items = found.get("items", [found])
    for item in items:
        item["metadata"].pop("resourceVersion", None)
        item["metadata"].pop("managedFields", None)
        item.pop("status", None)
    return sorted(items, key=lambda item: (item["kind"], item["metadata"]["name"]))


@pytest.mark.parametrize(
    "words",
    [
        ("nodes",),
        ("deployment/kindling-operator", *SYSTEM),
        ("deploy", "kindling-operator", *SYSTEM),
        ("pods", "-A"),
        ("pods,configmaps", *SYSTEM, "-l", "app.kubernetes.io/name=kindling"),
        ("pods", "--namespace=kube-system", "--field-selector=metadata.name=nothing"),
        ("crd", "memcacheds.cache.example.com"),
        ("serviceaccount/default", "configmap/kube-root-ca.crt"),
        ("memcacheds.cache.example.com",),
    ],
)
def test_read_as_kubectl_reads(environment: Environment, words: tuple[str, ...]) -> None:
    def same() -> bool:
        printed = json.loads(environment.kubectl("get", *words, "-o", "json"))
        read = environment._reader.get(*words)
        assert read is not None
        assert ("items" in read) == ("items" in printed)
        return bool(without_counters(read) == without_counters(printed))

    within(60, same)  # Other suites make Pods and take them away meanwhile.


@pytest.mark.parametrize("words", [("nothings",), ("events",), ("pods", "-o", "wide"), ("pods", "--watch")])
def test_what_is_not_plain_is_left_to_kubectl(environment: Environment, words: tuple[str, ...]) -> None:
    assert environment._reader.get(*words) is None


def test_what_no_status_says_is_not_found_either(environment: Environment) -> None:
    with pytest.raises(AssertionError, match=r"\(NotFound\)"):
        environment.kubectl("get", "--raw", "/no/such/page")


def test_what_the_server_refuses_is_said(environment: Environment) -> None:
    with pytest.raises(AssertionError, match=r"Error from server \(NotFound\): pods \"no-such\" not found"):
        environment.get("pod", "no-such")

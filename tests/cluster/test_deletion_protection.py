"""A protected database outlives what deletes past it: kubectl, and the end of its namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stack import Environment, within

NAMESPACE = "protected"
CLAIM = ("persistentvolumeclaim", "kept-data", "-n", NAMESPACE)
LABEL = "kindling.dev/deletion-protection"


def gone(environment: Environment, *words: str) -> bool:
    return environment.kubectl("get", *words, "--ignore-not-found", "-o", "name") == ""


def finalizing(environment: Environment) -> dict[str, Any]:
    """The conditions of the namespace's deletion, by type."""
    found = environment.get("namespace", NAMESPACE)["status"].get("conditions") or []
    return {item["type"]: item for item in found}


def is_labelled(environment: Environment) -> bool:
    return LABEL in environment.get(*CLAIM)["metadata"]["labels"]


def test_a_protected_database_outlives_its_namespaces_deletion(environment: Environment) -> None:
    environment.kubectl("create", "namespace", NAMESPACE)
    spec = {"deletionProtection": True, "storage": {"size": "64Mi"}}
    environment.apply(
        {
            "apiVersion": "database.technotuesday.io/v1",
            "kind": "Postgresql",
            "metadata": {"name": "kept", "namespace": NAMESPACE},
            "spec": spec,
        }
    )
    database = ("postgresqls.database.technotuesday.io/kept", "-n", NAMESPACE)
    environment.wait_ready(*database)
    volume = environment.get(*CLAIM)["spec"]["volumeName"]
    for words in (database, ("persistentvolumeclaim/kept-data", "-n", NAMESPACE)):
        with pytest.raises(AssertionError, match=r"(it|of its resource) to false"):
            environment.kubectl("delete", *words, "--wait=false")

    # The operator puts the label on the claim, and takes it off.
    for protected in (False, True):
        patch = json.dumps({"spec": {"deletionProtection": protected}})
        environment.kubectl("patch", *database, "--type=merge", f"--patch={patch}")
        within(30, lambda now=protected: is_labelled(environment) == now)  # type: ignore[misc]

    environment.kubectl("label", "namespace", NAMESPACE, f"{LABEL}=true")
    with pytest.raises(AssertionError, match=f"kubectl label namespaces {NAMESPACE} {LABEL}-"):
        environment.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    environment.kubectl("label", "namespace", NAMESPACE, f"{LABEL}-")
    environment.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    within(60, lambda: gone(environment, "pod", "kept-0", "-n", NAMESPACE))
    within(60, lambda: "set it to false first" in json.dumps(finalizing(environment)))
    assert environment.get(*CLAIM)["metadata"].get("deletionTimestamp") is None

    environment.kubectl("patch", *database, "--type=merge", '--patch={"spec":{"deletionProtection":false}}')
    # The namespace goes when Kubernetes retries: after up to a minute, once for the resource and the
    # claim, and again for what they left. Its retry may come before the operator has seen the edit.
    within(240, lambda: gone(environment, "namespace", NAMESPACE))
    within(60, lambda: gone(environment, "persistentvolume", volume))

"""What holds for every kind alike, on real Pods: samples in a strict namespace, rest, restart, secrecy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.stack import ROOT, Environment

NAMESPACE = "strict"
SAMPLES = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "samples").glob("*.yaml"))]
CANARIES = ("password123", "Password123!")
CHILDREN = "deployments,statefulsets,pods,services,configmaps,pvc,networkpolicies,poddisruptionbudgets"


def resource(sample: dict[str, Any]) -> str:
    group = sample["apiVersion"].partition("/")[0]
    return f"{sample['kind'].lower()}s.{group}/{sample['metadata']['name']}"


@pytest.fixture(scope="module")
def strict(environment: Environment) -> Iterator[Environment]:
    """A namespace that takes restricted Pods alone, with every sample in it, verbatim."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": labels},
    }
    environment.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
    environment.kubectl("apply", "-n", NAMESPACE, "-f", str(ROOT / "samples"))
    yield environment
    environment.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=180)


@pytest.mark.parametrize("sample", SAMPLES, ids=resource)
def test_the_sample_becomes_ready_in_a_namespace_of_restricted_pods(
    strict: Environment, sample: dict[str, Any]
) -> None:
    strict.kubectl(
        "wait", "-n", NAMESPACE, "--for=condition=Ready", resource(sample), "--timeout=240s", timeout=300
    )
    found = strict.get(resource(sample), "-n", NAMESPACE)
    assert found["spec"] == sample["spec"]
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]


def test_the_documents_columns_come_first(strict: Environment) -> None:
    def columns(plural: str) -> list[str]:
        return strict.kubectl("get", plural, "-n", NAMESPACE).splitlines()[0].split()

    assert columns("pulsarconsumers")[1:5] == ["SERVER", "TOPIC", "SUBSCRIPTION", "REPLICAS"]
    for plural in ("postgresqls.database.db.example.com", "memcacheds", "mycustomresources"):
        assert columns(plural)[0] == "NAME"
        assert "READY" in columns(plural)
        assert columns(plural)[-1] == "AGE"


def test_no_workload_has_a_service_accounts_token(strict: Environment) -> None:
    pods = strict.get("pods", "-n", NAMESPACE)["items"]
    assert len(pods) >= 4
    for pod in pods:
        assert pod["spec"]["automountServiceAccountToken"] is False, pod["metadata"]["name"]
        assert not [volume for volume in pod["spec"].get("volumes", []) if "projected" in volume]


def test_every_pod_is_selected_by_a_network_policy(strict: Environment) -> None:
    policies = strict.get("networkpolicies", "-n", NAMESPACE)["items"]
    selectors = [policy["spec"]["podSelector"]["matchLabels"] for policy in policies]
    for pod in strict.get("pods", "-n", NAMESPACE)["items"]:
        labels = pod["metadata"]["labels"]
        chosen = [selector for selector in selectors if selector.items() <= labels.items()]
        assert len(chosen) == 1, pod["metadata"]["name"]


def test_events_report_each_resource(strict: Environment) -> None:
    events = strict.get("events.events.k8s.io", "-n", NAMESPACE)["items"]
    for sample in SAMPLES:
        reasons = [
            event["reason"]
            for event in events
            if event["reportingController"].startswith("kindling")
            and (event["regarding"]["kind"], event["regarding"]["name"])
            == (sample["kind"], sample["metadata"]["name"])
        ]
        assert reasons, resource(sample)


def test_passwords_stand_in_secrets_alone(strict: Environment) -> None:
    """Each resource's own spec, where its author put the password, is set aside."""
    seen = strict.kubectl(
        "get", f"{CHILDREN},events,leases", "-A", "-o", "json", "--show-managed-fields", timeout=60
    )
    logs = strict.kubectl(
        "logs", "-n", "kindling-system", "deployment/kindling-operator", "--all-pods=true", "--tail=-1"
    )
    texts = [seen, logs]
    for pod in strict.get("pods", "-n", NAMESPACE)["items"]:
        texts.append(strict.kubectl("logs", "-n", NAMESPACE, pod["metadata"]["name"], "--all-containers"))
    for sample in SAMPLES:
        found = strict.get(resource(sample), "-n", NAMESPACE)
        texts.append(json.dumps([found["status"], found["metadata"].get("labels")]))
    for text in texts:
        assert not [canary for canary in CANARIES if canary in text]
    assert "kindling.engine" in logs  # They are the operator's logs, not empty.


def versions(environment: Environment) -> dict[str, str]:
    """resourceVersion of everything that the operator could write."""
    kinds = ",".join(dict.fromkeys(resource(sample).partition("/")[0] for sample in SAMPLES))
    items = environment.get(f"{kinds},{CHILDREN},secrets", "-n", NAMESPACE)["items"]
    return {f"{i['kind']}/{i['metadata']['name']}": i["metadata"]["resourceVersion"] for i in items}


def test_nothing_is_written_at_rest_nor_by_a_restart(strict: Environment) -> None:
    strict.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pods", "--all", "--timeout=120s")
    before = versions(strict)
    assert len(before) > 20
    time.sleep(5)
    assert versions(strict) == before
    strict.kubectl("rollout", "restart", "-n", "kindling-system", "deployment/kindling-operator")
    strict.kubectl(
        "rollout", "status", "-n", "kindling-system", "deployment/kindling-operator", "--timeout=120s"
    )
    time.sleep(15)  # the Lease changes hands, everything is looked at again
    assert versions(strict) == before


def test_no_trace_of_the_framework_on_anything(strict: Environment) -> None:
    kinds = ",".join(dict.fromkeys(resource(sample).partition("/")[0] for sample in SAMPLES))
    for item in strict.get(f"{kinds},{CHILDREN},secrets", "-A")["items"]:
        annotations = item["metadata"].get("annotations") or {}
        assert not [name for name in annotations if "kopf" in name or "zalando" in name]
        assert not [name for name in item["metadata"].get("finalizers", []) if "kopf" in name]

"""The policies for requesters: made from the CRDs, none forgotten, within what Kubernetes admits."""

from __future__ import annotations

from typing import Any

import pytest

from infra import cel, manifests
from infra.admission import NAMESPACES, fields, policies, secret_references

CRDS = manifests.load("crds")
CHECKS = 28
"""How many of an authorizer's checks a policy may make (kubernetes/kubernetes#124569)."""


def specs() -> list[tuple[str, dict[str, Any]]]:
    return [
        (
            crd["spec"]["names"]["kind"],
            crd["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]["properties"]["spec"],
        )
        for crd in CRDS
    ]


def words(path: cel.Path) -> str:
    return ".".join(name + ("[]" if key else "") for name, key in path)


def test_each_field_that_names_a_secret_is_known() -> None:
    found = {(kind, words(path)) for kind, spec in specs() for path in secret_references(spec)}
    assert found >= {
        ("Postgresql", "passwordSecretRef"),
        ("Postgresql", "tls.secretName"),
        ("PulsarConsumer", "auth.tokenSecretRef"),
        ("PulsarConsumer", "auth.basicSecretRef"),
        ("PulsarConsumer", "auth.oauth2.credentialsSecretRef"),
        ("PulsarConsumer", "tls.caSecretRef"),
        ("PulsarConsumer", "tls.clientCertificateSecretRef"),
        ("PulsarConsumer", "env[].valueFrom.secretKeyRef"),
        ("PulsarConsumer", "imagePullSecrets[]"),
        ("Postgresql", "imagePullSecrets[]"),
        ("Memcached", "imagePullSecrets[]"),
    }
    named = {
        (kind, words(path))
        for kind, spec in specs()
        for path, _ in fields(spec)
        if "secret" in path[-1][0].lower()
    }
    assert named == found, "a field that names a Secret is an object with its name, or a list of such"


def test_each_kind_that_needs_one_has_a_policy_for_all_its_groups() -> None:
    found = {
        policy.name: [
            (*rule["apiGroups"], *rule["apiVersions"], *rule["resources"])
            for rule in policy.spec["matchConstraints"]["resourceRules"]
        ]
        for policy in policies(CRDS)
    }
    assert found == {
        "kindling-backup": [("database.technotuesday.io", "v1", "backups")],
        "kindling-restore": [("database.technotuesday.io", "v1", "restores")],
        "kindling-memcached": [("cache.example.com", "v1beta1", "v1alpha1", "memcacheds")],
        "kindling-postgresql": [
            ("database.db.example.com", "v1", "postgresqls"),
            ("database.technotuesday.io", "v1", "postgresqls"),
        ],
        "kindling-pulsarconsumer": [("pulsar.pulsarconsumer.krvarma.com", "v1", "pulsarconsumers")],
        "kindling-mycustomresource": [("poc.test.domain", "v1", "mycustomresources")],
    }


@pytest.mark.parametrize("served", [(), [f"n{number}" for number in range(NAMESPACES)], ["n"] * 100])
def test_no_policy_asks_more_than_kubernetes_admits(served: list[str]) -> None:
    for policy in policies(CRDS, served=served):
        texts = [item["expression"] for item in (*policy.spec["variables"], *policy.spec["validations"])]
        checks = [text.count(".check(") for text in texts]
        assert max(checks) <= 2
        assert sum(checks) <= CHECKS, policy.name
        for validation in policy.spec["validations"]:
            assert len(validation["messageExpression"]) <= 5 * 1024
            assert "\n" not in validation["messageExpression"] + validation["message"]


def test_a_reference_in_a_list_without_a_key_and_in_a_kind_to_come_is_asked_for_too() -> None:
    """What another kind's CRD says is enough."""
    reference = {"type": "object", "properties": {"name": {}, "key": {}}}
    listed = {"type": "array", "items": {"type": "object", "properties": {"tlsSecretRef": reference}}}
    crd = {
        "spec": {
            "group": "g",
            "names": {"kind": "Fifth", "plural": "fifths"},
            "versions": [
                {
                    "name": "v1",
                    "schema": {
                        "openAPIV3Schema": {
                            "properties": {"spec": {"properties": {"listeners": listed, "image": {}}}}
                        }
                    },
                }
            ],
        }
    }
    (policy,) = policies([crd])
    assert policy.name == "kindling-fifth"
    variables = {item["name"]: item["expression"] for item in policy.spec["variables"]}
    assert "spec.listeners[].tlsSecretRef.name" in variables["secrets0"]
    assert "spec.image" in variables["commands"]


def test_what_cannot_be_judged_is_refused_and_each_refusal_says_what_to_do() -> None:
    for policy in policies(CRDS):
        assert policy.spec["failurePolicy"] == "Fail"
        assert policy.binding == {"policyName": policy.name, "validationActions": ["Deny"]}
        for validation in policy.spec["validations"]:
            assert validation["reason"] == "Forbidden"
            for message in (validation["message"], validation["messageExpression"]):
                assert "ask for the right" in message or "in several" in message


def test_an_address_to_which_a_named_secret_goes_is_asked_for_again() -> None:
    """Of the kinds whose spec may change: else its content could be obtained by whoever edits the address."""
    text = {
        policy.name: str(policy.spec["variables"]) + str(policy.spec["validations"])
        for policy in policies(CRDS)
    }
    addresses = {
        (kind, name)
        for kind, spec in specs()
        if secret_references(spec) and kind != "Restore"
        for name in spec["properties"]
        if name.endswith(("URL", "Address"))
    }
    assert {kind for kind, _ in addresses} == {"Backup", "PulsarConsumer"}
    assert [each for each in sorted(addresses) if each[1] not in text[f"kindling-{each[0].lower()}"]] == []

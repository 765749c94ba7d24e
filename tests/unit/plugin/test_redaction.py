"""What a report leaves out: by place, by name, in free text; and that all else stays to be read."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kubectl_kindling import redaction
from kubectl_kindling.redaction import MARK

from tests.unit.plugin.recordings import PASSWORD, items, mydb


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_recorded_resource_loses_its_password_alone() -> None:
    found = mydb()
    assert json.dumps(found).count(PASSWORD) == 2, "in the spec, and in what kubectl keeps"
    shown = redaction.redacted(found)
    assert PASSWORD not in json.dumps(shown)
    assert shown["spec"] == {**found["spec"], "password": MARK}
    assert shown["status"] == found["status"]
    assert found["spec"]["password"] == PASSWORD, "the argument is as it was"


def test_recorded_children_keep_what_a_reader_needs() -> None:
    for found in items("children"):
        shown = redaction.redacted(found)
        assert shown["kind"] == found["kind"]
        assert shown["metadata"]["name"] == found["metadata"]["name"]
        if found["kind"] != "ConfigMap":
            assert shown.get("status") == found.get("status")
        if found["kind"] == "Pod":
            before, after = found["spec"], shown["spec"]
            assert after["volumes"] == before["volumes"]
            assert [each["image"] for each in after["containers"]] == [
                each["image"] for each in before["containers"]
            ]
            assert [each["command"] for each in after["containers"]] == [
                each["command"] for each in before["containers"]
            ]
            assert after["automountServiceAccountToken"] is False


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_secrets_and_config_maps_have_keys_and_sizes(kind: str) -> None:
    text = "canary-word"
    found = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "x", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": text}},
        "data": {"a": encoded(text) if kind == "Secret" else text},
        "stringData": {"b": text},
    }
    shown = redaction.redacted(found)
    assert shown == {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "x", "annotations": {}},
        "bytes": {"data": {"a": len(text)}},
    }


def test_binary_data_of_a_config_map_is_counted_in_bytes() -> None:
    found = {
        "kind": "ConfigMap",
        "metadata": {},
        "binaryData": {"a": encoded("12345")},
        "data": {"b": "abcd"},
    }
    assert redaction.redacted(found)["bytes"] == {"binaryData": {"a": 5}, "data": {"b": 4}}


def test_variables_have_names_and_sources_but_no_values() -> None:
    reference = {"secretKeyRef": {"name": "token", "key": "value"}}
    found = {"env": [{"name": "A", "value": "canary"}, {"name": "B", "valueFrom": reference}]}
    assert redaction.redacted(found) == {
        "env": [{"name": "A", "value": MARK}, {"name": "B", "valueFrom": reference}]
    }
    headers = {"httpHeaders": [{"name": "X-Key", "value": "canary"}]}
    assert redaction.redacted(headers) == {"httpHeaders": [{"name": "X-Key", "value": MARK}]}


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "dbPassword",
        "passphrase",
        "token",
        "authToken",
        "secretAccessKey",
        "serviceAccountKey",
        "accountKey",
        "sasToken",
        "apiKey",
        "credentials",
    ],
)
def test_fields_with_a_telling_name_lose_their_text(name: str) -> None:
    assert redaction.redacted({name: "canary"}) == {name: MARK}
    assert redaction.redacted({name: ["canary", {"name": "kept"}]}) == {name: [MARK, {"name": "kept"}]}


KEPT: list[dict[str, Any]] = [
    {"passwordSecretRef": {"name": "a", "key": "password"}},
    {"credentialsSecretRef": {"name": "a"}},
    {"imagePullSecrets": [{"name": "registry"}]},
    {"secret": {"secretName": "a", "defaultMode": 288}},
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"automountServiceAccountToken": False},
    {"type": "PlaintextPassword", "reason": "SecretNotFound"},
    {"password": None},
    {"replicas": 3, "float": 1.5, "flag": True},
]


@pytest.mark.parametrize("found", KEPT, ids=[next(iter(each)) for each in KEPT])
def test_references_to_secrets_stay(found: dict[str, Any]) -> None:
    assert redaction.redacted(found) == found


def test_what_tools_keep_of_the_past_goes() -> None:
    metadata = {
        "managedFields": [{"fieldsV1": {"f:canary": {}}}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "canary",
            "kapp.k14s.io/original": "canary",
            "kindling.dev/asked": "hash",
        },
    }
    assert redaction.redacted({"metadata": metadata}) == {
        "metadata": {"annotations": {"kindling.dev/asked": "hash"}}
    }


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://app:canary@mydb.shop.svc:5432/orders",
        "pulsar+ssl://canary@broker:6651",
        "PGPASSWORD=canary psql",
        "CREATE ROLE x PASSWORD: 'canary word'",
        '{"token": "canary", "a": 1}',
        "aws_access_key=canary",
        "Authorization: Bearer canary-0123456789",
    ],
)
def test_free_text_loses_logins_and_passwords(text: str) -> None:
    shown = redaction.line(text)
    assert "canary" not in shown
    assert MARK in shown
    assert redaction.redacted({"message": text, "args": [text]}) == {"message": shown, "args": [shown]}


@pytest.mark.parametrize(
    "text",
    [
        "spec.password can be read by whoever may; name a Secret in spec.passwordSecretRef",
        "No login through mydb.shop.svc:5432 yet: the Service's name cannot be resolved.",
        "--password-file=/etc/kindling/superuser/password",
        "s3://bucket/path and https://store.example.com:9000/x",
        "registry.example.com/postgres@sha256:0123",
        "create it with the key 'accessKeyId' (`kubectl create secret generic store -n shop`)",
    ],
)
def test_plain_words_stay(text: str) -> None:
    assert redaction.line(text) == text

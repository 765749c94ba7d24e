"""`kubectl kindling rotate` writes one annotation, of a resource that rotates."""

from __future__ import annotations

from typing import Any

import pytest
from kubectl_kindling import cli
from kubectl_kindling.errors import FAILED, FINE

from tests.unit.plugin.fake_kubectl import FakeKubectl
from tests.unit.plugin.recordings import Object, healthy
from tests.unit.plugin.test_commands import error, patched, serve

Printed = pytest.CaptureFixture[str]


def rotating(**status: Any) -> Object:
    database = healthy()
    database["spec"]["credentials"] = {"rotation": {}}
    database["status"] |= {"credentials": {"login": "app_a", **status}}
    return database


def test_each_request_is_another_value_and_nothing_else_is_written(
    kubectl: FakeKubectl, capsys: Printed
) -> None:
    serve(kubectl, rotating())
    kubectl.say("patch")
    for _ in range(2):
        assert cli.run(["rotate", "mydb"]) == FINE
    first, second = patched(kubectl)
    for patch in (first, second):
        assert list(patch) == ["metadata"]
        assert list(patch["metadata"]["annotations"]) == ["kindling.dev/rotate"]
    assert first != second
    printed = " ".join(capsys.readouterr().out.split())
    assert "Secret mydb-binding has another login in a moment" in printed


def test_it_waits_for_who_uses_the_login_before(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, rotating(previous={"login": "app", "sessions": [{"address": "10.0.0.7", "count": 1}]}))
    kubectl.say("patch")
    assert cli.run(["rotate", "mydb"]) == FINE
    assert "It begins once app, the login before the present one, is disabled" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_resource_without_rotation_is_left_as_it_is(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, healthy())
    assert cli.run(["rotate", "mydb"]) == FAILED
    assert "spec.credentials.rotation is not set" in error(capsys)
    assert kubectl.commands("patch") == []

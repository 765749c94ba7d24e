"""`kubectl kindling approve` shows what waits, asks, and approves just that."""

from __future__ import annotations

import pytest
from kubectl_kindling import cli
from kubectl_kindling.errors import FINE, USAGE

from tests.unit.plugin.fake_kubectl import FakeKubectl
from tests.unit.plugin.recordings import Object, healthy
from tests.unit.plugin.test_commands import error, patched, serve

Printed = pytest.CaptureFixture[str]
ACTS = [
    {"name": "3f9a1c07be", "disruption": "Restart", "message": "A change of the Pod waits."},
    {"name": "77aa00bb11", "disruption": "DataLost", "message": "Databases are dropped: shop."},
]


def waiting() -> Object:
    database = healthy()
    database["status"]["approvals"] = ACTS
    return database


def test_all_that_was_shown_is_approved_by_its_names(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, waiting())
    kubectl.say("patch")
    assert cli.run(["approve", "mydb", "--yes"]) == FINE
    (patch,) = patched(kubectl)
    assert patch == {"metadata": {"annotations": {"kindling.dev/approved": "3f9a1c07be,77aa00bb11"}}}
    printed = " ".join(capsys.readouterr().out.split())
    assert "3f9a1c07be (Restart): A change of the Pod waits." in printed
    assert "77aa00bb11 (DataLost): Databases are dropped: shop." in printed


def test_without_a_terminal_it_needs_the_word(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, waiting())
    assert cli.run(["approve", "mydb"]) == USAGE
    assert "pass --yes" in error(capsys)
    assert kubectl.commands("patch") == []


def test_where_nothing_waits_nothing_is_written(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, healthy())
    assert cli.run(["approve", "mydb"]) == FINE
    assert "waits for an approval" in capsys.readouterr().out
    assert kubectl.commands("patch") == []

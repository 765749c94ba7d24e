"""What the selftest prints: each difference by object and field, and no value of a Secret."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from selftest import report, stand_ins
from selftest.manifests import Document
from selftest.results import Finding, Result, Secrets
from tests.convergence.recorder import Difference

VALUE = 'it"s/a secret'
SECRET = {"apiVersion": "v1", "kind": "Secret", "stringData": {"k": VALUE, "n": "1"}}
DATABASE = {
    "apiVersion": "database.technotuesday.io/v1",
    "kind": "Postgresql",
    "metadata": {"name": "x"},
    "spec": {"password": "inline-secret"},
}
SECRETS = Secrets(Document(where="a", namespace="", body=body) for body in (SECRET, DATABASE))


@pytest.mark.parametrize(
    "text",
    [
        VALUE,
        "postgresql://u:it%22s%2Fa%20secret@h/d",
        "data: aXQicy9hIHNlY3JldA==",
        json.dumps({"a": VALUE}),
        "inline-secret",
    ],
)
def test_a_secret_is_hidden_in_every_form(text: str) -> None:
    redacted = SECRETS.redact(text)
    assert "<redacted>" in redacted
    assert "secret" not in redacted.replace("<redacted>", "")
    assert "aXQi" not in redacted


def test_a_short_value_is_not_looked_for_everywhere() -> None:
    assert SECRETS.redact("replicas: 1") == "replicas: 1"


@pytest.mark.parametrize(
    ("difference", "found", "expected"),
    [
        (Difference("secrets x", ".data.password", "made", "other"), "<a value>", "<another value>"),
        (Difference("secrets x", ".data.password", None, "other"), "absent", "<another value>"),
        (Difference("secrets x", "", {"data": {"b": "q", "a": "q"}}, None), "a Secret with a, b", "absent"),
        (Difference("configmaps x", "", None, {"data": {"a": "q"}}), "absent", "present"),
        (Difference("services x", ".spec.ports[0]", 1, 2), 1, 2),
        (Difference("services x", ".metadata.labels", {"a": VALUE}, None), {"a": "<redacted>"}, None),
        (Difference("jobs x", "ADDED", 2, 1, lifecycle=True), "2 times", "1 times"),
    ],
)
def test_a_difference_says_what_was_found_and_expected(
    difference: Difference, found: Any, expected: Any
) -> None:
    described = SECRETS.described(difference)
    assert (described["found"], described["expected"]) == (found, expected)
    assert described["object"] == difference.object


def wrong() -> Result:
    difference = {"object": "services x", "field": "spec.type", "expected": "ClusterIP", "found": "NodePort"}
    finding = Finding(
        scenario="Memcached/x created",
        write="3 (POST services 201)",
        killed="before",
        differences=[difference],
    )
    return Result(
        name="Memcached/x", file="a.yaml", writes=4, kills_before=4, kills_after=3, missed=1, seconds=61.0,
        settled="Ready", findings=[finding],
    )  # fmt: skip


def test_the_table_has_a_row_for_each_resource() -> None:
    failed = Finding(scenario="Memcached/y created", problem="undisturbed, it comes to no end")
    rows = report.table([wrong(), Result(name="Memcached/y", file="b.yaml", findings=[failed])]).splitlines()
    assert rows[1].split("  ")[0] == "Memcached/x"
    assert " ".join(rows[1].split()) == "Memcached/x 4 4/3 1/7 1 min 1 s Ready"
    assert " ".join(rows[2].split()) == "Memcached/y - - - 0 s no end to compare with"


def test_a_difference_names_write_object_and_field() -> None:
    assert report.findings([wrong()]).splitlines() == [
        "DIFFERENT: Memcached/x created, killed before write 3 (POST services 201)",
        "  services x: spec.type: expected ClusterIP, found NodePort",
    ]
    assert report.summary([wrong()]) == (
        "7 kills, 1 different; 1 kills not tried, because their write did not come again."
    )


def test_the_report_is_json_too() -> None:
    found = json.loads(report.as_json([wrong()], real=["r"], simulated=["s"], skipped=[]))
    (resource,) = found["resources"]
    assert (found["equal"], resource["kills"]) == (False, {"before": 4, "after": 3, "missed": 1})
    assert resource["findings"][0]["differences"][0]["field"] == "spec.type"


def test_a_log_gets_few_lines_and_a_terminal_one() -> None:
    log = io.StringIO()
    result = Result(name="Memcached/x", file="a.yaml", writes=2)
    progress = report.Progress(log, total=4)
    for kills in (1, 2, 3, 4):
        result.kills_before = kills
        progress.step(result, done=kills, different=0)
    progress.end()
    (line,) = log.getvalue().splitlines()
    assert line.startswith("Memcached/x: write 2 of 2; 4 of 4 kills, 0 different, about ")


def test_what_is_simulated_is_said_for_the_kinds_that_are_tried() -> None:
    assert len(stand_ins.simulated(["MyCustomResource"])) == 1
    assert any("object store" in line for line in stand_ins.simulated(["Backup"]))
    assert any("PostgreSQL 15.4" in line for line in stand_ins.real(["Restore"], postgresql="15.4"))
    assert not any("PostgreSQL" in line for line in stand_ins.real(["Memcached"], postgresql="15.4"))

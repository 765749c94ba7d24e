"""What the flight recorder keeps, how much of it, and that a record can be decided again from a shell."""

from __future__ import annotations

import base64
import json
import logging
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kindling import replay
from kindling.engine import redaction
from kindling.engine.flight_recorder import FlightRecorder
from kindling.engine.redaction import Redactor, without
from kindling.engine.store import Key
from kindling.kube.resources import SECRET, Object, Ref
from kubectl_kindling import redaction as plugin

from infra.paths import REPOSITORY
from tests.model.recorded import as_reported, otherwise
from tests.model.world import KINDS_BY_NAME, World, resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = Key("memcached.cache.example.com", "ns", "a"), Key("memcached.cache.example.com", "ns", "b")
SOURCE = REPOSITORY / "operator" / "src"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def said(recorder: FlightRecorder, key: Key) -> list[str]:
    return [entry["message"] for entry in recorder.read(key)]


def say(recorder: FlightRecorder, key: Key, text: str, *, what: str = "failed") -> None:
    recorder.record(key, what, {"message": text})


def test_the_oldest_of_one_resource_go_first() -> None:
    recorder = FlightRecorder(most_of_one=3)
    for number in range(5):
        say(recorder, A, str(number))
    say(recorder, B, "b")
    assert said(recorder, A) == ["2", "3", "4"]
    assert said(recorder, B) == ["b"]
    assert recorder.resources() == [A, B]


def test_all_together_take_no_more_than_so_many_bytes() -> None:
    recorder = FlightRecorder(most_bytes=4000)
    for number in range(1000):
        say(recorder, Key("memcached.cache.example.com", "ns", f"n{number}"), f"{number}" * 40)
        assert 0 < recorder.bytes <= 4000
    kept = recorder.resources()
    assert 3 < len(kept) < 1000
    assert kept[-1].name == "n999"
    assert kept == [Key(*A[:2], f"n{number}") for number in range(1000 - len(kept), 1000)]
    for key in kept:
        recorder.read(key)


def test_the_same_again_is_counted() -> None:
    recorder = FlightRecorder(clock=Clock())
    for text in ("x", "x", "x", "y", "x"):
        say(recorder, A, text)
    first, *rest = recorder.read(A)
    assert (first["message"], first["again"]) == ("x", 2)
    assert first["lastAt"] == (NOW + timedelta(seconds=3)).isoformat()
    assert [entry["message"] for entry in rest] == ["y", "x"]
    say(recorder, A, "x", what="edited")
    assert [entry["what"] for entry in recorder.read(A)] == ["failed", "failed", "failed", "edited"]


def test_the_same_again_after_it_has_gone_is_an_entry() -> None:
    recorder = FlightRecorder(most_of_one=1)
    say(recorder, A, "x")
    say(recorder, A, "y", what="edited")
    say(recorder, A, "x")
    assert said(recorder, A) == ["x"]
    assert "again" not in recorder.read(A)[0]


def test_what_cannot_be_recorded_keeps_nobody_from_work(caplog: pytest.LogCaptureFixture) -> None:
    recorder = FlightRecorder()

    def broken(redactor: Redactor) -> Object:
        raise ValueError("no")

    with caplog.at_level(logging.ERROR):
        recorder.record(A, "failed", {}, broken)
        recorder.record(A, "failed", {"message": object()})
    assert [record.getMessage() for record in caplog.records] == ["not recorded"] * 2
    assert recorder.read(A) == []


def test_for_the_same_again_nothing_is_built() -> None:
    """An action that fails is decided every few seconds."""
    recorder, built = FlightRecorder(), []

    def build(redactor: Redactor) -> Object:
        built.append(redactor)
        return {"decided": {}}

    for _ in range(3):
        recorder.record(A, "outside", {"actions": ["provision server"]}, build)
    assert len(built) == 1
    assert recorder.read(A)[0]["again"] == 2


def test_the_plugin_takes_the_same_fields_for_secret() -> None:
    """Neither imports the other: the one redacts what it shows, the other what it keeps."""
    assert redaction.TELLING == plugin.TELLING
    assert redaction.REFERENCES == plugin.REFERENCES
    assert redaction._VALUES == plugin._LISTS_OF_VALUES
    assert redaction._PAST == plugin.DROPPED_ANNOTATIONS


def test_no_secret_is_in_what_is_redacted() -> None:
    cr: Object = {
        "metadata": {"name": "x", "annotations": {"example.com/token": "canary-1"}},
        "spec": {
            "password": "canary-2",
            "passwordSecretRef": {"name": "kept", "key": "kept"},
            "env": [{"name": "KEY", "value": "canary-3"}, {"name": "FROM", "valueFrom": {"x": "kept"}}],
            "url": "https://canary-4:canary-5@kept/",
        },
    }
    redactor = Redactor(bytes(32))
    child = {"env": [{"name": "KEY", "value": "canary-3"}, {"name": "OTHER", "value": "canary-3"}]}
    taken = redactor.taken(cr)
    text = json.dumps(without([cr, child], taken))
    assert text.count("canary") == 1, "of another variable it is the operator's own"
    assert text.count("kept") == 4
    assert without({"password": "canary-2"}, taken) == {"password": redactor.word("canary-2")}
    assert without({"label": "canary-2"}, taken) == {"label": "canary-2"}, "a word may be a password"


@pytest.mark.parametrize(
    "password",
    [b"canary", b"", b"canary\n", b"ca\0nary", b"canary\xff"],
    ids=["good", "empty", "lines", "nul", "bytes"],
)
def test_what_a_password_is_refused_for_comes_out_again(password: bytes) -> None:
    world, kind = World(), KINDS_BY_NAME["postgresql.database.db.example.com"]
    role = {"name": "r", "login": True, "passwordSecretRef": {"name": "ours"}}
    data = {"password": base64.b64encode(password).decode()}
    world.api.put(SECRET, {"metadata": {"namespace": "ns", "name": "ours"}, "data": data})
    world.api.put(kind.type, resource(kind, "shop", roles=[role]))
    world.settle()
    record = as_reported(world, Key(kind.type.group_kind, "ns", "shop"))
    assert "canary" not in json.dumps(record)
    assert otherwise(record) == []


def test_a_child_with_a_users_variable_is_not_applied_again() -> None:
    world, kind = World(), KINDS_BY_NAME["pulsarconsumer.pulsar.pulsarconsumer.krvarma.com"]
    spec = {
        "serverAddress": "pulsar://localhost", "topic": "t", "subscriptionName": "s",
        "env": [{"name": "API_KEY", "value": "canary"}],
    }  # fmt: skip
    world.api.put(kind.type, resource(kind, "c", **spec))
    world.settle()
    policy = next(ref for ref in world.api.objects if ref.type.kind == "NetworkPolicy")
    world.api.remove(policy)
    world.settle()
    world.api.edit(Ref(kind.type, "ns", "c"), {"spec": {"env": [{"name": "API_KEY", "value": "canary-2"}]}})
    world.settle()
    record = as_reported(world, Key(kind.type.group_kind, "ns", "c"))
    assert "canary" not in json.dumps(record)
    made = [entry["decided"]["changes"] for entry in record["entries"] if entry["what"] == "children"]
    assert [[each["object"] for each in changes] for changes in made[1:]] == [
        ["NetworkPolicy/c-deployment"],
        ["Deployment/c-deployment"],
    ]
    assert otherwise(record) == []


def settled() -> tuple[World, Key]:
    """A Postgresql with a password in its spec, and an edit of its Service that was set back."""
    world, kind = World(), KINDS_BY_NAME["postgresql.database.db.example.com"]
    world.api.put(kind.type, resource(kind, "shop", password="canary"))
    world.settle()
    (service,) = (ref for ref in world.api.objects if ref.type.kind == "Service" and ref.name == "shop")
    found = world.api.objects[service]
    ports = [{**port, "port": 1} for port in found["spec"]["ports"]]
    world.api.put(service.type, {**found, "spec": {**found["spec"], "ports": ports}})
    world.settle()
    return world, Key(kind.type.group_kind, "ns", "shop")


@pytest.fixture(scope="module")
def record() -> Object:
    return as_reported(*settled())


def test_it_has_who_edited_what_and_each_decision(record: Object) -> None:
    assert [entry["what"] for entry in record["entries"]] == [
        "children", "status", "outside", "status", "children", "edited",
    ]  # fmt: skip
    made, *_, back, edited = record["entries"]
    assert {"action": "Create", "object": "StatefulSet/shop"} in made["decided"]["changes"]
    assert back["decided"]["changes"] == [
        {"action": "Update", "object": "Service/shop", "fields": ["spec.ports.5432"], "drift": True}
    ]
    assert edited["message"] == "Service shop: spec.ports.5432 by another writer"
    assert "canary" not in json.dumps(record)


def test_a_certificate_of_a_role_is_decided_again_without_a_key() -> None:
    """Where it is made, and where it is kept."""
    world, kind = World(), KINDS_BY_NAME["postgresql.database.db.example.com"]
    roles = [{"name": "app", "login": True, "clientCertificate": {"enabled": True}}]
    world.api.put(kind.type, resource(kind, "shop", roles=roles))
    world.settle()
    world.api.edit(Ref(kind.type, "ns", "shop"), {"spec": {"parameters": {"work_mem": "8MB"}}})
    world.settle()
    record = as_reported(world, Key(kind.type.group_kind, "ns", "shop"))
    keys = world.api.objects[Ref(SECRET, "ns", "shop-role-app")]["data"]
    assert keys["tls.crt"] in json.dumps(record)
    assert keys["tls.key"] not in json.dumps(record)
    assert otherwise(record) == []


def run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kindling.replay", *map(str, words)],
        env={"PYTHONPATH": str(SOURCE)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_same_code_takes_the_same_decisions(record: Object, tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(record))
    done = run(file)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "This code takes the same."
    assert len(lines) == len(record["entries"]) + 1
    assert "Create StatefulSet/shop" in lines[0]
    assert "Ready=True LoginSucceeded" in done.stdout


def test_another_decision_is_shown_beside_it(record: Object, tmp_path: Path) -> None:
    changed = json.loads(json.dumps(record))
    changed["entries"][0]["decided"]["changes"].pop()
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(changed))
    done = run(file)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "This code takes 1 of them otherwise."
    assert "    this code: " in done.stdout


def test_a_decision_becomes_a_test_that_fails_until_the_code_decides_otherwise(
    record: Object, tmp_path: Path
) -> None:
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(record))
    done = run(file, "--test", "0", "--into", tmp_path)
    assert done.returncode == 0, done.stderr
    test = Path(done.stdout.strip())
    assert _pytest(test) == 1
    (beside,) = tmp_path.glob("decision_of_*.json")
    other = json.loads(beside.read_text())
    other["entries"][0]["decided"]["changes"] = []
    beside.write_text(json.dumps(other))
    assert _pytest(test) == 0


def test_the_guides_commands_work_as_printed(record: Object, tmp_path: Path) -> None:
    (tmp_path / "decisions.json").write_text(json.dumps(record))
    (tmp_path / "tests/unit/operator").mkdir(parents=True)
    page = (REPOSITORY / "docs/guides/developing.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("python -m kindling.replay ")]
    commands = [shlex.split(line)[3:] for line in lines]
    assert len(commands) == 2
    for words in commands:
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("tests/unit/operator/test_*.py"))) == 1


def _pytest(test: Path) -> int:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", test.parent, test],
        env={"PYTHONPATH": str(SOURCE)},
        cwd=test.parent,
        capture_output=True,
        timeout=60,
        check=False,
    ).returncode


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("[]", "is no record of decisions of format 1"),
        ('{"format": 2}', "is no record of decisions of format 1"),
        ('{"format": 1, "kind": "x", "entries": [{"what": "status", "at": "t"}]}', "cannot be read"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "decisions.json"
    file.write_text(text)
    done = run(file)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kind_that_is_not_served_any_more_is_named(record: Object) -> None:
    with pytest.raises(replay.NoRecord, match=r"no kind 'gone\.example\.com' is served"):
        replay.decide({**record, "kind": "gone.example.com"}, 0)


@pytest.mark.parametrize("number", [5, 99])
def test_what_is_no_decision_is_refused(record: Object, number: int) -> None:
    with pytest.raises(replay.NoRecord):
        replay.decide(record, number)

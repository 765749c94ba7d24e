"""Each command from its arguments to its exit status, with a kubectl that says what a test has it say."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubectl_kindling import cli
from kubectl_kindling import kubectl as programs
from kubectl_kindling.commands import backup as backups
from kubectl_kindling.commands import server
from kubectl_kindling.errors import FAILED, FINE, NOT_READY, USAGE
from kubectl_kindling.resources import CHILDREN

from infra.paths import REPOSITORY
from tests.unit.plugin.fake_kubectl import FakeKubectl
from tests.unit.plugin.recordings import (
    FORBIDDEN,
    PASSWORD,
    Object,
    backup,
    healthy,
    items,
    mydb,
    resource,
    run,
)
from tests.unit.plugin.terminals import on_a_terminal

EXAMPLE, OTHER = "postgresqls.database.db.example.com", "postgresqls.database.technotuesday.io"
WORD = "canary-of-the-binding"
Printed = pytest.CaptureFixture[str]


def serve(kubectl: FakeKubectl, database: Object) -> None:
    """This database, its recorded children and Events, and a Backup of it."""
    kubectl.has(EXAMPLE, "mydb", one=database)
    kubectl.lacks(OTHER, "mydb")
    kubectl.has("events", items=items("events"))
    kubectl.has("backups.database.technotuesday.io", "--namespace=shop", items=[backup()])
    kubectl.has(",".join(CHILDREN), items=items("children"))


@pytest.mark.parametrize(("database", "status"), [(mydb(), NOT_READY), (healthy(), FINE)])
def test_status_ends_by_whether_it_is_ready(
    kubectl: FakeKubectl, capsys: Printed, database: Object, status: int
) -> None:
    serve(kubectl, database)
    assert cli.run(["status", "postgresql/mydb", "--context=c", "-n", "shop"]) == status
    printed = capsys.readouterr().out
    assert printed.startswith("Postgresql mydb\n")
    assert "Pod/mydb-0" in printed
    assert "nightly" in printed
    for words in kubectl.asked:
        assert words[:2] == ["--context=c", "--namespace=shop"]
        assert not any("secret" in word for word in words)


def test_status_as_json(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, mydb())
    assert cli.run(["status", "pge/mydb", "-o", "json"]) == NOT_READY
    found = json.loads(capsys.readouterr().out)
    assert (found["ready"], found["reason"], found["generation"]) == (False, "LoginFailed", 5)
    assert found["children"][0] == {
        "kind": "PersistentVolumeClaim",
        "name": "mydb-data",
        "state": "Pending 1Gi",
        "fault": True,
    }
    assert [each["name"] for each in found["backups"]] == ["nightly"]
    assert len(found["events"]) == 6
    assert found["notRead"] == []
    assert PASSWORD not in json.dumps(found)


def test_status_of_a_user_of_few_rights_is_what_may_be_read(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has(EXAMPLE, "mydb", one=healthy())
    kubectl.say("get", "--namespace=shop", stderr=FORBIDDEN, status=1)
    assert cli.run(["status", "pge/mydb"]) == FINE
    printed = capsys.readouterr().out
    assert "ready       True (LoginSucceeded)" in printed
    assert "you lack the right `list` in namespace `shop` on `statefulsets.apps`" in printed


def test_status_of_all(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("kindling", items=items("namespace"))
    assert cli.run(["status"]) == NOT_READY
    assert capsys.readouterr().out.startswith("RESOURCE ")
    assert cli.run(["status", "-A", "-o", "json"]) == NOT_READY
    found = json.loads(capsys.readouterr().out)
    assert [each["ready"] for each in found["items"]] == [False] * 4 + [True] * 2
    assert ["--all-namespaces" in words for words in kubectl.commands("get")] == [False, True]


def test_status_of_all_where_all_are_ready(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("kindling", items=[resource("Memcached", "cache")])
    assert cli.run(["status"]) == FINE


def test_status_of_all_where_a_kind_may_not_be_read(kubectl: FakeKubectl, capsys: Printed) -> None:
    listed = {"kind": "List", "items": [resource("Memcached", "cache")]}
    kubectl.say("get", "kindling", stdout=json.dumps(listed), stderr=FORBIDDEN, status=1)
    assert cli.run(["status"]) == FAILED
    printed = capsys.readouterr().out
    assert "memcached/cache" in printed
    assert "Not all could be read:" in printed


def test_status_of_an_empty_namespace(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("kindling")
    assert cli.run(["status"]) == FINE
    assert "There are no resources" in capsys.readouterr().out


def error(capsys: Printed) -> str:
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    return " ".join(printed.err.split())


def test_a_name_in_two_groups_is_ambiguous(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has(EXAMPLE, "twice", one=resource("Postgresql", "twice", "database.db.example.com"))
    kubectl.has(OTHER, "twice", one=resource("Postgresql", "twice", "database.technotuesday.io"))
    assert cli.run(["status", "postgresql/twice"]) == USAGE
    assert f"{EXAMPLE}/twice and {OTHER}/twice" in error(capsys)
    assert cli.run(["wake", "twice"]) == USAGE
    assert cli.run(["wake", "pgt/twice"]) == FINE


@pytest.mark.parametrize(
    "command", [["status", "pge/none"], ["restart", "none", "--yes"], ["report", "pge/none"]]
)
def test_a_name_that_there_is_not(kubectl: FakeKubectl, capsys: Printed, command: list[str]) -> None:
    kubectl.lacks("none")
    assert cli.run(command) == FAILED
    assert f"there is no {EXAMPLE}" in error(capsys)


@pytest.mark.parametrize("command", [["psql", "bak/nightly"], ["backup", "pge/mydb"], ["restart", "mc/x"]])
def test_a_command_for_another_kind(kubectl: FakeKubectl, capsys: Printed, command: list[str]) -> None:
    assert cli.run(command) == USAGE
    assert f"`{command[1]}` is no " in error(capsys)


def test_an_unknown_kind(kubectl: FakeKubectl, capsys: Printed) -> None:
    assert cli.run(["status", "mongo/x"]) == USAGE
    assert "there is no kind `mongo`" in error(capsys)
    assert cli.run(["status", "pge/x", "-A"]) == USAGE


def test_a_cluster_without_kindling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    fake = FakeKubectl(tmp_path / "fake")
    fake.says.clear()
    fake.say("api-resources")
    monkeypatch.setenv("PATH", f"{fake.bin}{os.pathsep}/usr/bin")
    assert cli.run(["status"]) == FAILED
    assert "the cluster has none of Kindling's kinds" in error(capsys)


def test_no_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Printed) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["status"]) == FAILED
    assert "there is no kubectl on PATH" in error(capsys)


def test_a_kubectl_that_hangs(kubectl: FakeKubectl, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.Kubectl, "argv", lambda self, *words: ["sleep", "60"])
    monkeypatch.setattr(programs, "SECONDS", 0.1)
    assert cli.run(["status"]) == FAILED
    assert "did not end within 0 s" in error(capsys)


# Restart, hibernate, wake.


def patched(kubectl: FakeKubectl) -> list[Any]:
    return [
        json.loads(word.removeprefix("--patch="))
        for words in kubectl.commands("patch")
        for word in words
        if word.startswith("--patch=")
    ]


def test_restart_says_what_it_disrupts_and_asks(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, healthy())
    kubectl.say("rollout")
    assert cli.run(["restart", "mydb"]) == USAGE, "nobody to ask"
    assert kubectl.commands("rollout") == []
    assert "pass --yes" in error(capsys)
    assert cli.run(["restart", "mydb", "--yes"]) == FINE
    (words,) = kubectl.commands("rollout")
    assert words[:4] == ["rollout", "restart", "statefulset/mydb", "--namespace=shop"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "all its connections end, and none is possible until the new server has started" in printed
    assert "Applied with it: Another image waits for Sunday." in printed
    assert "A GitOps tool that applies the StatefulSet, too, may set it back" in printed
    assert "ITS DATA IS LOST" not in printed


@pytest.mark.parametrize("command", ["restart", "hibernate"])
def test_ephemeral_data_is_said_to_be_lost(kubectl: FakeKubectl, capsys: Printed, command: str) -> None:
    database = healthy()
    database["spec"]["storage"] = {"ephemeral": True}
    serve(kubectl, database)
    assert cli.run([command, "mydb"]) == USAGE
    assert "ITS DATA IS LOST" in capsys.readouterr().out


def test_what_waits_for_a_restart() -> None:
    database = healthy()
    database["status"]["conditions"] = []
    assert server.pending(database) == ""
    database["status"]["pendingRestart"] = ["max_connections", "shared_buffers"]
    assert server.pending(database) == "the parameters max_connections, shared_buffers"


def test_hibernate_and_wake_write_one_field_and_only_if_it_differs(
    kubectl: FakeKubectl, capsys: Printed
) -> None:
    serve(kubectl, healthy())
    kubectl.say("patch")
    assert cli.run(["hibernate", "mydb"]) == USAGE
    assert patched(kubectl) == []
    assert cli.run(["hibernate", "mydb", "--yes"]) == FINE
    assert patched(kubectl) == [{"spec": {"hibernate": True}}]
    printed = " ".join(capsys.readouterr().out.split())
    assert "A GitOps tool that applies this resource may set spec.hibernate back" in printed
    assert cli.run(["wake", "mydb"]) == FINE
    assert "is not hibernated; nothing was changed" in capsys.readouterr().out
    assert len(patched(kubectl)) == 1


def test_what_the_clock_has_stopped_is_not_woken(kubectl: FakeKubectl, capsys: Printed) -> None:
    database = healthy()
    database["spec"]["hibernateWindow"] = {"schedule": "0 20 * * *", "duration": "11h"}
    database["status"]["pgPhase"] = "hibernated"
    serve(kubectl, database)
    assert cli.run(["wake", "mydb"]) == FAILED
    assert "remove spec.hibernateWindow to start it now" in error(capsys)
    assert patched(kubectl) == []


def test_what_nobody_used_is_woken_by_another_value(kubectl: FakeKubectl, capsys: Printed) -> None:
    database = healthy()
    database["spec"]["hibernateAfter"] = "30m"
    database["status"] |= {"pgPhase": "hibernated", "idle": {"stoppedAt": "2026-11-29T01:00:00Z"}}
    serve(kubectl, database)
    kubectl.say("patch")
    assert cli.run(["restart", "mydb", "--yes"]) == FAILED
    assert "is hibernated" in error(capsys)
    assert cli.run(["wake", "mydb"]) == FINE
    assert cli.run(["wake", "mydb"]) == FINE
    first, second = patched(kubectl)
    assert first["metadata"]["annotations"]["kindling.dev/wake"]
    assert first != second
    assert "The server starts." in capsys.readouterr().out


def test_what_nobody_used_and_somebody_stopped_is_woken_of_both(kubectl: FakeKubectl) -> None:
    database = healthy()
    database["spec"] |= {"hibernateAfter": "30m", "hibernate": True}
    database["status"] |= {"pgPhase": "hibernated", "idle": {"stoppedAt": "2026-11-29T01:00:00Z"}}
    serve(kubectl, database)
    kubectl.say("patch")
    assert cli.run(["wake", "mydb"]) == FINE
    [patch] = patched(kubectl)
    assert patch["spec"] == {"hibernate": False}
    assert patch["metadata"]["annotations"]["kindling.dev/wake"]


def test_a_hibernated_server(kubectl: FakeKubectl, capsys: Printed) -> None:
    database = healthy()
    database["spec"]["hibernate"] = True
    database["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "apps"}
    del database["status"]["active"]
    serve(kubectl, database)
    kubectl.say("patch")
    assert cli.run(["restart", "mydb", "--yes"]) == FAILED
    assert "is hibernated" in error(capsys)
    assert cli.run(["hibernate", "mydb"]) == FINE
    assert "is hibernated already; nothing was changed" in capsys.readouterr().out
    assert cli.run(["wake", "mydb"]) == FINE
    assert patched(kubectl) == [{"spec": {"hibernate": False}}]
    assert "Flux applies this resource, and may set spec.hibernate back" in capsys.readouterr().out
    assert cli.run(["psql", "mydb"]) == FAILED
    assert "has no server that could be logged in to" in error(capsys)


@pytest.mark.parametrize(
    ("mark", "tool"),
    [("argocd.argoproj.io/tracking-id", "Argo CD"), ("meta.helm.sh/release-name", "Helm")],
)
def test_the_tool_that_applies_a_resource_is_named(
    kubectl: FakeKubectl, capsys: Printed, mark: str, tool: str
) -> None:
    database = healthy()
    database["metadata"]["annotations"][mark] = "x"
    serve(kubectl, database)
    assert cli.run(["hibernate", "mydb"]) == USAGE
    assert tool in capsys.readouterr().out


def test_the_right_that_a_write_lacks(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, healthy())
    words = FORBIDDEN.splitlines()[0].replace("cannot list", "cannot patch")
    kubectl.say("rollout", stderr=words, status=1)
    assert cli.run(["restart", "mydb", "--yes"]) == FAILED
    assert "you lack the right `patch` in namespace `shop` on `statefulsets.apps`" in error(capsys)


@pytest.mark.parametrize(
    ("keys", "status"), [(b"y\r", FINE), (b"yes\r", FINE), (b"\r", FAILED), (b"no\r", FAILED)]
)
def test_a_person_is_asked_before_a_restart(kubectl: FakeKubectl, keys: bytes, status: int) -> None:
    serve(kubectl, healthy())
    kubectl.say("rollout")
    argv = [sys.executable, "-m", "kubectl_kindling", "restart", "mydb"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "operator/plugin")}
    output, ended = on_a_terminal(argv, keys=keys, after=b"[y/N] ", environment=environment)
    assert ended == status, output
    assert b"Restart Postgresql mydb in namespace shop? [y/N] " in output
    assert len(kubectl.commands("rollout")) == (status == FINE)


# Backup.


def test_a_run_of_a_backup_is_a_job_of_its_cron_job(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup())
    kubectl.say("create")
    assert cli.run(["backup", "nightly"]) == FINE
    (words,) = kubectl.commands("create")
    assert re.fullmatch(r"nightly-manual-\d{12}", words[2])
    assert words[:2] + words[3:5] == ["create", "job", "--from=cronjob/nightly", "--namespace=shop"]
    assert words[2] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (backup(schedule=None), "has no spec.schedule"),
        (backup(run("r", "backup", "Running")), "run r of Backup nightly is under way"),
        (backup(run("r", "prepare", "Running")), "run r of Backup nightly is under way"),
    ],
)
def test_a_run_that_cannot_be_started(
    kubectl: FakeKubectl, capsys: Printed, found: Object, text: str
) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=found)
    assert cli.run(["backup", "nightly"]) == FAILED
    assert text in error(capsys)
    assert kubectl.commands("create") == []


def test_a_restore_that_is_tried_does_not_keep_a_backup_from_running(
    kubectl: FakeKubectl, capsys: Printed
) -> None:
    found = backup(run("v", "verify", "Running"), run("b", "backup", "Succeeded"))
    kubectl.has("backups.database.technotuesday.io", "nightly", one=found)
    kubectl.say("create")
    assert cli.run(["backup", "nightly"]) == FINE


def test_a_backup_without_a_cron_job_says_why(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup())
    kubectl.say(
        "create", stderr='Error from server (NotFound): cronjobs.batch "nightly" not found\n', status=1
    )
    assert cli.run(["backup", "nightly"]) == FAILED
    text = error(capsys)
    assert "has no CronJob yet" in text
    assert "spec.credentialsSecretRef.name 'store'" in text


def test_a_drill_is_a_job_of_the_cron_job_that_verifies(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup(verify={"schedule": "0 4 * * *"}))
    kubectl.say("create")
    assert cli.run(["drill", "nightly"]) == FINE
    (words,) = kubectl.commands("create")
    assert re.fullmatch(r"nightly-drill-\d{12}", words[2])
    assert words[3] == "--from=cronjob/nightly-verify"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (backup(verify={}), "has no spec.verify.schedule"),
        (backup(run("v", "verify", "Running"), verify={"schedule": "0 4 * * *"}), "run v of Backup nightly"),
    ],
)
def test_a_drill_that_cannot_be_started(
    kubectl: FakeKubectl, capsys: Printed, found: Object, text: str
) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=found)
    assert cli.run(["drill", "nightly"]) == FAILED
    assert text in error(capsys)
    assert kubectl.commands("create") == []


# Restore.

RESTORES = "restores.database.technotuesday.io"


def restore(**changes: Any) -> Object:
    spec = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "mydb"}, "into": "InPlace"}
    meta = {"name": "back", "namespace": "shop", "generation": 1}
    found: Object = {"apiVersion": "database.technotuesday.io/v1", "kind": "Restore", "metadata": meta}
    return {**found, "spec": {**spec, **changes.pop("spec", {})}, "status": {"phase": "Completed", **changes}}


def test_a_restore_into_a_new_database(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup())
    kubectl.say("create", stdout=json.dumps(restore()))
    assert cli.run(["restore", "nightly", "--to", "copy", "--at", "2026-11-24T06:45:00Z"]) == FINE
    made = json.loads(kubectl.given[0])
    assert re.fullmatch(r"nightly-\d{12}", made["metadata"]["name"])
    assert made["metadata"]["namespace"] == "shop"
    database = backup()["spec"]["databaseRef"]
    assert made["spec"] == {
        "source": {"backupRef": {"name": "nightly"}},
        "databaseRef": {**database, "name": "copy"},
        "recoveryTarget": {"targetTime": "2026-11-24T06:45:00Z"},
    }
    assert "Restore back is created" in capsys.readouterr().out


def test_a_restore_in_place_is_asked_for(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup())
    kubectl.say("create", stdout=json.dumps(restore()))
    assert cli.run(["restore", "nightly", "--in-place"]) == USAGE
    assert "--yes" in error(capsys)
    assert kubectl.commands("create") == []
    assert cli.run(["restore", "nightly", "--in-place", "--yes"]) == FINE
    printed = capsys.readouterr().out
    assert "The server of Postgresql mydb is stopped" in printed
    made = json.loads(kubectl.given[0])["spec"]
    assert (made["into"], made["databaseRef"]) == ("InPlace", backup()["spec"]["databaseRef"])
    assert "recoveryTarget" not in made


def test_databases_are_restored_beside_the_others(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup())
    kubectl.say("create", stdout=json.dumps(restore()))
    words = ["--database", "shop", "--database", "stock=stock-before"]
    assert cli.run(["restore", "nightly", *words]) == FINE
    made = json.loads(kubectl.given[0])["spec"]
    assert made == {
        "source": {"backupRef": {"name": "nightly"}},
        "databaseRef": backup()["spec"]["databaseRef"],
        "into": "Databases",
        "databases": [{"name": "shop"}, {"name": "stock", "as": "stock-before"}],
    }


def test_a_copy_is_checked_without_a_question(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has("backups.database.technotuesday.io", "nightly", one=backup())
    kubectl.say("create", stdout=json.dumps(restore()))
    assert cli.run(["restore", "nightly", "--verify", "--at", "2026-11-24T14:00:00Z"]) == FINE
    assert json.loads(kubectl.given[0])["spec"] == {
        "source": {"backupRef": {"name": "nightly"}},
        "databaseRef": backup()["spec"]["databaseRef"],
        "recoveryTarget": {"targetTime": "2026-11-24T14:00:00Z"},
        "into": "Verify",
    }


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--to", "copy", "--in-place"],
        ["--to", "copy", "--database", "a"],
        ["--in-place", "--database", "a"],
        ["--in-place", "--verify"],
    ],
)
def test_a_restore_has_one_destination(kubectl: FakeKubectl, capsys: Printed, words: list[str]) -> None:
    assert cli.run(["restore", "nightly", *words]) == USAGE
    assert "one of --to, --in-place, --database and --verify is needed" in error(capsys)


def test_a_restore_in_place_is_undone_once(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has(RESTORES, "back", one=restore())
    kubectl.say("patch")
    assert cli.run(["undo", "back", "--yes"]) == FINE
    assert patched(kubectl) == [{"spec": {"undo": True}}]


def test_one_that_is_undone_already_is_left_alone(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has(RESTORES, "back", one=restore(spec={"undo": True}))
    assert cli.run(["undo", "back", "--yes"]) == FINE
    assert "is true already" in capsys.readouterr().out
    assert patched(kubectl) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (restore(spec={"into": "New"}), "Restore back has replaced nothing"),
        (restore(phase="Restoring"), "Restore back is not done"),
    ],
)
def test_what_cannot_be_undone(kubectl: FakeKubectl, capsys: Printed, found: Object, text: str) -> None:
    kubectl.has(RESTORES, "back", one=found)
    assert cli.run(["undo", "back", "--yes"]) == FAILED
    assert text in error(capsys)
    assert kubectl.commands("patch") == []


def test_the_name_of_a_run_is_one_that_a_job_may_have() -> None:
    name = backups.job_name("x" * 60, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert len(name) == 63
    assert name.endswith("x-manual-260102030405")


# Logs.


def test_logs_are_of_all_containers_of_its_pods(
    kubectl: FakeKubectl, capfd: pytest.CaptureFixture[str]
) -> None:
    serve(kubectl, mydb())
    pods = [each for each in items("children") if each["kind"] == "Pod"]
    kubectl.has("pods", items=pods * 3)
    kubectl.say("logs", stdout="[pod/mydb-0/postgres] a line\n", status=0)
    assert cli.run(["logs", "pge/mydb", "-f", "--since", "5m"]) == FINE
    assert capfd.readouterr().out == "[pod/mydb-0/postgres] a line\n"
    assert cli.run(["logs", "pge/mydb"]) == FINE
    selector = "kindling.dev/kind=postgresql.database.db.example.com,app.kubernetes.io/instance=mydb"
    common = {
        "logs",
        "--namespace=shop",
        f"--selector={selector}",
        "--all-containers",
        "--prefix",
        "--ignore-errors",
    }
    followed, plain = kubectl.commands("logs")
    assert {*followed} == common | {"--follow", "--since=5m", "--tail=-1", "--max-log-requests=9"}
    assert {*plain} == common | {"--tail=100", "--max-log-requests=9"}


def test_logs_in_json_are_printed_as_text_unless_they_are_asked_for_raw(
    kubectl: FakeKubectl, capfd: pytest.CaptureFixture[str]
) -> None:
    serve(kubectl, mydb())
    kubectl.has("pods", items=[each for each in items("children") if each["kind"] == "Pod"])
    message = {"timestamp": "now", "pid": 7, "error_severity": "LOG", "message": "a word"}
    text = f"[pod/mydb-0/postgres] {json.dumps(message)}\n"
    kubectl.say("logs", stdout=text, status=0)
    assert cli.run(["logs", "pge/mydb"]) == FINE
    assert capfd.readouterr().out == "[pod/mydb-0/postgres] now [7] LOG:  a word\n"
    assert cli.run(["logs", "pge/mydb", "--raw"]) == FINE
    assert capfd.readouterr().out == text


def test_logs_of_a_resource_without_pods(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, mydb())
    kubectl.has("pods")
    assert cli.run(["logs", "pge/mydb"]) == NOT_READY
    text = error(capsys)
    assert "Postgresql mydb has no Pods" in text
    assert "No login through" in text


# Psql.


def binding(kubectl: FakeKubectl, **values: str) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    kubectl.has("secrets", "mydb-binding", one={"kind": "Secret", "data": data})


def test_psql_logs_in_as_the_default_user(kubectl: FakeKubectl, capfd: pytest.CaptureFixture[str]) -> None:
    serve(kubectl, healthy())
    binding(kubectl, username="pgowner", database="pgdata", password=WORD)
    kubectl.say("exec", stdout=" 1\n", stderr="Password: psql: a word\n", status=2)
    assert cli.run(["psql", "mydb", "--", "-c", "select 1"]) == 2
    (words,) = kubectl.commands("exec")
    assert words == [
        "exec", "--stdin", "--namespace=shop", "mydb-0", "--container=postgres", "--",
        "psql", "--host=localhost", "--username=pgowner", "--dbname=pgdata", "--password", "-c", "select 1",
    ]  # fmt: skip
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == (" 1\n", "psql: a word\n")
    assert not any(WORD in word for words in kubectl.asked for word in words)


def test_psql_without_the_right_to_read_the_secret(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, healthy())
    words = (
        'secrets "mydb-binding" is forbidden: User "x" cannot get resource "secrets" in API group "" in the '
    )
    kubectl.say("get", "secrets", stderr=f'Error from server (Forbidden): {words}namespace "shop"', status=1)
    assert cli.run(["psql", "mydb"]) == FAILED
    assert "you lack the right `get` in namespace `shop` on `secrets`" in error(capsys)
    assert kubectl.commands("exec") == []


def test_psql_with_a_binding_that_lacks_a_key(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, healthy())
    binding(kubectl, username="pgowner", password=WORD)
    assert cli.run(["psql", "mydb"]) == FAILED
    text = error(capsys)
    assert "Secret mydb-binding has no `database`" in text
    assert WORD not in text


# Version and report.


def deployment() -> Object:
    containers = [
        {"name": name, "image": f"registry.example.com/{name}@sha256:1"} for name in ("operator", "prober")
    ]
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": containers}}}}


def serve_operator(kubectl: FakeKubectl, *, log: str = "") -> None:
    kubectl.say(
        "version",
        stdout='{"clientVersion": {"gitVersion": "v1.34.1"}, "serverVersion": {"gitVersion": "v1.33.0"}}',
    )
    kubectl.has("deployments.apps", "kindling-operator", one=deployment())
    kubectl.say("logs", "--namespace=kindling-system", stdout=log)
    ports = [{"name": "http", "containerPort": 8080}]
    pods = [
        {"metadata": {"name": name}, "spec": {"containers": [{"name": "prober"}, {"ports": ports}]}}
        for name in ("standby", "leader")
    ]
    kubectl.has("pods", "--namespace=kindling-system", items=pods)


def test_version(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve_operator(kubectl)
    assert cli.run(["version"]) == FINE
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert printed[:5] == [
        "plugin 0.0.0-checkout",
        "kubectl v1.34.1",
        "kubernetes v1.33.0",
        "operator operator registry.example.com/operator@sha256:1",
        "operator prober registry.example.com/prober@sha256:1",
    ]
    assert "Backup backups.database.technotuesday.io v1" in printed
    assert cli.run(["version", "-o", "json"]) == FINE
    found = json.loads(capsys.readouterr().out)
    assert (found["kubectl"], found["notRead"], len(found["kinds"])) == ("v1.34.1", [], 7)


def test_version_where_the_operator_may_not_be_read(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.say("version", stdout='{"clientVersion": {"gitVersion": "v1.34.1"}}')
    kubectl.say("get", stderr=FORBIDDEN.splitlines()[1], status=1)
    assert cli.run(["version"]) == FAILED
    printed = capsys.readouterr().out
    assert "kubernetes  unknown" in printed
    assert "you lack the right `list` in namespace `shop` on `deployments.apps`" in printed

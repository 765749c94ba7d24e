"""What a Restore says, compared with its run's own words, and with the database that it made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.cluster.claims.backup import cell, duration, moment, results, server
from tests.cluster.claims.contract import COMMON, Claim, Evidence, KindClaims, Reported
from tests.cluster.stack import Environment


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    """Of one that is done, whose Postgresql is there."""
    meta, place = resource["metadata"], _place(resource)
    group = resource["spec"]["databaseRef"].get("group", "database.technotuesday.io")
    runs = results(environment, resource)
    run = runs[f"{meta['name']}-restore-{resource['status']['attempt']}"]
    there = bool(environment.get(f"postgresqls.{group}", place.name, "-n", place.namespace))
    identifier = "SELECT system_identifier FROM pg_control_system()"
    done = str(run["ok"] and there)
    return Evidence(
        conditions={
            "Ready": done,
            "Available": str(run["ok"]),
            "Progressing": "False",
            "Degraded": str(not run["ok"]),
        },
        facts={
            "run": run,
            "undo": runs.get(f"{meta['name']}-undo-1"),
            "identifier": server(environment, place.name, place.namespace, identifier),
            "database": _database(environment, resource),
        },
    )


class _Place(NamedTuple):
    namespace: str
    name: str


def _place(resource: dict[str, Any]) -> _Place:
    """Where the Postgresql is; of one that only checks what is in a store, the one that stored it."""
    spec, namespace = resource["spec"], resource["metadata"]["namespace"]
    if _of_store_alone(spec):
        *_, namespace, name, _ = spec["source"]["targetURL"].split("/")
        return _Place(namespace, name)
    return _Place(namespace, spec["databaseRef"]["name"])


def _of_store_alone(spec: dict[str, Any]) -> bool:
    return spec.get("into") == "Verify" and "targetURL" in spec["source"]


def _database(environment: Environment, resource: dict[str, Any]) -> dict[str, Any]:
    """What the Backup knows of the database; of a repository alone, the user that the Restore names, if it
    makes one.
    """
    spec = resource["spec"]
    if _of_store_alone(spec):
        return {}
    if "targetURL" in spec["source"]:
        return {"defaultUser": spec.get("postgresql", {}).get("defaultUser", "postgres")}
    name, namespace = spec["source"]["backupRef"]["name"], resource["metadata"]["namespace"]
    backup = environment.get("backups.database.technotuesday.io", name, "-n", namespace)
    known: dict[str, Any] = backup["status"]["database"]
    return known


def _said(field: str, name: str) -> Claim:
    def claim(reported: Reported) -> None:
        assert reported.status[field] == reported.facts["run"][name]

    return claim


def _time(reported: Reported) -> None:
    if reported.facts["run"].get("reachedTime"):
        assert moment(reported.status["reachedTime"]) == moment(reported.facts["run"]["reachedTime"])


def _phase(reported: Reported) -> None:
    undone = (reported.facts["undo"] or {}).get("ok")
    done = "Undone" if undone else "Completed"
    assert reported.status["phase"] == (done if reported.facts["run"]["ok"] else "Failed")


def _undo(field: str) -> Claim:
    """The server was stopped before the run began, and the way back ended with it."""

    def claim(reported: Reported) -> None:
        said, run = reported.status.get(field), reported.facts["undo"]
        assert (said is None) == (run is None)
        if run is not None and said is not None:
            own = moment(run["startedAt" if field == "undoStartedAt" else "stoppedAt"])
            assert moment(said) <= own if field == "undoStartedAt" else moment(said) == own

    return claim


def _attempt(reported: Reported) -> None:
    meta = reported.resource["metadata"]
    reported.environment.get(
        "job", f"{meta['name']}-restore-{reported.status['attempt']}", "-n", meta["namespace"]
    )


def _began(reported: Reported) -> None:
    assert moment(reported.status["startedAt"]) <= moment(reported.facts["run"]["startedAt"])


def _ended(reported: Reported) -> None:
    assert moment(reported.status["stoppedAt"]) == moment(reported.facts["run"]["stoppedAt"])


def _identifier(reported: Reported) -> None:
    assert reported.status["source"]["systemIdentifier"] == reported.facts["identifier"]


def _of_backup(field: str) -> Claim:
    def claim(reported: Reported) -> None:
        assert reported.status["source"].get(field) == reported.facts["database"].get(field)

    return claim


def _timeline(reported: Reported) -> None:
    """The one that the server was on; a restore in place begins another."""
    said, now = (reported.status["source"].get("timeline"), reported.facts["database"].get("timeline"))
    in_place = reported.resource["spec"].get("into") == "InPlace"
    assert said < reported.facts["run"]["timeline"] if in_place else said == now


def _failure(field: str) -> Claim:
    """Of one that failed before it succeeded nothing is left."""

    def claim(reported: Reported) -> None:
        failure = reported.status.get("failure")
        assert (failure is None) == reported.facts["run"]["ok"]
        if failure is not None:
            expected = {**reported.facts["run"], "attempt": reported.status["attempt"]}
            assert (
                failure[field] == expected[field]
                if field != "at"
                else moment(failure["at"]) < datetime.now(UTC)
            )

    return claim


def _check(reported: Reported) -> None:
    """Only one into Verify has checks of its own."""
    if reported.resource["spec"].get("into") == "Verify":
        duration("check", "run")(reported)
    else:
        assert "check" not in reported.status.get("restoreDuration", {})


def _no_progress(reported: Reported) -> None:
    """Only of a run that is at it; tests/cluster/test_backup.py compares it with the run's volume."""
    assert "progress" not in reported.status


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.phase": _phase,
        "status.attempt": _attempt,
        "status.source.systemIdentifier": _identifier,
        **{f"status.source.{field}": _of_backup(field) for field in ("defaultUser", "size", "settings")},
        "status.source.timeline": _timeline,
        "status.startedAt": _began,
        "status.stoppedAt": _ended,
        "status.backupId": _said("backupId", "label"),
        "status.reachedLSN": _said("reachedLSN", "reachedLSN"),
        "status.reachedTime": _time,
        **{
            f"status.restoreDuration.{name}": duration(name, "run")
            for name in ("download", "replay", "total")
        },
        "status.restoreDuration.check": _check,
        **{f"status.{field}": _undo(field) for field in ("undoStartedAt", "undoStoppedAt")},
        **{f"status.failure.{field}": _failure(field) for field in ("reason", "message", "attempt", "at")},
        **{
            f"status.progress.{name}": _no_progress
            for name in ("step", "bytes", "totalBytes", "percent", "secondsLeft")
        },
        "column Percent": _no_progress,
        "column Backup": cell("BACKUP", "spec", "source", "backupRef", "name"),
        "column Database": cell("DATABASE", "spec", "databaseRef", "name"),
        "column Phase": cell("PHASE", "status", "phase"),
        "column Reached": cell("REACHED", "status", "reachedTime"),
    },
)

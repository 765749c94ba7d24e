"""What a Backup says, compared with its runs' own words in their Pods, and with the server's archive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cluster.claims.contract import COMMON, Claim, Evidence, KindClaims, Reported
from tests.cluster.stack import Environment

ARCHIVED = (
    "SELECT current_setting('archive_mode'), extract(epoch FROM now() - last_archived_time)::int "
    "FROM pg_stat_archiver"
)


def results(environment: Environment, resource: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By Job, what each run that has ended said: the Pods that are still there."""
    meta = resource["metadata"]
    kind = f"{resource['kind'].lower()}.{resource['apiVersion'].partition('/')[0]}"
    selector = f"app.kubernetes.io/instance={meta['name']},kindling.dev/kind={kind}"
    pods = environment.get("pods", "-n", meta["namespace"], "-l", selector)["items"]
    found = {}
    for pod in pods:
        for container in pod["status"].get("containerStatuses", ()):
            message = container["state"].get("terminated", {}).get("message")
            if message:
                found[pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]] = json.loads(message)
    return found


def server(environment: Environment, database: str, namespace: str, sql: str) -> str:
    return environment.kubectl(
        "exec", f"{database}-0", "-c", "postgres", "-n", namespace, "--",
        "psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-Atc", sql,
    ).strip()  # fmt: skip


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    meta, spec = resource["metadata"], resource["spec"]
    said = results(environment, resource)
    database = spec["databaseRef"]["name"]
    mode, _, age = server(environment, database, meta["namespace"], ARCHIVED).partition("|")
    backups = {name: one for name, one in said.items() if one["action"] == "backup" and one.get("label")}
    proofs = {name: one for name, one in said.items() if one["action"] == "verify"}
    last = max(backups.values(), key=lambda one: str(one["stoppedAt"]), default={"ok": False})
    proof = max(proofs.values(), key=lambda one: str(one["stoppedAt"]), default={"ok": False})
    identifier = "SELECT system_identifier FROM pg_control_system()"
    archiving = mode == "on" and int(age or 999) < 75
    proven = bool(proof["ok"])
    good = bool(last["ok"]) and archiving and (proven or "verify" not in spec)
    return Evidence(
        conditions={
            "Ready": str(good),
            "Available": str(any(one["ok"] for one in backups.values())),
            "Progressing": str(not good),
            "Degraded": "False",
            "Archiving": str(archiving),
            "Verified": "Unknown" if not proven and "verify" not in spec else str(proven),
        },
        facts={
            "runs": said,
            "last": last,
            "proof": proof,
            "identifier": server(environment, database, meta["namespace"], identifier),
            "timeline": server(
                environment, database, meta["namespace"], "SELECT timeline_id FROM pg_control_checkpoint()"
            ),
            "settings": json.loads(
                server(
                    environment,
                    database,
                    meta["namespace"],
                    "SELECT json_object_agg(name, setting) FROM pg_settings",
                )
            ),
            "database": environment.get(
                f"postgresqls.{spec['databaseRef'].get('group', 'database.technotuesday.io')}",
                database,
                "-n",
                meta["namespace"],
            ),
        },
    )


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC).replace(microsecond=0)


def same_moment(place: str, of: str, name: str) -> Claim:
    def claim(reported: Reported) -> None:
        if reported.facts[of]["ok"]:
            assert moment(reported.status[place]) == moment(reported.facts[of][name])

    return claim


def each_run(field: str, name: str) -> Claim:
    """The field of each run whose Pod is still there is what the Pod says."""

    def claim(reported: Reported) -> None:
        for run in reported.status["runs"]:
            said = reported.facts["runs"].get(run["name"])
            if said is None or not said["ok"] or field not in run:
                continue
            if "At" in field or "Time" in field:
                assert moment(run[field]) == moment(said[name])
            else:
                assert run[field] == said[name]

    return claim


def every_run(check: str) -> Claim:
    def claim(reported: Reported) -> None:
        for run in reported.status["runs"]:
            said = reported.facts["runs"].get(run["name"])
            if said is None:
                continue
            if check == "name":
                reported.environment.get("job", run["name"], "-n", reported.resource["metadata"]["namespace"])
            elif check == "action":
                assert {"prepare": "backup"}.get(run["action"], run["action"]) == said["action"]
            elif check == "phase":
                assert run["phase"] == ("Succeeded" if said["ok"] else "Failed")
            elif check == "reason":
                assert run["reason"] == said["reason"]
            elif not said["ok"]:
                words = said["message"].removesuffix(".")
                assert run["message"] == f"{words[:1].upper()}{words[1:]}."

    return claim


def _first(reported: Reported) -> None:
    assert moment(reported.status["firstRecoverabilityPoint"]) == moment(reported.facts["last"]["first"])


def _latest(reported: Reported) -> None:
    """Not later than now, and no more than the window before."""
    latest = moment(reported.status["latestRestorableTime"])
    assert moment(reported.status["firstRecoverabilityPoint"]) <= latest <= datetime.now(UTC)
    assert datetime.now(UTC) - latest < timedelta(minutes=5)


def _window(reported: Reported) -> None:
    assert reported.status["dataLossWindow"] in ("1m", "2m")


def _failed(reported: Reported) -> None:
    failed = [one for one in reported.facts["runs"].values() if not one["ok"] and one["action"] == "backup"]
    if failed and "lastFailedBackupTime" in reported.status:
        assert moment(reported.status["lastFailedBackupTime"]) >= max(
            moment(one["stoppedAt"]) for one in failed
        )


def _next(reported: Reported) -> None:
    if "schedule" in reported.resource["spec"] and not reported.resource["spec"].get("suspend"):
        assert moment(reported.status["nextScheduledTime"]) > datetime.now(UTC) - timedelta(minutes=1)


def _proof(field: str, name: str) -> Claim:
    def claim(reported: Reported) -> None:
        if reported.facts["proof"]["ok"]:
            assert reported.status["verified"][field] == reported.facts["proof"][name]

    return claim


def _reached_time(reported: Reported) -> None:
    if reported.facts["proof"]["ok"] and reported.facts["proof"].get("reachedTime"):
        assert moment(reported.status["verified"]["reachedTime"]) == moment(
            reported.facts["proof"]["reachedTime"]
        )


def _checks(reported: Reported) -> None:
    if reported.facts["proof"]["ok"]:
        assert sorted(reported.status["verified"]["checks"]) == sorted(reported.facts["proof"]["checks"])


def duration(name: str, of: str = "proof") -> Claim:
    def claim(reported: Reported) -> None:
        if reported.facts[of]["ok"]:
            assert (
                reported.status["restoreDuration"][name] == f"{round(reported.facts[of]['seconds'][name])}s"
            )

    return claim


def _fact(field: str, name: str) -> Claim:
    def claim(reported: Reported) -> None:
        assert str(reported.status["database"][field]) == str(reported.facts[name])

    return claim


def _settings(reported: Reported) -> None:
    said: Mapping[str, str] = reported.status["database"]["settings"]
    assert said
    assert said == {name: reported.facts["settings"][name] for name in said}


def _user(reported: Reported) -> None:
    wanted = reported.facts["database"]["spec"].get("defaultUser", "postgres")
    assert reported.status["database"]["defaultUser"] == wanted


def _database_size(reported: Reported) -> None:
    wanted = reported.facts["database"]["spec"].get("storage", {}).get("size", "1Gi")
    assert reported.status["database"]["size"] == wanted


def _size(field: str, name: str) -> Claim:
    def claim(reported: Reported) -> None:
        assert reported.status["size"][field] == reported.facts["last"][name]

    return claim


def _run_size(field: str, name: str) -> Claim:
    def claim(reported: Reported) -> None:
        for run in reported.status["runs"]:
            said = reported.facts["runs"].get(run["name"])
            if said is not None and "size" in run:
                assert run["size"][field] == said[name]

    return claim


def _backups(reported: Reported) -> None:
    assert reported.status["backups"] == reported.facts["last"]["backups"]


def _attempt(field: str, action: str) -> Claim:
    """The newest run that was begun beside the schedule is a Job of that number."""

    def claim(reported: Reported) -> None:
        attempt = reported.status["attempts"].get(action)
        if attempt is None:
            return
        meta = reported.resource["metadata"]
        kind = {"verify": "-verify-now", "delete": "-delete"}.get(action, "-now")
        name = f"{meta['name']}{kind}-{attempt['number']}"
        runs = {run["name"]: run for run in reported.status["runs"]}
        if field == "number":
            reported.environment.get("job", name, "-n", meta["namespace"])
        elif field == "request" and name in runs:
            assert attempt["request"] == runs[name]["action"]
        elif field == "result" and name in runs and attempt["result"] != "Started":
            assert attempt["result"] == runs[name]["phase"]
        elif field == "at":
            assert moment(attempt["at"]) <= datetime.now(UTC)
        else:
            assert attempt["inputs"]

    return claim


def cell(column: str, *path: str) -> Claim:
    def claim(reported: Reported) -> None:
        value: Any = reported.resource
        for name in path:
            value = value.get(name, {})
        assert reported.cells[column] == (str(value) if value != {} else "")

    return claim


def _age_cell(column: str, place: str) -> Claim:
    def claim(reported: Reported) -> None:
        assert bool(reported.cells[column]) == (place in reported.status)

    return claim


_RUN_FIELDS = {
    "type": "type",
    "startedAt": "startedAt",
    "stoppedAt": "stoppedAt",
    "backupId": "label",
    "beginLSN": "beginLSN",
    "endLSN": "endLSN",
    "beginWal": "beginWal",
    "endWal": "endWal",
    "reachedLSN": "reachedLSN",
    "reachedTime": "reachedTime",
}


def _began(reported: Reported) -> None:
    """The Job begins before its program does."""
    for run in reported.status["runs"]:
        if (said := reported.facts["runs"].get(run["name"])) is not None:
            assert moment(run["startedAt"]) <= moment(said["startedAt"]) + timedelta(seconds=1)


def _unix(status: Mapping[str, Any], field: str) -> float | None:
    return moment(status[field]).timestamp() if field in status else None


def _time_metric(metric: str, field: str, *, within: float = 0) -> Claim:
    """It is the field of the status, which may have changed by so many seconds since; neither or both."""

    def claim(reported: Reported) -> None:
        value, wanted = reported.metrics.get(metric), _unix(reported.status, field)
        assert (value is None) == (wanted is None)
        assert value is None or wanted is None or 0 <= value - wanted <= within

    return claim


def _condition_metric(metric: str, type: str) -> Claim:
    """No series while it is Unknown; else the truth as the thing itself has it."""

    def claim(reported: Reported) -> None:
        truth = reported.evidence.conditions[type]
        assert reported.metrics.get(metric) == {"True": 1.0, "False": 0.0}.get(truth)

    return claim


def _due_metric(reported: Reported) -> None:
    """Of a schedule of once a year, `0 3 1 1 *`, as the tests have it."""
    value = reported.metrics.get("kindling_backup_next_due_timestamp_seconds")
    spec, last = reported.resource["spec"], moment(reported.status["lastSuccessfulBackupTime"])
    if "schedule" not in spec or spec.get("suspend"):
        assert value is None
        return
    minute, hour, day, month, weekday = spec["schedule"].split()
    assert weekday == "*"
    assert spec.get("timeZone", "Etc/UTC") == "Etc/UTC"
    due = last.replace(month=int(month), day=int(day), hour=int(hour), minute=int(minute), second=0)
    assert value == (due if due > last else due.replace(year=due.year + 1)).timestamp()


def _duration_metric(reported: Reported) -> None:
    value = reported.metrics.get("kindling_backup_restore_duration_seconds")
    if reported.facts["proof"]["ok"]:
        assert value == round(reported.facts["proof"]["seconds"]["total"])


def _window_metric(reported: Reported) -> None:
    assert reported.metrics["kindling_backup_data_loss_window_seconds"] in (60, 120)


CLAIMS = KindClaims(
    gather=gather,
    metrics={
        "kindling_backup_last_success_timestamp_seconds": _time_metric(
            "kindling_backup_last_success_timestamp_seconds", "lastSuccessfulBackupTime"
        ),
        "kindling_backup_last_failure_timestamp_seconds": _time_metric(
            "kindling_backup_last_failure_timestamp_seconds", "lastFailedBackupTime"
        ),
        "kindling_backup_next_due_timestamp_seconds": _due_metric,
        "kindling_backup_verified": _condition_metric("kindling_backup_verified", "Verified"),
        "kindling_backup_last_verified_timestamp_seconds": _time_metric(
            "kindling_backup_last_verified_timestamp_seconds", "lastVerifiedTime"
        ),
        "kindling_backup_restore_duration_seconds": _duration_metric,
        "kindling_backup_first_recoverable_timestamp_seconds": _time_metric(
            "kindling_backup_first_recoverable_timestamp_seconds", "firstRecoverabilityPoint"
        ),
        "kindling_backup_latest_recoverable_timestamp_seconds": _time_metric(
            "kindling_backup_latest_recoverable_timestamp_seconds", "latestRestorableTime", within=180
        ),
        "kindling_backup_data_loss_window_seconds": _window_metric,
        "kindling_backup_archiving": _condition_metric("kindling_backup_archiving", "Archiving"),
    },
    claims={
        **COMMON,
        "status.firstRecoverabilityPoint": _first,
        "status.latestRestorableTime": _latest,
        "status.dataLossWindow": _window,
        "status.lastSuccessfulBackupTime": same_moment("lastSuccessfulBackupTime", "last", "stoppedAt"),
        "status.lastFailedBackupTime": _failed,
        "status.nextScheduledTime": _next,
        "status.lastVerifiedTime": same_moment("lastVerifiedTime", "proof", "stoppedAt"),
        "status.verified.backupId": _proof("backupId", "label"),
        "status.verified.reachedLSN": _proof("reachedLSN", "reachedLSN"),
        "status.verified.reachedTime": _reached_time,
        "status.verified.checks[]": _checks,
        **{
            f"status.restoreDuration.{name}": duration(name)
            for name in ("download", "replay", "check", "total")
        },
        "status.backups": _backups,
        "status.size.database": _size("database", "databaseBytes"),
        "status.size.stored": _size("stored", "storedBytes"),
        "status.database.systemIdentifier": _fact("systemIdentifier", "identifier"),
        "status.database.timeline": _fact("timeline", "timeline"),
        "status.database.settings": _settings,
        "status.database.defaultUser": _user,
        "status.database.size": _database_size,
        **{f"status.runs[].{field}": each_run(field, name) for field, name in _RUN_FIELDS.items()},
        "status.runs[].startedAt": _began,
        **{
            f"status.runs[].{check}": every_run(check)
            for check in ("name", "action", "phase", "reason", "message")
        },
        "status.runs[].size.database": _run_size("database", "databaseBytes"),
        "status.runs[].size.stored": _run_size("stored", "storedBytes"),
        **{
            f"status.attempts.{action}.{field}": _attempt(field, action)
            for action in ("backup", "verify", "delete")
            for field in ("number", "request", "result", "at", "inputs")
        },
        "column Type": cell("TYPE", "spec", "type"),
        "column Schedule": cell("SCHEDULE", "spec", "schedule"),
        "column Last-Backup": _age_cell("LAST-BACKUP", "lastSuccessfulBackupTime"),
        "column Verified": _age_cell("VERIFIED", "lastVerifiedTime"),
        "column Restore-Time": cell("RESTORE-TIME", "status", "restoreDuration", "total"),
        "column Data-Loss": cell("DATA-LOSS", "status", "dataLossWindow"),
    },
)

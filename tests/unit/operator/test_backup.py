"""What a Backup makes of its database and its Secrets, what it refuses, and what it keeps on record."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.backup import decisions, results, situation, spec
from kindling.kinds.base import Child, ExternalResult, Observed, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kube.resources import JOB, POD, SECRET, Object, Ref
from postgres_backup.request import Request

from tests.unit.operator.backups import (
    IDENTIFIER,
    KIND,
    NOW,
    backup,
    database,
    finished,
    observed,
    result,
    secret,
    secrets,
)
from tests.unit.schema.worlds import applied

SETTLED = SyncResult(in_sync=True)
STARTED = {"number": 1, "request": "backup", "result": "Started", "at": "2026-01-01T00:01:00Z", "inputs": "i"}


def decided(cr: Object, seen: Observed) -> Object:
    """The resource with what is decided on record."""
    found = KIND.durable_state(cr, seen)
    status = {name: value for name, value in {**cr["status"], **found}.items() if value is not None}
    return {**cr, "status": status}


def made(cr: Object, seen: Observed) -> dict[str, Child]:
    """The children by KIND/NAME, once the key pair is there."""
    children = KIND.desired(cr, applied(KIND, cr, seen))
    return {f"{child.type.kind}/{child.ref.name}": child for child in children}


def files(child: Child) -> dict[str, str]:
    return {name: base64.b64decode(value).decode() for name, value in child.body["data"].items()}


def condition(cr: Object, seen: Observed, type: str = "Ready") -> tuple[str, str]:
    found = find_condition(KIND.status(cr, seen, SETTLED).status, type)
    return found["status"], found["reason"]


def test_a_scheduled_one_has_its_cron_jobs_and_secrets() -> None:
    cr = backup(schedule="0 3 * * *", timeZone="Europe/Berlin", verify={"schedule": "0 5 * * 0"})
    children = made(cr, observed())
    cron = children["CronJob/nightly"].body["spec"]
    assert (cron["schedule"], cron["timeZone"], cron["suspend"]) == ("0 3 * * *", "Europe/Berlin", False)
    assert cron["concurrencyPolicy"] == "Forbid"
    assert {"Secret/nightly-tls", "Secret/nightly-backup", "Secret/db-archive"} <= children.keys()
    pod = cron["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["python3", "-m", "postgres_backup", "backup"]
    volumes = children["CronJob/nightly-verify"].body["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "volumes"
    ]
    (data,) = (each for each in volumes if each["name"] == "data")
    claim = data["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["resources"] == {"requests": {"storage": "1Gi"}}


def test_who_only_reads_has_neither_the_way_to_the_server_nor_a_key_to_it() -> None:
    children = made(backup(verify={}), observed())
    reads, writes, serves = (
        files(children[f"Secret/{name}"]) for name in ("nightly-verify", "nightly-backup", "db-archive")
    )
    path = f"repo1-path=/prefix/ns/db/{IDENTIFIER}\n"
    assert path in reads["pgbackrest.conf"]
    assert path in writes["pgbackrest.conf"]
    assert path in serves["pgbackrest.conf"]
    assert "pg1-host=db.ns.svc\n" in writes["pgbackrest.conf"]
    assert "pg1-host" not in reads["pgbackrest.conf"]
    assert "tls.key" not in reads
    assert writes["tls.key"] == serves["tls.key"]
    assert "tls-server-auth=main=main\n" in serves["pgbackrest.conf"]
    assert (json.loads(reads["store.json"])["readOnly"], json.loads(writes["store.json"])["readOnly"]) == (
        True,
        False,
    )
    assert children["Secret/db-archive"].body["metadata"]["annotations"] == {
        "kindling.dev/store-port": "7070"
    }


def test_passphrase_and_authority_come_from_their_secrets() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
    seen = observed(secrets(ca=secret(**{"ca.crt": pem}), words=secret(passphrase="open sesame")))
    cr = backup(caSecretRef={"name": "ca"}, encryption={"passphraseSecretRef": {"name": "words"}})
    found = files(made(cr, seen)["Secret/nightly-backup"])
    assert "repo1-cipher-pass=open sesame\n" in found["pgbackrest.conf"]
    assert "repo1-cipher-type=aes-256-cbc\n" in found["pgbackrest.conf"]
    assert "repo1-storage-ca-file=/etc/kindling/backup/ca.crt\n" in found["pgbackrest.conf"]
    assert found["ca.crt"] == pem


@pytest.mark.parametrize("value", ["two\nlines", " space", "tab\t", "repo1-path=/x\r"])
def test_what_would_be_another_line_of_the_file_is_refused(value: str) -> None:
    seen = observed(secrets(store=secret(accessKeyId="key", secretAccessKey=value)))
    assert condition(backup(), seen) == ("False", "InvalidSecret")
    assert "Secret/nightly-backup" not in made(backup(), seen)
    assert value not in json.dumps(KIND.status(backup(), seen, SETTLED).status)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (replace(observed(), watched={}), "DatabaseNotFound"),
        (observed(db=database(storage={"ephemeral": True})), "DatabaseUnsuitable"),
        (observed(db=database(parameters={"wal_level": "minimal"})), "DatabaseUnsuitable"),
        (observed(db=database(image="postgres:17")), "ImageWithoutPgBackRest"),
        (observed(db=database(ready="False")), "DatabaseNotReady"),
        (observed(db=database(identifier=None)), "DatabaseNotReady"),
        (observed({}), "SecretNotFound"),
        (observed(secrets(store=secret(accessKeyId="key"))), "SecretNotFound"),
    ],
)
def test_what_stands_in_the_way_is_said(seen: Observed, reason: str) -> None:
    assert condition(backup(), seen) == ("False", reason)
    assert "attempts" not in KIND.durable_state(backup(), seen), "nothing is begun"


def test_of_two_backups_of_one_database_the_second_is_refused() -> None:
    labels = {KIND_LABEL: KIND.type.group_kind, INSTANCE_LABEL: "earlier"}
    taken = {"metadata": {"namespace": "ns", "name": "db-archive", "uid": "u", "labels": labels}}
    seen = observed()
    seen = replace(seen, watched={**seen.watched, Ref(SECRET, "ns", "db-archive"): taken})
    assert condition(backup(), seen) == ("False", "BackupConflict")
    assert set(made(backup(), seen)) == {"Secret/nightly-tls", "NetworkPolicy/nightly-backup"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"targetURL": "ftp://bucket/prefix"}, "spec.targetURL 'ftp://bucket/prefix'"),
        ({"targetURL": "s3://bucket/../etc"}, "spec.targetURL"),
        ({"endpointURL": "https://host:99999"}, "spec.endpointURL"),
        ({"schedule": "0 3 30 2 *"}, "spec.schedule"),
        ({"verify": {"schedule": "0 25 * * *"}}, "spec.verify.schedule"),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone 'Mars/Olympus'"),
        ({"credentialsSecretRef": {"name": "nightly-backup"}}, "made from this resource"),
    ],
)
def test_bad_spec_is_refused_with_field_and_value(given: Object, said: str) -> None:
    problem = KIND.validate(backup(**given), observed())
    assert problem is not None
    assert said in problem.message
    assert problem.reason == "InvalidSpec"


def test_what_is_there_stays_while_the_database_is_gone() -> None:
    cr = backup(schedule="0 3 * * *")
    there = applied(KIND, cr, observed())
    gone = replace(there, watched={})
    kept = made(cr, gone)
    assert kept["Secret/nightly-backup"].frozen
    assert kept["Secret/db-archive"].frozen
    assert kept["CronJob/nightly"].body["spec"]["suspend"] is True


def test_the_first_run_is_begun_once_the_server_archives() -> None:
    cr = backup()
    assert "attempts" not in KIND.durable_state(cr, observed(mode="off"))
    cr = decided(cr, observed())
    assert cr["status"]["attempts"]["backup"]["result"] == "Started"
    assert "attempts" not in KIND.durable_state(cr, observed()), "once"
    job = made(cr, observed())["Job/nightly-now-1"]
    assert job.type == JOB
    assert not job.ended


def test_a_result_is_on_record_and_its_job_is_not_made_again() -> None:
    cr = decided(backup(), observed())
    done = observed({**secrets(), **finished(cr, "nightly-now-1")})
    cr = decided(cr, done)
    status = cr["status"]
    assert status["attempts"]["backup"]["result"] == "Succeeded"
    assert status["lastSuccessfulBackupTime"] == status["firstRecoverabilityPoint"] == "2026-01-01T00:02:00Z"
    (run,) = status["runs"]
    assert (run["backupId"], run["size"]) == ("20260101-000100F", {"database": 1000, "stored": 100})
    assert KIND.durable_state(cr, done) == {}
    assert made(cr, observed())["Job/nightly-now-1"].ended
    assert KIND.durable_state(cr, observed()) == {}, "with its Job gone, nothing is begun"
    assert condition(cr, done) == ("True", "Succeeded")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (result(ok=False, reason="AccessDenied", message="The store rejects the key."), "AccessDenied"),
        (result(ok=False, reason="Whatever", message="m"), "RunFailed"),
        ("not json", "RunFailed"),
        (result("verify"), "RunFailed"),
    ],
)
def test_a_failure_is_said_and_tried_again_later(message: str, reason: str) -> None:
    cr, soon = decided(backup(), observed()), NOW.replace(minute=2, second=30)
    ended = finished(cr, "nightly-now-1", how="Failed", message=message)
    cr = decided(cr, observed({**secrets(), **ended}, now=soon))
    assert condition(cr, observed(now=soon)) == ("False", reason)
    assert cr["status"]["lastFailedBackupTime"] == "2026-01-01T00:02:00Z"
    assert "attempts" not in KIND.durable_state(cr, observed(now=soon))
    again = KIND.durable_state(cr, observed(now=soon + timedelta(seconds=40)))
    assert again["attempts"]["backup"]["number"] == 2


@pytest.mark.parametrize(("action", "type"), [("verify", "Verified"), ("backup", "Ready")])
def test_a_failed_run_on_record_without_a_reason_is_reported_all_the_same(action: str, type: str) -> None:
    """The CRD asks for none."""
    run = {"name": "x", "action": action, "phase": "Failed", "startedAt": "2026-01-01T00:00:00Z"}
    cr = backup(verify={}, status={"runs": [run], "lastSuccessfulBackupTime": "2026-01-01T00:00:00Z"})
    found = find_condition(KIND.status(cr, observed(), SyncResult(in_sync=True)).status, type)
    assert (found["status"], found["reason"]) == ("False", "RunFailed")


def test_what_a_run_said_is_a_sentence_before_the_next_one() -> None:
    cr, soon = decided(backup(), observed()), NOW.replace(minute=2, second=30)
    said = result(ok=False, reason="StoreUnreachable", message="the store does not answer: wait")
    ended = finished(cr, "nightly-now-1", how="Failed", message=said)
    cr = decided(cr, observed({**secrets(), **ended}, now=soon))
    assert cr["status"]["runs"][0]["message"] == "The store does not answer: wait."
    report = KIND.status(cr, observed(now=soon), SyncResult(in_sync=True))
    ready = find_condition(report.status, "Ready")
    assert ready["message"] == "The store does not answer: wait. It is repeated by itself."


def test_a_fixed_secret_is_tried_at_once() -> None:
    cr = decided(backup(), observed())
    message = result(ok=False, reason="AccessDenied", message="m")
    soon = NOW.replace(minute=2, second=30)
    ended = finished(cr, "nightly-now-1", how="Failed", message=message)
    cr = decided(cr, observed({**secrets(), **ended}, now=soon))
    fixed = secret(accessKeyId="key", secretAccessKey="right")
    fixed["metadata"]["resourceVersion"] = "2"
    assert cr["status"]["attempts"]["backup"]["number"] == 1
    again = KIND.durable_state(cr, observed(secrets(store=fixed), now=soon))
    assert again["attempts"]["backup"]["number"] == 2


@pytest.mark.parametrize(("waiting", "again"), [(0, True), (3, False)])
def test_a_run_that_waited_for_the_archive_is_repeated_once_it_has_caught_up(
    waiting: int, again: bool
) -> None:
    """Not after the pause that earlier failures have grown to."""
    stopped = "2026-01-01T00:05:00Z"
    failed = {"action": "backup", "phase": "Failed", "startedAt": stopped, "stoppedAt": stopped}
    runs = [
        {**failed, "name": f"nightly-now-{number}", "reason": reason, "message": "m"}
        for number, reason in ((4, "ArchivingBehind"), (3, "AccessDenied"), (2, "AccessDenied"))
    ]
    cr = decided(backup(), observed())
    cr["status"] |= {"runs": runs, "lastFailedBackupTime": stopped}
    cr["status"]["attempts"]["backup"] |= {"number": 4, "result": "Failed", "at": stopped}
    soon = NOW.replace(minute=6, second=10)
    behind = observed(now=soon, waiting=waiting, archived_until="2026-01-01T00:01:00+00:00")
    assert ("attempts" in KIND.durable_state(cr, behind)) == again


def test_a_job_without_a_result_has_not_succeeded() -> None:
    cr = decided(backup(), observed())
    done = finished(cr, "nightly-now-1")
    done = {ref: obj for ref, obj in done.items() if ref.type != POD}
    cr = decided(cr, observed({**secrets(), **done}))
    assert cr["status"]["runs"][0]["reason"] == "RunFailed"
    assert "lastSuccessfulBackupTime" not in cr["status"]


def test_what_waits_for_its_schedule_has_its_repository_before() -> None:
    cr = decided(backup(schedule="0 3 * * *", immediate=False), observed())
    assert cr["status"]["attempts"]["backup"]["request"] == "prepare"
    asked = made(cr, observed())["ConfigMap/nightly-backup"].body["data"]
    assert Request.read(json.loads(asked["prepare.json"])).prepares
    done = finished(cr, "nightly-now-1", action="prepare", message=result(type="none"))
    cr = decided(cr, observed({**secrets(), **done}))
    assert condition(cr, observed()) == ("False", "Scheduled")
    assert KIND.durable_state(cr, observed()) == {}


def proven(**verify: Any) -> Object:
    """A Backup with one good backup and one good verify run."""
    cr = decided(backup(verify=verify), observed())
    cr = decided(cr, observed({**secrets(), **finished(cr, "nightly-now-1")}))
    cr = decided(cr, observed())
    assert cr["status"]["attempts"]["verify"]["result"] == "Started"
    assert condition(cr, observed()) == ("False", "NotVerifiedYet")
    run = finished(cr, "nightly-verify-now-1", action="verify")
    return decided(cr, observed({**secrets(), **run}))


def test_a_proof_is_a_restore_that_compared_how_far_it_came() -> None:
    cr = proven()
    status = cr["status"]
    assert status["lastVerifiedTime"] == "2026-01-01T00:02:00Z"
    assert status["verified"]["reachedLSN"] == "0/3000060"
    assert status["restoreDuration"] == {"download": "1s", "replay": "2s", "check": "3s", "total": "7s"}
    assert condition(cr, observed()) == ("True", "Succeeded")
    assert condition(cr, observed(), "Verified") == ("True", "Succeeded")


def test_without_a_reached_place_it_is_no_proof() -> None:
    cr = decided(backup(verify={}), observed())
    cr = decided(cr, observed({**secrets(), **finished(cr, "nightly-now-1")}))
    run = finished(cr, "nightly-verify-7", action="verify", message=result("verify", reachedLSN=None))
    cr = decided(cr, observed({**secrets(), **run}))
    assert "lastVerifiedTime" not in cr["status"]


def test_a_proof_grows_old() -> None:
    cr = proven(maxAge="1d")
    late = NOW + timedelta(days=2)
    assert condition(cr, observed(now=late)) == ("False", "VerificationStale")


def test_a_proof_that_fails_takes_ready_away() -> None:
    cr = proven()
    message = result("verify", ok=False, reason="WalGap", message="A part of the log is missing.")
    run = finished(cr, "nightly-verify-8", action="verify", how="Failed", message=message)
    run[Ref(JOB, "ns", "nightly-verify-8")]["status"]["startTime"] = "2026-01-01T00:05:00Z"
    cr = decided(cr, observed({**secrets(), **run}))
    assert condition(cr, observed()) == ("False", "WalGap")
    assert cr["status"]["lastVerifiedTime"] == "2026-01-01T00:02:00Z"


def test_other_data_has_a_record_of_its_own() -> None:
    cr = proven()
    cr = decided(cr, observed(db=database(identifier="73")))
    assert cr["status"]["database"]["systemIdentifier"] == "73"
    assert "lastSuccessfulBackupTime" not in cr["status"]
    assert cr["status"]["attempts"]["backup"]["result"] == "Started"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("True", "Archiving")),
        ({"mode": "off"}, ("False", "DatabaseNotReady")),
        ({"waiting": 3, "archived_until": "2026-01-01T00:05:00+00:00"}, ("False", "ArchivingBehind")),
        ({"waiting": 3}, ("True", "Archiving")),
        ({"waiting": 1, "archived_until": None}, ("False", "ArchivingBehind")),
    ],
)
def test_archiving_is_judged_by_the_servers_own_state(facts: Object, expected: tuple[str, str]) -> None:
    assert condition(proven(), observed(**facts), "Archiving") == expected


@pytest.mark.parametrize(
    ("archived", "waiting", "said"),
    [
        ("00:09:30", 1, "1m"),
        ("00:08:59", 1, "2m"),
        ("00:10:00", 1, "1m"),
        ("00:05:00", 1, "5m"),
        ("00:05:00", 0, "1m"),  # nothing was written since
    ],
)
def test_the_window_is_said_in_whole_minutes(archived: str, waiting: int, said: str) -> None:
    seen = observed(archived_until=f"2026-01-01T{archived}+00:00", waiting=waiting)
    status = KIND.status(proven(), seen, SETTLED).status
    assert status["dataLossWindow"] == said
    assert status["latestRestorableTime"] <= f"2026-01-01T{archived}Z"


def test_without_an_answer_what_was_last_said_stays() -> None:
    cr = proven()
    cr["status"] |= KIND.status(cr, observed(), SETTLED).status
    silent = observed(answer=ExternalResult(ok=False, reason="NotResponding", message="m"))
    status = KIND.status(cr, silent, SETTLED).status
    assert status["latestRestorableTime"] == cr["status"]["latestRestorableTime"]
    assert find_condition(status, "Archiving")["status"] == "True"


def test_no_more_runs_are_kept_than_the_crd_admits() -> None:
    cr = proven()
    for number in range(30):
        name = f"nightly-{number:02}"
        run = finished(cr, name)
        run[Ref(JOB, "ns", name)]["status"]["startTime"] = f"2026-01-02T00:{number:02}:00Z"
        cr = decided(cr, observed({**secrets(), **run}))
    names = [run["name"] for run in cr["status"]["runs"]]
    assert names == [f"nightly-{number:02}" for number in range(29, 19, -1)]
    assert len(names) == results.MOST_RUNS


def test_another_backups_jobs_are_not_its_own() -> None:
    cr = backup()
    others = finished({**cr, "metadata": {**cr["metadata"], "uid": "other"}}, "nightly-7")
    assert "runs" not in KIND.durable_state(cr, observed({**secrets(), **others}))


def test_the_server_is_asked_again_every_while_and_by_no_secret_key() -> None:
    (one,) = KIND.probes(backup(), observed()).values()
    (other,) = KIND.probes(backup(), observed(now=NOW + timedelta(seconds=20))).values()
    assert one.once
    assert one.cache_key != other.cache_key
    assert "super" not in repr(one).replace("superuser", "")


def test_suspended_begins_nothing() -> None:
    cr = backup(schedule="0 3 * * *", suspend=True)
    assert "attempts" not in KIND.durable_state(cr, observed())
    assert made(cr, observed())["CronJob/nightly"].body["spec"]["suspend"] is True
    assert condition(cr, observed()) == ("False", "Suspended")


def test_the_next_time_is_of_the_schedules_zone() -> None:
    cr = backup(schedule="0 3 * * *", timeZone="Europe/Berlin")
    assert KIND.status(cr, observed(), SETTLED).status["nextScheduledTime"] == "2026-01-01T02:00:00Z"


def test_reads_what_it_was_given() -> None:
    found = spec.read(backup(retention={"window": "2w"}, type="incremental", fullEvery="7d"))
    assert (found.retention, found.full_every) == (("time", 14), 604800)
    assert spec.read(backup()).retention == ("count", 2)
    assert STARTED["result"] == decisions.STARTED
    assert situation.read(KIND.type, backup(), observed()).may_run

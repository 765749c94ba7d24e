"""Every alert fires on series that call for it and on no others, as Prometheus' own promtool evaluates it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra import yaml_text
from infra.paths import REPOSITORY
from tests.unit.docs.pages import text

RULES = yaml_text.load((REPOSITORY / "integrations" / "prometheus" / "rules.yaml").read_text())["spec"]
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}

KIND = 'group="cache.example.com",kind="Memcached"'
CACHE = f'{KIND},namespace="shop",name="sessions"'
BACKUP = 'group="database.technotuesday.io",kind="Backup",namespace="shop",name="orders"'
DATABASE = 'group="database.db.example.com",kind="Postgresql",namespace="shop",name="orders"'
ERRORS, DONE = (
    f'kindling_reconcile_duration_seconds_count{{{KIND},result="{result}"}}'
    for result in ("error", "success")
)


def ready(labels: str, value: str, *, pod: str = "a") -> str:
    return f'kindling_resource_ready{{{labels},pod="{pod}"}} {value}'


def reason(labels: str, word: str) -> str:
    return f'kindling_resource_ready_reason{{{labels},reason="{word}",pod="a"}} 1x400'


def backup(metric: str, values: str) -> str:
    return f"kindling_backup_{metric}{{{BACKUP}}} {values}"


def certificate(values: str) -> str:
    return f"kindling_postgresql_certificate_expiration_timestamp_seconds{{{DATABASE}}} {values}"


def disk(metric: str, values: str) -> str:
    return f"kindling_postgresql_volume_{metric}{{{DATABASE}}} {values}"


def earlier_login(values: str) -> str:
    name = "kindling_postgresql_credentials_previous_valid_until_timestamp_seconds"
    return f"{name}{{{DATABASE}}} {values}"


CONSUMER = 'namespace="shop",app_kubernetes_io_instance="orders",pod="a"'


def consumer(metric: str, values: str, **labels: str) -> str:
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f"kindling_consumer_{metric}{{{CONSUMER}{more}}} {values}"


def calls(result: str, values: str) -> str:
    return consumer("handler_seconds_count", values, result=result)


@dataclass(frozen=True)
class Case:
    """Each of `series` is a series with its values, a minute apart, in promtool's notation: `0+1x90` begins
    with 0 and rises by 1. `fires` are the labels of the alert after `minutes`; None: there is none.
    """

    alert: str
    series: tuple[str, ...]
    minutes: int
    fires: Mapping[str, str] | None

    def __str__(self) -> str:
        return f"{self.alert} {'fires' if self.fires is not None else 'is silent'}: {'; '.join(self.series)}"


OF_CACHE = {"group": "cache.example.com", "kind": "Memcached", "namespace": "shop", "name": "sessions"}
OF_BACKUP = {"namespace": "shop", "name": "orders"}
OF_DATABASE = {"group": "database.db.example.com", **OF_BACKUP}
OF_KIND = {"kind": "Postgresql", **OF_DATABASE}
CACHE = 'group="cache.example.com",kind="Memcached",namespace="shop",name="orders"'
OF_CACHE = {"group": "cache.example.com", "kind": "Memcached", **OF_BACKUP}
MEMCACHED = {"kind": "Memcached"}
OF_CONSUMER = {"namespace": "shop", "app_kubernetes_io_instance": "orders"}
CASES = [
    Case("KindlingOperatorAbsent", (), 6, {}),
    Case("KindlingOperatorAbsent", ('kindling_leader{pod="a"} 0x9',), 6, None),
    Case("KindlingNoLeader", ('kindling_leader{pod="a"} 0x9', 'kindling_leader{pod="b"} 0x9'), 2, {}),
    Case("KindlingNoLeader", ('kindling_leader{pod="a"} 1x9', 'kindling_leader{pod="b"} 1x9'), 2, {}),
    Case("KindlingNoLeader", ('kindling_leader{pod="a"} 1x9', 'kindling_leader{pod="b"} 0x9'), 2, None),
    Case("KindlingNoLeader", ('kindling_leader{pod="a"} 1 0 1x9',), 2, None),
    Case("KindlingQueueSlow", ("kindling_workqueue_oldest_seconds 11x9",), 6, {}),
    Case("KindlingQueueSlow", ("kindling_workqueue_oldest_seconds 9x9",), 6, None),
    Case("KindlingQueueNotEmpty", ("kindling_workqueue_depth 3x40",), 31, {}),
    Case("KindlingQueueNotEmpty", ("kindling_workqueue_depth 3x12 0 3x27",), 31, None),
    Case("KindlingReconcileErrors", (f"{ERRORS} 0+20x40", f"{DONE} 0+80x40"), 25, MEMCACHED),
    Case("KindlingReconcileErrors", (f"{ERRORS} 0+5x40", f"{DONE} 0+80x40"), 25, None),
    Case(
        "KindlingUnhandledException",
        (f'kindling_reconcile_errors_total{{{KIND},error="UnhandledException"}} 0x5 1x20',),
        8,
        {"group": "cache.example.com", "kind": "Memcached", "error": "UnhandledException"},
    ),
    Case(
        "KindlingUnhandledException",
        (f'kindling_reconcile_errors_total{{{KIND},error="Conflict"}} 0+1x20',),
        8,
        None,
    ),
    Case("KindlingWritesGoOn", (f'kindling_api_writes_total{{{KIND},verb="apply"}} 0+12x90',), 80, MEMCACHED),
    Case("KindlingWritesGoOn", (f'kindling_api_writes_total{{{KIND},verb="apply"}} 0+1x90',), 80, None),
    Case("KindlingWritesGoOn", (f'kindling_api_writes_total{{{KIND},verb="status"}} 0+12x90',), 80, None),
    Case("KindlingRelists", (f"kindling_relists_total{{{KIND}}} 0+1x200",), 150, MEMCACHED),
    Case("KindlingRelists", (f"kindling_relists_total{{{KIND}}} 0x30 1x170",), 150, None),
    Case("KindlingMissedDeletes", (f"kindling_missed_deletes_total{{{KIND}}} 0x5 1x20",), 8, MEMCACHED),
    Case(
        "KindlingMissedDeletes",
        (f"kindling_missed_deletes_total{{{KIND}}} 0x5 1x20", f"kindling_relists_total{{{KIND}}} 0x5 1x20"),
        8,
        None,
    ),
    Case("KindlingRestartsHalted", ("kindling_restart_seconds 0+60x20",), 12, {}),
    Case("KindlingRestartsHalted", ("kindling_restart_seconds 0+60x9 0x20",), 12, None),
    Case("KindlingResourceNotReady", (ready(CACHE, "0x70"), reason(CACHE, "ImagePullFailed")), 61, OF_CACHE),
    # Another leader serves the series, and the hour does not begin again.
    Case(
        "KindlingResourceNotReady",
        (ready(CACHE, "0x30 stale"), ready(CACHE, "_x31 0x40", pod="b")),
        61,
        OF_CACHE,
    ),
    Case("KindlingResourceNotReady", (ready(CACHE, "0x50 1 0x50"), reason(CACHE, "Reconciling")), 80, None),
    Case("KindlingResourceNotReady", (ready(CACHE, "0x50 stale"),), 61, None),
    *(
        Case("KindlingResourceNotReady", (ready(BACKUP, "0x70"), reason(BACKUP, word)), 61, None)
        for word in ("Paused", "Hibernated", "ApprovalPending", "Suspended", "Scheduled", "DatabaseNotReady")
    ),
    Case("KindlingBackupOverdue", (backup("next_due_timestamp_seconds", "3600x400"),), 181, OF_BACKUP),
    Case("KindlingBackupOverdue", (backup("next_due_timestamp_seconds", "3600x400"),), 179, None),
    Case("KindlingBackupOverdue", (backup("next_due_timestamp_seconds", "3600x100 90000x300"),), 181, None),
    Case(
        "KindlingBackupOverdue",
        (backup("next_due_timestamp_seconds", "3600x400"), reason(BACKUP, "DatabaseNotReady")),
        181,
        None,
    ),
    Case("KindlingBackupNotVerified", (backup("verified", "0x90"), reason(BACKUP, "WalGap")), 61, OF_BACKUP),
    Case(
        "KindlingBackupNotVerified",
        (backup("verified", "1x5 0x90"), reason(BACKUP, "VerificationStale")),
        67,
        OF_BACKUP,
    ),
    Case("KindlingBackupNotVerified", (backup("verified", "0x20 1x90"),), 61, None),
    Case(
        "KindlingBackupNotVerified", (backup("verified", "0x90"), reason(BACKUP, "NotVerifiedYet")), 61, None
    ),
    Case("KindlingBackupArchivingStopped", (backup("archiving", "1x5 0x90"),), 17, OF_BACKUP),
    Case("KindlingBackupArchivingStopped", (backup("archiving", "1x5 0x5 1x90"),), 17, None),
    Case("KindlingBackupArchivingStopped", (backup("archiving", "0x5 stale"),), 17, None),
    Case("KindlingBackupDataLossWindow", (backup("data_loss_window_seconds", "960x20"),), 6, OF_BACKUP),
    Case("KindlingBackupDataLossWindow", (backup("data_loss_window_seconds", "900x20"),), 6, None),
    Case("KindlingCertificateEnds", (certificate("604800x70"),), 62, OF_KIND),
    Case(
        "KindlingCertificateEnds",
        (f"kindling_memcached_certificate_expiration_timestamp_seconds{{{CACHE}}} 604800x70",),
        62,
        OF_CACHE,
    ),
    Case(
        "KindlingCertificateEnds",
        (
            certificate("7776000x70"),
            f"kindling_postgresql_role_certificate_expiration_timestamp_seconds{{{DATABASE}}} 604800x70",
        ),
        62,
        OF_KIND,
    ),
    Case("KindlingCertificateEnds", (certificate("604800x30 7776000x40"),), 62, None),
    Case("KindlingCertificateEnds", (certificate("610000x70"),), 62, None),
    Case("KindlingVolumeFills", (disk("full_timestamp_seconds", "86400x30"),), 17, OF_DATABASE),
    Case("KindlingVolumeFills", (disk("full_timestamp_seconds", "90000x30"),), 17, None),
    Case("KindlingVolumeFills", (disk("full_timestamp_seconds", "86400x10 stale"),), 30, None),
    Case(
        "KindlingVolumeFills",
        (disk("used_bytes", "91x30"), disk("capacity_bytes", "100x30")),
        17,
        OF_DATABASE,
    ),
    Case("KindlingVolumeFills", (disk("used_bytes", "91x30"), disk("capacity_bytes", "110x30")), 17, None),
    # A day and a quarter of an hour after the overlap that ended at 0.
    Case("KindlingLoginInUse", (earlier_login("0x1500"),), 1456, OF_DATABASE),
    Case("KindlingLoginInUse", (earlier_login("0x1500"),), 1450, None),
    Case("KindlingLoginInUse", (earlier_login("0x1400 stale"),), 1460, None),
    Case(
        "KindlingDeadLetters",
        (consumer("dead_letters_total", "0x5 1x20", reason="Rejected"),),
        8,
        OF_CONSUMER,
    ),
    # Long ago, and a counter that begins again with its Pod.
    Case("KindlingDeadLetters", (consumer("dead_letters_total", "0x5 1x60", reason="Rejected"),), 40, None),
    Case("KindlingDeadLetters", (consumer("dead_letters_total", "7x5 0x20", reason="Rejected"),), 8, None),
    Case("KindlingHandlerErrors", (calls("failed", "0+2x40"), calls("handled", "0+8x40")), 25, OF_CONSUMER),
    Case("KindlingHandlerErrors", (calls("failed", "0+1x40"), calls("handled", "0+19x40")), 25, None),
    Case("KindlingHandlerErrors", (calls("delayed", "0+9x40"), calls("handled", "0+1x40")), 25, None),
    Case("KindlingHandlerErrors", (calls("failed", "0x40"), calls("handled", "0x40")), 25, None),
    Case("KindlingHandlerHangs", (consumer("handler_slowest_seconds", "0+60x20"),), 12, OF_CONSUMER),
    Case("KindlingHandlerHangs", (consumer("handler_slowest_seconds", "0+60x8 0x20"),), 12, None),
]


def promtool(*words: str | Path, folder: Path) -> str:
    """What it prints; the test fails with that if it is not content."""
    if shutil.which("promtool") is None:
        pytest.fail("promtool is missing: `python3 -m infra test` installs it")
    command = ["promtool", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(case: Case, folder: Path) -> None:
    rule, expected = ALERTS[case.alert], []
    if case.fires is not None:
        summary = re.sub(
            r"{{ \$labels\.(\w+) }}",
            lambda found: (case.fires or {})[found[1]],
            rule["annotations"]["summary"],
        )
        expected = [{"exp_labels": {**rule["labels"], **case.fires}, "exp_annotations": {"summary": summary}}]
    series = [dict(zip(("series", "values"), each.split(" ", 1), strict=True)) for each in case.series]
    (folder / "rules.json").write_text(json.dumps(RULES))
    described = {
        "rule_files": ["rules.json"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [
                    {"eval_time": f"{case.minutes}m", "alertname": case.alert, "exp_alerts": expected}
                ],
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(described))
    promtool("test", "rules", "test.json", folder=folder)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_alert_fires_as_it_is_meant_to(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_promtool_finds_no_fault_in_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    said = promtool("check", "rules", "rules.json", folder=tmp_path)
    assert f"SUCCESS: {sum(len(group['rules']) for group in RULES['groups'])} rules found" in said


def test_the_jobs_on_the_page_are_some_that_prometheus_accepts(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(scrape_configs:.*?)```", text("monitoring.md"), flags=re.DOTALL)
    jobs = [job for block in blocks for job in yaml_text.load(block)["scrape_configs"]]
    assert jobs[0]["honor_labels"] is True, "or a resource's namespace is renamed where the target has one"
    # Debian's is built without Kubernetes' service discovery.
    assert [job.pop("kubernetes_sd_configs")[0]["role"] for job in jobs] == ["endpoints", "pod"]
    (tmp_path / "prometheus.json").write_text(json.dumps({"scrape_configs": jobs}))
    assert "SUCCESS" in promtool("check", "config", "prometheus.json", folder=tmp_path)


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert {case.alert for case in CASES if case.fires is not None} == set(ALERTS)
    assert {case.alert for case in CASES if case.fires is None} == set(ALERTS)


def test_a_case_that_is_wrong_fails(tmp_path: Path) -> None:
    """Or all of the above would say nothing."""
    with pytest.raises(AssertionError, match="FAILED"):
        check(Case("KindlingNoLeader", ('kindling_leader{pod="a"} 1x9',), 2, {}), tmp_path)

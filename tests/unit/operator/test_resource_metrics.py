"""Each resource's series say what its status says, change with it, and end with the resource."""

from __future__ import annotations

import time
from typing import Any

import prometheus_client.parser
import pytest
from kindling.engine.resource_metrics import LABELS, ResourceMetrics, catalogue
from kindling.engine.store import Key, Store
from kindling.kinds.backup.metrics import METRICS
from kindling.kinds.metrics import seconds, unix_time
from kindling.kinds.registry import kinds
from kindling.kube.resources import Object, ResourceType

KINDS = kinds(
    dict.fromkeys(
        ("postgres", "postgres-init", "postgres-backup", "memcached", "exporters", "pulsar-consumer"),
        "image:1",
    )
)
TYPES = {kind.type.group_kind: kind.type for kind in KINDS}
BACKUP, CACHE = TYPES["backup.database.technotuesday.io"], TYPES["memcached.cache.example.com"]
EVENING = 1764021600.0
"""2025-11-24T22:00:00Z."""
STATUS: Object = {
    "observedGeneration": 2,
    "lastSuccessfulBackupTime": "2025-11-24T22:00:00Z",
    "lastFailedBackupTime": "2025-11-24T21:00:00Z",
    "lastVerifiedTime": "2025-11-24T22:10:00Z",
    "restoreDuration": {"download": "7s", "total": "93s"},
    "firstRecoverabilityPoint": "2025-11-24T21:59:00Z",
    "latestRestorableTime": "2025-11-24T22:20:00Z",
    "dataLossWindow": "2m",
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Succeeded"},
        {"type": "Archiving", "status": "True", "reason": "Archiving"},
        {"type": "Verified", "status": "False", "reason": "QueryFailed"},
    ],
}


def cr(kind: str, name: str = "x", *, spec: Object | None = None, status: Object | None = None) -> Object:
    meta = {"namespace": "ns", "name": name, "uid": f"u-{name}", "resourceVersion": "5", "generation": 2}
    return {"kind": kind, "metadata": meta, "spec": spec or {}, "status": status or {}}


def backup(*, spec: Object | None = None, **changes: Any) -> Object:
    status = {name: value for name, value in {**STATUS, **changes}.items() if value is not None}
    given = {"databaseRef": {"name": "x"}, "schedule": "0 3 * * *", "timeZone": "Europe/Berlin"}
    return cr("Backup", spec={**given, **(spec or {})}, status=status)


def shown(metrics: ResourceMetrics, name: str = "x") -> dict[str, float]:
    """The values of one resource by metric, that of `reason` with the reason."""
    found = {}
    for family in prometheus_client.parser.text_string_to_metric_families(metrics.render()):
        for sample in family.samples:
            if sample.labels["name"] == name:
                reason = sample.labels.get("reason")
                found[f"{sample.name}/{reason}" if reason else sample.name] = sample.value
    return found


def of(*resources: Object) -> ResourceMetrics:
    metrics = ResourceMetrics(KINDS)
    for resource in resources:
        type = BACKUP if resource["kind"] == "Backup" else CACHE
        metrics.observe(Key(type.group_kind, "ns", resource["metadata"]["name"]), resource)
    return metrics


def test_a_backups_series_are_the_values_of_its_status() -> None:
    assert shown(of(backup())) == {
        "kindling_resource_ready": 1.0,
        "kindling_resource_ready_reason/Succeeded": 1.0,
        "kindling_backup_last_success_timestamp_seconds": EVENING,
        "kindling_backup_last_failure_timestamp_seconds": EVENING - 3600,
        # At three in Berlin.
        "kindling_backup_next_due_timestamp_seconds": EVENING + 4 * 3600,
        "kindling_backup_verified": 0.0,
        "kindling_backup_last_verified_timestamp_seconds": EVENING + 600,
        "kindling_backup_restore_duration_seconds": 93.0,
        "kindling_backup_first_recoverable_timestamp_seconds": EVENING - 60,
        "kindling_backup_latest_recoverable_timestamp_seconds": EVENING + 1200,
        "kindling_backup_data_loss_window_seconds": 120.0,
        "kindling_backup_archiving": 1.0,
    }


def test_what_the_status_does_not_have_has_no_series() -> None:
    assert shown(of(cr("Backup"))) == {"kindling_resource_ready": 0.0}
    unknown = [
        {"type": type, "status": "Unknown", "reason": "X"} for type in ("Ready", "Archiving", "Verified")
    ]
    assert shown(of(backup(conditions=unknown, **dict.fromkeys(set(STATUS) - {"conditions"})))) == {
        "kindling_resource_ready": 0.0,
        "kindling_resource_ready_reason/X": 1.0,
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"schedule": None},
        {"suspend": True},
        {"schedule": "0 0 30 2 *"},
        {"timeZone": "Nowhere/Land"},
        {"schedule": "99 3 * * *"},
    ],
    ids=str,
)
def test_no_backup_is_due_without_a_schedule_that_comes(spec: Object) -> None:
    assert "kindling_backup_next_due_timestamp_seconds" not in shown(of(backup(spec=spec)))


def test_a_status_of_an_earlier_spec_is_not_ready() -> None:
    assert shown(of(backup(observedGeneration=1)))["kindling_resource_ready"] == 0.0


def test_a_reason_that_changes_leaves_no_series_behind() -> None:
    metrics, key = of(backup()), Key(BACKUP.group_kind, "ns", "x")
    metrics.observe(
        key, backup(conditions=[{"type": "Ready", "status": "False", "reason": "ArchivingBehind"}])
    )
    reasons = {name for name in shown(metrics) if name.startswith("kindling_resource_ready_reason")}
    assert reasons == {"kindling_resource_ready_reason/ArchivingBehind"}
    assert shown(metrics)["kindling_resource_ready"] == 0.0
    assert "kindling_backup_archiving" not in shown(metrics)


def test_the_series_end_with_the_resource_alone() -> None:
    metrics = of(backup(), cr("Memcached", "other"))
    metrics.observe(Key(BACKUP.group_kind, "ns", "x"), None)
    metrics.observe(Key(BACKUP.group_kind, "ns", "never-seen"), None)
    assert shown(metrics) == {}
    assert shown(metrics, "other") == {"kindling_resource_ready": 0.0}


def test_a_label_that_holds_quotes_breaks_no_line() -> None:
    reason = 'a"b\\c\nd'
    metrics = of(backup(conditions=[{"type": "Ready", "status": "False", "reason": reason}]))
    assert shown(metrics)[f"kindling_resource_ready_reason/{reason}"] == 1.0


def test_the_cache_hands_on_each_resource_that_it_takes_in_and_out() -> None:
    """Also what a list finds that is not written for a long time, and what a full resync finds deleted."""
    metrics = ResourceMetrics(KINDS)
    store = Store([BACKUP, CACHE], resource_changed=metrics.observe)
    resource = backup()
    store.upsert(BACKUP, resource)
    assert shown(metrics)["kindling_resource_ready"] == 1.0
    older = backup(observedGeneration=1)
    older["metadata"]["resourceVersion"] = "4"
    store.upsert(BACKUP, older)
    assert shown(metrics)["kindling_resource_ready"] == 1.0, "an older event changes nothing"
    late = {"metadata": {**resource["metadata"], "uid": "earlier", "resourceVersion": "3"}}
    store.handle_event(BACKUP, "DELETED", late)
    assert shown(metrics), "an earlier resource of this name was deleted"
    store.handle_event(BACKUP, "DELETED", resource)
    assert shown(metrics) == {}


def test_the_catalogue_names_each_series_once_with_its_labels() -> None:
    text = of(backup(), cr("Memcached", "other", status=STATUS)).render()
    families = list(prometheus_client.parser.text_string_to_metric_families(text))
    known = {metric.name: set(metric.labels) for metric in catalogue(KINDS)}
    assert [family.name for family in families] == list(known)
    for family in families:
        for sample in family.samples:
            assert set(sample.labels) == known[family.name]
            assert {sample.labels["group"], sample.labels["kind"]} in (
                {"database.technotuesday.io", "Backup"},
                {"cache.example.com", "Memcached"},
            )
    assert {metric.name for metric in METRICS} <= set(known)
    assert LABELS == ("group", "kind", "namespace", "name")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90s", 90.0), ("2m", 120.0), ("3h", 10800.0), ("3", None), ("", None), (None, None), (3, None),
        ("-3s", None), ("3s ", None),
    ],
)  # fmt: skip
def test_durations(text: object, value: float | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-11-24T22:00:00Z", EVENING), ("2025-11-24T23:00:00.5+01:00", EVENING + 0.5),
        ("2025-11-24T22:00:60Z", None), ("2025-11-24T22:00:00", None), ("yesterday", None), (None, None),
        ("0001-01-01T00:00:00+05:00", -62135614800.0),
    ],
)  # fmt: skip
def test_times(text: object, value: float | None) -> None:
    assert unix_time(text) == value


def test_a_status_costs_the_same_however_many_resources_there_are() -> None:
    def observing(metrics: ResourceMetrics) -> float:
        """Seconds of one, the least of many."""
        key, resource, least = Key(CACHE.group_kind, "ns", "x"), cr("Memcached", status=STATUS), 1.0
        for _ in range(200):
            began = time.perf_counter()
            metrics.observe(key, resource)
            least = min(least, time.perf_counter() - began)
        return least

    few, many = ResourceMetrics(KINDS), ResourceMetrics(KINDS)
    for number in range(1000):
        many.observe(Key(CACHE.group_kind, "ns", f"x{number}"), cr("Memcached", status=STATUS))
    assert observing(many) < 5 * observing(few) < 0.005


@pytest.mark.parametrize(
    ("resource", "type", "series"), [(cr("Memcached", status=STATUS), CACHE, 2), (backup(), BACKUP, 12)]
)
def test_a_scrape_of_a_thousand_takes_milliseconds(resource: Object, type: ResourceType, series: int) -> None:
    """2 ms of Memcached and 15 ms of Backups, on a busy machine."""
    metrics = ResourceMetrics(KINDS)
    for number in range(1000):
        metrics.observe(Key(type.group_kind, "ns", f"x{number}"), resource)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        text = metrics.render()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.1
    assert text.count("\n") == series * 1000 + 2 * len(list(catalogue(KINDS)))

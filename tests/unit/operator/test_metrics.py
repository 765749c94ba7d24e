"""Metrics are counted as they are documented, in Prometheus' own format, and cost next to nothing."""

from __future__ import annotations

import re
import time

import prometheus_client.parser
from kindling.engine.metrics import CATALOGUE, Metrics
from kindling.kube.resources import DEPLOYMENT, SECRET, ResourceType

POSTGRESQL = ResourceType("database.db.example.com", "v1", "Postgresql", "postgresqls")


def filled() -> Metrics:
    metrics = Metrics()
    metrics.measure(
        workqueue_depth=lambda: 3,
        workqueue_oldest_seconds=lambda: 1.5,
        cache_objects=lambda: 40,
        leader=lambda: 1.0,
        restarts_waiting=lambda: 2,
        restart_seconds=lambda: 4.5,
    )
    metrics.reconciled(POSTGRESQL, "success", 0.004)
    metrics.wrote("apply", SECRET)
    metrics.wrote("status", POSTGRESQL)
    metrics.failed(POSTGRESQL, "Conflict")
    metrics.acted(POSTGRESQL, "provision", ok=True)
    metrics.acted(POSTGRESQL, "provision", ok=False)
    metrics.relisted(POSTGRESQL)
    metrics.missed_delete(POSTGRESQL)
    metrics.spans_lost(7)
    return metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = prometheus_client.parser.text_string_to_metric_families(metrics.render())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_counted_is_shown() -> None:
    shown = samples(filled())
    kind = (("group", "database.db.example.com"), ("kind", "Postgresql"))
    duration = "kindling_reconcile_duration_seconds"
    success = ("result", "success")
    assert shown["kindling_api_writes_total", (("group", ""), ("kind", "Secret"), ("verb", "apply"))] == 1
    assert shown["kindling_reconcile_errors_total", (("error", "Conflict"), *kind)] == 1
    for result in ("success", "failure"):
        outcome = (("action", "provision"), *kind, ("result", result))
        assert shown["kindling_external_actions_total", outcome] == 1
    assert shown["kindling_relists_total", kind] == 1
    assert shown["kindling_trace_spans_lost_total", ()] == 7
    assert shown["kindling_missed_deletes_total", kind] == 1
    assert shown[f"{duration}_count", (*kind, success)] == 1
    assert shown[f"{duration}_bucket", (*kind, ("le", "0.005"), success)] == 1
    assert shown[f"{duration}_bucket", (*kind, ("le", "0.0025"), success)] == 0
    assert shown["kindling_workqueue_depth", ()] == 3
    assert shown["kindling_workqueue_oldest_seconds", ()] == 1.5
    assert shown["kindling_cache_objects", ()] == 40
    assert shown["kindling_leader", ()] == 1
    assert shown["kindling_restarts_waiting", ()] == 2
    assert shown["kindling_restart_seconds", ()] == 4.5
    assert shown["process_resident_memory_bytes", ()] > 1e6


def test_every_metric_names_a_kind_by_group_and_kind() -> None:
    """Or no query could join writes and reconciliations; the two groups of Postgresql are two kinds."""
    kinds = {
        (labels["group"], labels["kind"])
        for _, pairs in samples(filled())
        if "kind" in (labels := dict(pairs)) and labels.get("verb") != "apply"
    }
    assert kinds == {("database.db.example.com", "Postgresql")}
    assert {metric.labels[:2] for metric in CATALOGUE if metric.labels} == {("group", "kind")}


def test_the_catalogue_holds_every_metric_with_its_labels() -> None:
    shown: dict[str, set[str]] = {}
    for name, labels in samples(filled()):
        base = re.sub(r"^(kindling_reconcile_duration_seconds)_(bucket|count|sum)$", r"\1", name)
        if base.startswith("kindling_"):
            shown.setdefault(base, set()).update(label for label, _ in labels if label != "le")
    assert {metric.name: set(metric.labels) for metric in CATALOGUE} == shown


def test_two_processes_in_one_count_apart() -> None:
    filled()
    kind = (("group", "database.db.example.com"), ("kind", "Postgresql"))
    assert samples(filled())["kindling_relists_total", kind] == 1


def test_a_reconciliation_pays_next_to_nothing() -> None:
    metrics = Metrics()
    memcached = ResourceType("cache.example.com", "v1alpha1", "Memcached", "memcacheds")
    began = time.perf_counter()
    for _ in range(1000):
        metrics.reconciled(memcached, "success", 0.001)
        metrics.wrote("apply", DEPLOYMENT)
    # 10 µs on an idle machine; a reconciliation takes 1,000
    assert (time.perf_counter() - began) / 1000 < 0.001

"""What is counted is what the runbook explains, in Prometheus' own format, and costs next to nothing."""

from __future__ import annotations

import re
import time
from pathlib import Path

import prometheus_client.parser
from kindling.engine.metrics import Metrics
from kindling.kube.resources import DEPLOYMENT, SECRET, ResourceType

POSTGRESQL = ResourceType("database.db.example.com", "v1", "Postgresql", "postgresqls")
RUNBOOK = Path(__file__).resolve().parents[3] / "docs" / "runbook.md"


def filled() -> Metrics:
    metrics = Metrics()
    metrics.measure(
        queue_depth=lambda: 3,
        queue_oldest_seconds=lambda: 1.5,
        objects=lambda: 40,
        leader=lambda: 1.0,
        restarts_waiting=lambda: 2,
        restart_seconds=lambda: 4.5,
    )
    metrics.reconciled(POSTGRESQL.label, "done", 0.004)
    metrics.wrote("apply", SECRET)
    metrics.wrote("status", POSTGRESQL)
    metrics.failed("Conflict")
    metrics.relisted(POSTGRESQL)
    metrics.healed(POSTGRESQL)
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
    kind = ("kind", "postgresql.database.db.example.com")
    assert shown["kindling_writes_total", (("kind", "secret"), ("verb", "apply"))] == 1
    assert shown["kindling_errors_total", (("error", "Conflict"),)] == 1
    assert shown["kindling_relists_total", (kind,)] == 1
    assert shown["kindling_ghosts_healed_total", (kind,)] == 1
    assert shown["kindling_reconcile_seconds_count", (kind, ("outcome", "done"))] == 1
    assert shown["kindling_reconcile_seconds_bucket", (kind, ("le", "0.005"), ("outcome", "done"))] == 1
    assert shown["kindling_reconcile_seconds_bucket", (kind, ("le", "0.0025"), ("outcome", "done"))] == 0
    assert shown["kindling_queue_depth", ()] == 3
    assert shown["kindling_queue_oldest_seconds", ()] == 1.5
    assert shown["kindling_objects", ()] == 40
    assert shown["kindling_leader", ()] == 1
    assert shown["kindling_restarts_waiting", ()] == 2
    assert shown["kindling_restart_seconds", ()] == 4.5
    assert shown["process_resident_memory_bytes", ()] > 1e6


def test_one_kind_is_named_alike_by_every_metric() -> None:
    """Or no query could put its writes beside its passes; and the two groups of Postgresql are two kinds."""
    named = {
        name: dict(labels)["kind"]
        for name, labels in samples(filled())
        if "kind" in dict(labels) and ("verb", "apply") not in labels and "_bucket" not in name
    }
    assert set(named.values()) == {"postgresql.database.db.example.com"}
    assert {name.removesuffix("_count").removesuffix("_sum") for name in named} == {
        "kindling_reconcile_seconds",
        "kindling_writes_total",
        "kindling_relists_total",
        "kindling_ghosts_healed_total",
    }


def test_the_runbook_names_each_with_its_labels() -> None:
    shown: dict[str, set[str]] = {}
    for name, labels in samples(filled()):
        base = re.sub(r"^(kindling_reconcile_seconds)_(bucket|count|sum)$", r"\1", name)
        if base.startswith("kindling_"):
            shown.setdefault(base, set()).update(label for label, _ in labels if label != "le")
    rows = re.findall(r"^\| `(kindling_\w+)(?:\{([\w, ]+)\})?` \|", RUNBOOK.read_text(), flags=re.MULTILINE)
    assert {name: set(filter(None, re.split(", *", labels))) for name, labels in rows} == shown


def test_two_processes_in_one_count_apart() -> None:
    filled()
    assert samples(filled())["kindling_errors_total", (("error", "Conflict"),)] == 1


def test_a_pass_pays_next_to_nothing() -> None:
    metrics = Metrics()
    began = time.perf_counter()
    for _ in range(1000):
        metrics.reconciled("memcached.cache.example.com", "done", 0.001)
        metrics.wrote("apply", DEPLOYMENT)
    assert (time.perf_counter() - began) / 1000 < 0.001  # 10 µs on an idle machine; a pass takes 1,000

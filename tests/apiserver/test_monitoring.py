"""Prometheus scrapes a real operator: every panel, every rule and every resource's metric answers there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kindling.engine.metrics import CATALOGUE
from kindling.engine.resource_metrics import catalogue
from kindling.kinds.conditions import rfc3339
from pulsar_consumer.metrics import Served

from infra import yaml_text
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.cluster import KINDS_BY_NAME
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import (
    BACKUP,
    MEMCACHED,
    MINIMAL_SPECS,
    MY_CUSTOM_RESOURCE,
    REPOSITORY,
    Kind,
)
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.apiserver.support.prometheus import Prometheus, prometheus
from tests.ports import free_port
from tests.unit.docs.panels import DASHBOARDS
from tests.unit.docs.promql import Expression

FOLDER = REPOSITORY / "integrations" / "prometheus"
RULES = yaml_text.load((FOLDER / "rules.yaml").read_text())["spec"]
EACH: list[Json] = [rule for group in RULES["groups"] for rule in group["rules"]]
RECORDS = {rule["record"] for rule in EACH if "record" in rule}
(ENDPOINT,) = yaml_text.load((FOLDER / "service-monitor.yaml").read_text())["spec"]["endpoints"]
TARGET = {"namespace": "kindling-system", "pod": "kindling-operator-0"}
"""As service discovery labels the operator's Pod: one of them has the name of a label of a resource."""
CONSUMER = {"namespace": "shop", "pod": "orders-1", "app_kubernetes_io_instance": "orders"}
"""As the PodMonitor labels a consumer's Pod."""
QUERIES = [
    (f"{dashboard.name}: {panel.title}", expression, panel.rare)
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for expression, _ in panel.queries
]
METRICS = {metric.name: set(metric.labels) for metric in (*CATALOGUE, *catalogue(KINDS_BY_NAME.values()))}
OWN, SHOP = "monitoring", "monitored"
SECONDS = 30.0
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = (NOW.hour + 12) % 24
"""Of the schedule: when it comes, the status is written, and here that is to be far off."""
STATUS: Json = {
    "lastSuccessfulBackupTime": rfc3339(NOW - timedelta(days=3)),
    "lastFailedBackupTime": rfc3339(NOW - timedelta(days=2)),
    "lastVerifiedTime": rfc3339(NOW - timedelta(days=40)),
    "restoreDuration": {"total": "93s"},
    "firstRecoverabilityPoint": rfc3339(NOW - timedelta(days=30)),
    "latestRestorableTime": rfc3339(NOW - timedelta(hours=3)),
    "dataLossWindow": "3h",
}
"""What runs would have led to, in a Backup whose store has been away for days."""


@dataclass(frozen=True)
class Scraped:
    api: Api
    process: OperatorProcess
    prometheus: Prometheus


def path(kind: Kind, name: str) -> str:
    return f"{kind.collection.replace('/default/', f'/{SHOP}/')}/{name}"


def create(api: Api, kind: Kind, name: str, **spec: Any) -> None:
    collection = path(kind, "").rstrip("/")
    api.create(collection, kind.resource(name, {**MINIMAL_SPECS[kind.id], **spec})).accepted()


def wait(until: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def scraped(api: Api, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Resources in every state that has metrics of its own."""
    for namespace in (OWN, SHOP):
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}}).accepted()
    with operator(plane, namespaces=SHOP, env={"KINDLING_NAMESPACE": OWN}) as process:
        process.wait_ready()
        create(api, MY_CUSTOM_RESOURCE, "friendly")
        for name in ("starting", "going"):
            create(api, MEMCACHED, name)
        create(api, BACKUP, "nightly", schedule=f"0 {HOUR} * * *", verify={})

        def conditions(kind: Kind, name: str) -> Json:
            status = api.get(path(kind, name)).accepted().get("status") or {}
            return {each["type"]: each for each in status.get("conditions", ())}

        wait(lambda: conditions(BACKUP, "nightly"), process.log)
        api.merge(f"{path(BACKUP, 'nightly')}/status", {"status": STATUS}).accepted()
        wait(
            lambda: conditions(BACKUP, "nightly")["Verified"]["reason"] == "VerificationStale",
            lambda: conditions(BACKUP, "nightly"),
        )
        wait(lambda: conditions(MY_CUSTOM_RESOURCE, "friendly"), process.log)
        consumer = Served(free_port())  # what a consumer with spec.metrics serves
        consumer.recorded("amount", 1.0)
        with (
            closing(consumer),
            prometheus(
                f"127.0.0.1:{process.port}",
                folder=tmp_path_factory.mktemp("prometheus"),
                rules=RULES,
                labels=TARGET,
                honor_labels=ENDPOINT["honorLabels"],
                pods={f"127.0.0.1:{consumer.port}": CONSUMER},
            ) as server,
        ):
            yield Scraped(api, process, server)


def answers(scraped: Scraped, expression: str, *, rare: bool) -> None:
    """It has samples, or, where that is no fault, each metric and label in it exists."""
    text = expression.replace("$__rate_interval", "1m").replace("$namespace", ".*")
    if scraped.prometheus.query(text):
        return
    assert rare, f"no samples: {text}"
    described = scraped.prometheus.described()
    for metric, labels in Expression(text).selectors:
        if metric in RECORDS:
            continue  # It is a rule, and is put to the test itself.
        base = re.sub(r"_(bucket|count|sum)$", "", metric)
        # OpenMetrics describes a counter without its ending.
        names = {metric, base, metric.removesuffix("_total")}
        assert names & described, f"{metric} is not served"
        assert labels <= METRICS.get(base, set()) | scraped.prometheus.labels(metric)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[0])
def test_a_panel_has_something_to_show(scraped: Scraped, query: tuple[str, str, bool]) -> None:
    answers(scraped, query[1], rare=query[2])


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: rule.get("record") or rule["alert"])
def test_a_rule_reads_what_is_there(scraped: Scraped, rule: Json) -> None:
    """The alerts of resources find this Backup; those of operator and consumers find nothing wrong."""
    of_faults = "alert" in rule or "errors" in rule["record"]
    of_resources = rule.get("alert", "").startswith(("KindlingResource", "KindlingBackup"))
    answers(scraped, rule["expr"], rare=of_faults and not of_resources)


def test_every_rule_is_evaluated_without_a_fault(scraped: Scraped) -> None:
    def found() -> dict[str, tuple[str, str]]:
        groups = scraped.prometheus.get("rules")["groups"]
        return {
            rule["name"]: (rule["health"], rule.get("lastError", ""))
            for group in groups
            for rule in group["rules"]
        }

    wait(lambda: all(health == "ok" for health, _ in found().values()), found)
    assert set(found()) == {rule.get("record") or rule["alert"] for rule in EACH}


def test_the_metrics_of_a_backup_are_the_values_of_its_status(scraped: Scraped) -> None:
    status = scraped.api.get(path(BACKUP, "nightly")).accepted()["status"]
    conditions = {item["type"]: item for item in status["conditions"]}

    def at(field: str) -> float:
        return datetime.fromisoformat(status[field]).timestamp()

    last = datetime.fromisoformat(status["lastSuccessfulBackupTime"])
    scheduled = last.replace(hour=HOUR, minute=0, second=0)
    due = scheduled if scheduled > last else scheduled + timedelta(days=1)
    expected = {
        "kindling_resource_ready": 0.0,
        "kindling_resource_ready_reason": 1.0,
        "kindling_backup_last_success_timestamp_seconds": at("lastSuccessfulBackupTime"),
        "kindling_backup_last_failure_timestamp_seconds": at("lastFailedBackupTime"),
        "kindling_backup_next_due_timestamp_seconds": due.timestamp(),
        "kindling_backup_verified": 0.0,
        "kindling_backup_last_verified_timestamp_seconds": at("lastVerifiedTime"),
        "kindling_backup_restore_duration_seconds": 93.0,
        "kindling_backup_first_recoverable_timestamp_seconds": at("firstRecoverabilityPoint"),
        "kindling_backup_latest_recoverable_timestamp_seconds": at("latestRestorableTime"),
        "kindling_backup_data_loss_window_seconds": 10800.0,
        "kindling_backup_archiving": 0.0,
    }
    found = scraped.prometheus.query(f'{{__name__=~"kindling_.+",namespace="{SHOP}",name="nightly"}}')
    assert {labels["__name__"]: value for labels, value in found} == expected
    names = {"group": "database.technotuesday.io", "kind": "Backup", "namespace": SHOP, "name": "nightly"}
    for labels, _ in found:
        # Its namespace is not that of the operator's Pod, which the target has.
        assert names.items() <= labels.items()
        assert labels["pod"] == TARGET["pod"]
        assert not any(label.startswith("exported_") for label in labels)
    (reason,) = (labels["reason"] for labels, _ in found if "reason" in labels)
    assert reason == conditions["Ready"]["reason"]


def test_each_resource_says_whether_it_is_ready_and_a_deleted_one_nothing(scraped: Scraped) -> None:
    def ready() -> dict[str, float]:
        return {
            labels["name"]: value for labels, value in scraped.prometheus.query("kindling_resource_ready")
        }

    assert ready() == {"friendly": 1.0, "starting": 0.0, "going": 0.0, "nightly": 0.0}
    scraped.api.delete(path(MEMCACHED, "going")).accepted()
    wait(lambda: "going" not in ready(), ready)
    assert ready() == {"friendly": 1.0, "starting": 0.0, "nightly": 0.0}


def test_an_operator_that_starts_has_the_series_without_a_write(
    scraped: Scraped, plane: ControlPlane
) -> None:
    """What is listed counts, not only what is written."""
    before = {line for line in scraped.process.metrics().splitlines() if line.startswith("kindling_backup_")}
    scraped.process.stop()
    with operator(plane, namespaces=SHOP, env={"KINDLING_NAMESPACE": OWN}) as process:
        process.wait_ready()

        def served() -> set[str]:
            lines = process.metrics().splitlines()
            return {line for line in lines if line.startswith("kindling_backup_")}

        wait(lambda: served() == before, lambda: served() ^ before)
        assert process.value("kindling_api_writes_total", kind="Backup", verb="status") == 0

"""The rules for Prometheus parse, name metrics and labels that the operator has, and are explained."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import prometheus_client.parser
import pytest
from kindling.engine.resource_metrics import catalogue
from kindling.kube.resources import ResourceType
from pulsar_consumer.metrics import Served

from infra import yaml_text
from infra.paths import REPOSITORY
from tests.ports import free_port
from tests.unit.docs import dashboards
from tests.unit.docs.pages import rows, text
from tests.unit.docs.panels import DASHBOARDS
from tests.unit.docs.promql import Expression, NotPromQL
from tests.unit.operator.test_metrics import filled
from tests.unit.schema.worlds import KINDS

FOLDER = REPOSITORY / "integrations" / "prometheus"
RECORDED = REPOSITORY / "tests" / "unit" / "operator" / "recorded"
RULES = yaml_text.load((FOLDER / "rules.yaml").read_text())
EACH: list[dict[str, Any]] = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
RECORDS = {rule["record"] for rule in EACH if "record" in rule}
POSTGRESQL = ResourceType("database.db.example.com", "v1", "Postgresql", "postgresqls")


def exposed() -> dict[str, set[str]]:
    """The labels of each series that the operator serves."""
    found: dict[str, set[str]] = {}
    for family in prometheus_client.parser.text_string_to_metric_families(filled().render()):
        for sample in family.samples:
            base, part = re.fullmatch(r"(.*?)((?:_bucket|_count|_sum)?)", sample.name).groups()  # type: ignore[union-attr]
            found.setdefault(base + part, set()).update(sample.labels)
    return found | {metric.name: set(metric.labels) for metric in catalogue(KINDS.values())}


def of_consumers() -> dict[str, set[str]]:
    """The labels of each series that a consumer serves, with those of its Pod by the PodMonitor."""
    served = Served(free_port())
    served.recorded("amount", 1.0)  # by a function
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
    finally:
        served.close()
    monitor = yaml_text.load((FOLDER / "pod-monitor.yaml").read_text())["spec"]
    of_pod = {"namespace", "pod", *(re.sub(r"\W", "_", label) for label in monitor["podTargetLabels"])}
    found: dict[str, set[str]] = {}
    for family in prometheus_client.parser.text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, set(of_pod)).update(sample.labels)
    return {name: labels for name, labels in found.items() if name.startswith("kindling_")}


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: rule.get("record") or rule["alert"])
def test_an_expression_reads_what_the_operator_or_a_consumer_serves(rule: dict[str, Any]) -> None:
    selectors = Expression(rule["expr"]).selectors
    assert selectors
    series = {**exposed(), **of_consumers(), **{record: {"kind"} for record in RECORDS}}
    for metric, labels in selectors:
        assert labels <= series[metric], f"{metric} has no label {labels - series[metric]}"


QUERIES = [
    (panel.title, expression)
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for expression, _ in panel.queries
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[0])
def test_a_panel_reads_what_the_operator_or_a_consumer_serves(query: tuple[str, str]) -> None:
    processes = {"job", "instance", "namespace", "pod"}
    series = {**exposed(), **of_consumers()} | dict.fromkeys(
        ("process_resident_memory_bytes", "process_cpu_seconds_total"), processes
    )
    selectors = Expression(query[1].replace("$__rate_interval", "1m")).selectors
    assert selectors
    for metric, labels in selectors:
        assert labels <= series[metric], f"{metric} has no label {labels - series[metric]}"


def test_every_metric_is_on_a_dashboard() -> None:
    expressions = " ".join(expression for _, expression in QUERIES)
    served = [*exposed(), *of_consumers()]
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in served if name.startswith("kindling_")}
    assert {name for name in names if name not in expressions} == set()


def test_the_dashboards_are_those_of_the_description() -> None:
    files = {path.name: path.read_text() for path in dashboards.FOLDER.iterdir()}
    assert files == {f"{each.name}.json": dashboards.page(each) for each in DASHBOARDS}, (
        "python -m tests.unit.docs.dashboards writes them again"
    )


def test_panels_do_not_overlap_and_have_what_grafana_needs() -> None:
    for dashboard in DASHBOARDS:
        model = json.loads(dashboards.page(dashboard))
        taken = [
            (x, y)
            for panel in model["panels"]
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(taken) == len(set(taken))
        assert max(x for x, _ in taken) < 24
        ids = [panel["id"] for panel in model["panels"]]
        assert len(ids) == len(set(ids))
        names = {variable["name"] for variable in model["templating"]["list"]}
        assert set(re.findall(r"\$\{?([a-z]+)", json.dumps(model))) == names
        for panel in model["panels"]:
            legends = " ".join(target["legendFormat"] for target in panel.get("targets", ()))
            expressions = " ".join(target["expr"] for target in panel.get("targets", ()))
            assert all(label in expressions for label in re.findall(r"{{(\w+)}}", legends))


def test_the_page_explains_each_rule_as_it_is() -> None:
    tables = [row for row in rows(text("monitoring.md")) if row[0].startswith("`")]
    alerts = {row[0].strip("`"): (row[1], row[2]) for row in tables if len(row) == 5}
    records = {row[0].strip("`") for row in tables if len(row) == 2}
    assert records == RECORDS
    assert alerts == {
        rule["alert"]: (rule.get("for", "at once"), rule["labels"]["severity"])
        for rule in EACH
        if "alert" in rule
    }
    assert all(rule["annotations"]["summary"].endswith(".") for rule in EACH if "alert" in rule)


def test_each_alert_of_a_resource_has_a_section_that_the_page_links() -> None:
    names = {
        rule["alert"]
        for rule in EACH
        if re.match("Kindling(Resource|Backup|Certificate|Volume|Login|Dead|Handler)", rule.get("alert", ""))
    }
    linked = dict(re.findall(r"\| `(\w+)` \|.*\(runbook\.md#(\w+)\) \|", text("monitoring.md")))
    assert linked == {name: name.lower() for name in names}
    sections = re.findall(r"^### (\w+)$", text("runbook.md"), flags=re.MULTILINE)
    assert set(sections) == set(linked)


def test_the_monitor_selects_the_service_of_the_operator() -> None:
    spec = yaml_text.load((FOLDER / "service-monitor.yaml").read_text())["spec"]
    component = (REPOSITORY / "infra" / "components" / "operator.py").read_text()
    for label, value in spec["selector"]["matchLabels"].items():
        assert f'"{label}": "{value}"' in component
    (endpoint,) = spec["endpoints"]
    assert f'name="{endpoint["port"]}"' in component


def test_the_monitor_of_exporters_selects_the_pods_that_have_one_by_the_ports_name() -> None:
    spec = yaml_text.load((FOLDER / "pod-monitor.yaml").read_text())["spec"]
    assert spec["namespaceSelector"] == {"any": True}
    (endpoint,) = spec["podMetricsEndpoints"]
    for name in ("memcached-exporter", "postgresql-exporter"):
        children = list(yaml_text.load_all((RECORDED / f"{name}.yaml").read_text()))
        (template,) = (body["spec"]["template"] for body in children if "template" in body.get("spec", {}))
        labels = template["metadata"]["labels"]
        assert labels.items() >= spec["selector"]["matchLabels"].items()
        assert set(spec["podTargetLabels"]) <= labels.keys()
        ports = [port["name"] for container in template["spec"]["containers"] for port in container["ports"]]
        assert ports.count(endpoint["port"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "rate(kindling_leader)",
        "kindling_leader[5m]  > 1",
        "sum by kind (kindling_leader)",
        "sum(kindling_leader",
        "kindling_leader{kind=x}",
        "kindling_leader{kind}",
        "rates(kindling_leader[5m])",
        "max(1)",
        "kindling_leader ~ 1",
        "kindling_leader > 1 )",
    ],
)
def test_what_is_not_promql_does_not_parse(text: str) -> None:
    with pytest.raises(NotPromQL):
        Expression(text)

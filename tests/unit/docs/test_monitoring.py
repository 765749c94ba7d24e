"""The rules for Prometheus parse, name metrics and labels that the operator has, and are explained."""

from __future__ import annotations

import re
from typing import Any

import prometheus_client.parser
import pytest
import yaml
from kindling.kube.resources import ResourceType

from infra.paths import REPOSITORY
from tests.unit.docs.pages import rows, text
from tests.unit.docs.promql import Expression, NotPromQL
from tests.unit.operator.test_metrics import filled

FOLDER = REPOSITORY / "integrations" / "prometheus"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
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
    return found


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: rule.get("record") or rule["alert"])
def test_an_expression_reads_what_the_operator_serves(rule: dict[str, Any]) -> None:
    selectors = Expression(rule["expr"]).selectors
    assert selectors
    series = {**exposed(), **{record: {"kind"} for record in RECORDS}}
    for metric, labels in selectors:
        assert labels <= series[metric], f"{metric} has no label {labels - series[metric]}"


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


def test_the_monitor_selects_the_service_of_the_operator() -> None:
    spec = yaml.safe_load((FOLDER / "service-monitor.yaml").read_text())["spec"]
    component = (REPOSITORY / "infra" / "components" / "operator.py").read_text()
    for label, value in spec["selector"]["matchLabels"].items():
        assert f'"{label}": "{value}"' in component
    (endpoint,) = spec["endpoints"]
    assert f'name="{endpoint["port"]}"' in component


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

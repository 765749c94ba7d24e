"""The dashboards for Grafana, from a description of their panels (`panels`).

`python -m tests.unit.docs.dashboards` writes integrations/grafana/*.json; test_dashboards.py compares them.
A dashboard asks for its data source by a variable, so it can be imported or provisioned as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from infra.paths import REPOSITORY
from tests.unit.docs.panels import DASHBOARDS, Dashboard, Panel

FOLDER = REPOSITORY / "integrations" / "grafana"
SCHEMA_VERSION = 39
"""That of Grafana 11; newer ones migrate it by themselves."""
WIDTH, HEIGHT = 24, 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def page(dashboard: Dashboard) -> str:
    """The JSON model of Grafana."""
    return json.dumps(_model(dashboard), indent=2) + "\n"


def _model(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "tags": ["kindling"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_placed(dashboard)),
    }


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    if dashboard.by_namespace:
        yield {
            "name": "namespace",
            "label": "Namespace",
            "type": "query",
            "datasource": SOURCE,
            "query": "label_values(kindling_resource_ready, namespace)",
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _placed(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """Each row below the one before, its panels from the left, and on as many lines as they take."""
    number, top = 1, 0
    for heading, panels in dashboard.rows:
        yield {
            "id": number,
            "type": "row",
            "title": heading,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            "panels": [],
        }
        number, top, left = number + 1, top + 1, 0
        for panel in panels:
            if left + panel.width > WIDTH:
                top, left = top + HEIGHT, 0
            place = {"x": left, "y": top, "w": panel.width, "h": HEIGHT}
            yield {"id": number, **_panel(panel), "gridPos": place}
            number, left = number + 1, left + panel.width
        top += HEIGHT


def _panel(panel: Panel) -> dict[str, Any]:
    table = panel.type == "table"
    made: dict[str, Any] = {
        "type": panel.type,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
                **({"instant": True, "range": False, "format": "table"} if table else {}),
            }
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }
    if table:
        left_out = {"excludeByName": {"Time": True, "Value": True}}
        made["transformations"] = [{"id": "organize", "options": left_out}]
    return made


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each.name}.json").write_text(page(each))
        print(f"{(FOLDER / each.name).relative_to(REPOSITORY)}.json")

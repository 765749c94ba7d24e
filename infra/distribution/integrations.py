"""What other tools of a cluster get of a release: Prometheus, Grafana and Argo CD, as files and in the chart.

The files are those of the repository's folder `integrations`, byte for byte. In the chart, the objects of
Prometheus' operator and the dashboards are off until its values ask for them: a cluster that lacks the
definitions would refuse the whole chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.distribution import chart_templates
from infra.distribution.chart_templates import VALUES
from infra.distribution.yaml_writer import Block, Value
from infra.manifests import Manifest
from infra.project import OPERATOR, OPERATOR_NAMESPACE
from infra.yaml_text import load_all

FOLDER = "integrations"
OBJECTS: Mapping[str, str] = {
    "serviceMonitor": "service-monitor.yaml",
    "podMonitor": "pod-monitor.yaml",
    "prometheusRule": "rules.yaml",
}
"""The files of `prometheus`, each with one object, by the name that it has in the chart's values."""
DASHBOARDS = "dashboards"
_LABELS = {"grafana_dashboard": "1"}
"""By these, the sidecar of Grafana's own chart finds dashboards."""


def release_files(repository: Path) -> dict[str, bytes]:
    """All of them by their path in the release, which is that in the repository."""
    root = repository / FOLDER
    return {
        path.relative_to(repository).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def default_values() -> dict[str, Any]:
    """The chart's values for them."""
    off = {"enabled": False, "labels": {}}
    return {**{name: dict(off) for name in OBJECTS}, DASHBOARDS: {"enabled": False, "labels": dict(_LABELS)}}


def schema() -> dict[str, Any]:
    """What those values may be."""
    one = {
        "type": "object",
        "additionalProperties": False,
        "required": ["enabled"],
        "properties": {
            "enabled": {"type": "boolean"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    names = [*OBJECTS, DASHBOARDS]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": names,
        "properties": dict.fromkeys(names, one),
    }


def chart_files(repository: Path) -> dict[str, str]:
    """The templates, and what they read."""
    root = repository / FOLDER
    files = {}
    for name, file in OBJECTS.items():
        (found,) = load_all((root / "prometheus" / file).read_text(encoding="utf-8"))
        metadata = {**found["metadata"], "labels": _labels(name)}
        files[f"templates/{found['kind'].lower()}.yaml"] = _template(name, {**found, "metadata": metadata})
    dashboards = {path.name: path.read_text(encoding="utf-8") for path in (root / "grafana").glob("*.json")}
    files |= {f"{DASHBOARDS}/{name}": text for name, text in sorted(dashboards.items())}
    files["templates/dashboards.yaml"] = _template(
        DASHBOARDS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{OPERATOR}-dashboards",
                "namespace": OPERATOR_NAMESPACE,
                "labels": _labels(DASHBOARDS),
            },
            "data": {name: Value(f'$.Files.Get "{DASHBOARDS}/{name}"') for name in sorted(dashboards)},
        },
    )
    return files


def _labels(name: str) -> Block:
    return Block(f"{VALUES}.monitoring.{name}.labels")


def _template(name: str, found: Manifest) -> str:
    return chart_templates.document(found, [f"if {VALUES}.monitoring.{name}.enabled"])

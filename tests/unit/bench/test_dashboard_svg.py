"""The pictures of the dashboards: all panels are in them, and what is drawn is what was recorded."""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

import pytest

from bench.dashboard_svg import Series, picture, said
from infra.paths import REPOSITORY
from tests.unit.docs.panels import DASHBOARDS, Dashboard, Panel

SVG = "{http://www.w3.org/2000/svg}"
PANELS = (
    Panel(title="Memory", queries=(("m", ""),), unit="bytes"),
    Panel(title="Leaders", queries=(("l", ""),), type="stat", width=4),
    Panel(title="Why", queries=(("w", ""),), type="table", width=24),
    Panel(title="Archiving", queries=(("a", ""),), type="state-timeline", width=12),
    Panel(title="Errors", queries=(("e", ""),)),
)
DASHBOARD = Dashboard(name="d", title="A <dashboard>", rows=(("Health", PANELS),))


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.name)
def test_the_picture_in_the_documents_has_each_panel_of_today(dashboard: Dashboard) -> None:
    text = (REPOSITORY / "docs" / "assets" / f"{dashboard.name}.svg").read_text()
    for title in (dashboard.title, *(panel.title for panel in dashboard.panels)):
        assert f">{escape(title)}<" in text, f"{title}: draw it again, `python3 -m bench.dashboards`"


def test_each_kind_of_panel_shows_what_was_recorded() -> None:
    found = {
        "Memory": [Series("kindling-operator-0", {}, [(0.0, 0.0), (60.0, 2.0**21)])],
        "Leaders": [Series("", {}, [(0.0, 2.0), (60.0, 1.0)])],
        "Why": [Series("", {"name": "shop", "reason": "Unschedulable"}, [(60.0, 1.0)])],
        "Archiving": [Series("shop/nightly", {}, [(0.0, 1.0), (30.0, 0.0), (60.0, 0.0)])],
    }
    root = ElementTree.fromstring(picture(DASHBOARD, found, seconds=60.0))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {"A <dashboard>", "Health", "2 MiB", "kindling-operator-0", "Unschedulable", "1"} <= set(texts)
    assert texts.count("No data") == 1
    (line,) = root.iter(f"{SVG}polyline")
    (x0, y0), (x1, y1) = (each.split(",") for each in line.attrib["points"].split())
    assert float(x1) > float(x0)
    assert float(y1) < float(y0)
    fills = [each.attrib["fill"] for each in root.iter(f"{SVG}rect") if each.attrib.get("height") == "18"]
    assert len(set(fills)) == 2


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.25, "percentunit", "25 %"),
        (7200, "s", "2 h"),
        (0.005, "s", "5 ms"),
        (0, "s", "0"),
        (3, "ops", "3/s"),
        (1536, "bytes", "1.5 KiB"),
        (12, "short", "12"),
    ],
)
def test_values_have_their_units(value: float, unit: str, expected: str) -> None:
    assert said(value, unit) == expected

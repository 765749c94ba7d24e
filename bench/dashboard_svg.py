"""A dashboard's panels as one picture: what Grafana would show of these series. Pure; text in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from bench.svg import COLOURS, short
from tests.unit.docs.panels import Dashboard, Panel

COLUMN, LINE, HEAD, GAP = 50, 190, 34, 8
"""In pixels: a column, of which there are 24, a line of panels, a heading, and what is between panels."""
WIDTH = 24 * COLUMN
LEFT, TOP, BOTTOM = 58, 30, 34
MOST = 6
"""So many series of a panel are named."""
AT_THE_END = 5.0
"""A series whose last value is older, in seconds, is no more."""
FACE = "#24292f"
FAINT = "#d8dee4"
_UNITS = {
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "s": ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (0.001, "ms")),
}


class Series(NamedTuple):
    """One line of a panel: its name, and its values by the seconds since the picture's begin."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


def picture(dashboard: Dashboard, found: Mapping[str, Sequence[Series]], *, seconds: float) -> str:
    """The SVG. `found` has the series of each panel by its title; `seconds` is how long they were recorded.

    A panel without series says so, as in Grafana: of a healthy system some have none.
    """
    parts: list[str] = []
    y = float(HEAD)
    for heading, panels in dashboard.rows:
        parts.append(_text(GAP, y + 22, heading, size=14, weight="bold"))
        y += HEAD
        x = 0.0
        for panel in panels:
            if x + panel.width * COLUMN > WIDTH:
                x, y = 0.0, y + LINE
            parts.extend(_panel(panel, found.get(panel.title, ()), x, y, seconds))
            x += panel.width * COLUMN
        y += LINE
    title = _text(GAP, 24, dashboard.title, size=17, weight="bold")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + GAP:.0f}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#f6f8fa"/>'
        f"{title}{''.join(parts)}</svg>\n"
    )


def said(value: float, unit: str) -> str:
    """The value with its unit, as an axis has it."""
    if unit == "percentunit":
        return f"{short(value * 100)} %"
    for factor, name in _UNITS.get(unit, ()):
        if abs(value) >= factor:
            return f"{short(value / factor)} {name}"
    return f"{short(value)}/s" if unit == "ops" else short(value)


def _panel(panel: Panel, found: Sequence[Series], x: float, y: float, seconds: float) -> Iterator[str]:
    width, height = panel.width * COLUMN - GAP, LINE - GAP
    yield f'<g transform="translate({x + GAP / 2:.0f} {y:.0f})">'
    yield f'<rect width="{width}" height="{height}" rx="3" fill="#fff" stroke="{FAINT}"/>'
    yield _text(8, 17, panel.title, weight="bold", size=11 if 7 * len(panel.title) < width else 9)
    if panel.type == "table":
        found = [series for series in found if series.points[-1][0] > seconds - AT_THE_END]
    if not found:
        yield _text(width / 2, height / 2 + 8, "No data", anchor="middle", fill="#8a8f98")
    elif panel.type == "stat":
        last = said(found[0].points[-1][1], panel.unit)
        yield _text(width / 2, height / 2 + 20, last, anchor="middle", size=38, fill=COLOURS[5])
    elif panel.type == "table":
        yield from _table(found, width)
    elif panel.type == "state-timeline":
        yield from _states(found, width, seconds)
    else:
        yield from _lines(found, panel.unit, width, height, seconds)
    yield "</g>"


def _table(found: Sequence[Series], width: float) -> Iterator[str]:
    """The labels of the series that there are at the end, some of them."""
    names = list(found[0].labels)
    for place, name in enumerate(names):
        yield _text(12 + place * (width - 20) / len(names), 38, name, weight="bold")
    for row, series in enumerate(found[:MOST]):
        for place, name in enumerate(names):
            value = series.labels.get(name, "")
            yield _text(12 + place * (width - 20) / len(names), 58 + row * 18, value)


def _states(found: Sequence[Series], width: float, seconds: float) -> Iterator[str]:
    for row, series in enumerate(found[:MOST]):
        y = 36 + row * 24
        yield _text(8, y + 13, series.name)
        start = min(width / 2, 180.0)
        for (at, value), (end, _) in zip(series.points, series.points[1:], strict=False):
            left, right = (start + (width - start - 8) * moment / seconds for moment in (at, end))
            colour = COLOURS[5] if value else COLOURS[2]
            yield _box(left, y, right - left + 0.3, 18, colour)


def _lines(found: Sequence[Series], unit: str, width: float, height: float, seconds: float) -> Iterator[str]:
    values = [value for series in found for _, value in series.points]
    low, high = min(0.0, *values), max(0.0, *values)
    high = high if high > low else low + 1
    foot, right = height - BOTTOM, width - 8

    def place(at: float, value: float) -> str:
        across = LEFT + (right - LEFT) * at / seconds
        return f"{across:.1f},{foot - (foot - TOP) * (value - low) / (high - low):.1f}"

    for part in (0.0, 0.5, 1.0):
        y = foot - (foot - TOP) * part
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{FAINT}"/>'
        yield _text(LEFT - 4, y + 4, said(low + (high - low) * part, unit), anchor="end", size=10)
    for number, series in enumerate(found):
        path = " ".join(place(at, value) for at, value in series.points)
        yield f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="1.5"/>'
    x = 8.0
    for number, series in enumerate(found[:MOST]):
        name = series.name
        if not name or x + 18 + 6 * len(name) > width:
            break
        yield _box(x, height - 15, 9, 9, _colour(number))
        yield _text(x + 12, height - 7, name, size=10)
        x += 24 + 6 * len(name)


def _colour(number: int) -> str:
    return COLOURS[(number + 1) % len(COLOURS)]


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 11,
    weight: str = "normal",
    fill: str = FACE,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{escape(text)}</text>'
    )

"""Two plots as inline SVG: grouped bars with whiskers, and lines. Pure; text in, text out.

Our own hundred lines, because plotting libraries are tens of megabytes of dependencies for what are
rectangles and words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from bench.stats import Summary

WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 10, 46, 30
COLOURS = ("#8a8f98", "#1f6feb", "#d1242f", "#bf8700", "#8250df", "#1a7f37", "#0a7ea4", "#953800")


def bars(
    title: str, unit: str, groups: Mapping[str, Mapping[str, Summary]], *, names: Sequence[str] = ()
) -> str:
    """A group of bars for each key, one for each series; the whiskers reach to the least and greatest.

    The `names` have their colours by their places, so that a series has one colour in all plots.

    The axis is logarithmic, so that ratios, which are what is asked for, look alike everywhere.
    """
    series = _series(groups.values())
    values = [part for group in groups.values() for item in group.values() for part in _ends(item)]
    if not values:
        return ""
    scale, colours = Scale(values), _colours(series, names)
    parts = [*_frame(title, unit, scale), *_legend(colours)]
    slot = (WIDTH - LEFT - RIGHT) / len(groups)
    for index, (name, group) in enumerate(groups.items()):
        start = LEFT + slot * index
        parts.append(_text(start + slot / 2, HEIGHT - 10, name, anchor="middle"))
        width = slot * 0.84 / len(series)
        for place, (label, colour) in enumerate(colours.items()):
            if label not in group:
                continue
            item, x = group[label], start + slot * 0.08 + width * place
            y = scale.y(item.median)
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * 0.86:.1f}" '
                f'height="{HEIGHT - BOTTOM - y:.1f}" fill="{colour}"><title>{escape(label)}, {escape(name)}: '
                f"{said(item)} {escape(unit)}</title></rect>"
            )
            middle = x + width * 0.43
            parts.append(_line(middle, scale.y(item.least), middle, scale.y(item.greatest), "#24292f"))
            parts.append(_text(middle, scale.y(item.greatest) - 4, short(item.median), anchor="middle"))
    return _picture(parts)


def lines(
    title: str, unit: str, series: Mapping[str, Mapping[int, float]], *, names: Sequence[str] = ()
) -> str:
    """A line for each series, over numbers of resources; both axes logarithmic. The `names` as for bars."""
    values = [value for points in series.values() for value in points.values()]
    counts = sorted({count for points in series.values() for count in points})
    if len(counts) < 2:
        return ""
    scale, colours = Scale(values), _colours(series, names)
    parts = [*_frame(title, unit, scale), *_legend(colours)]
    span = math.log(counts[-1] / counts[0])

    def x(count: int) -> float:
        return LEFT + 30 + (WIDTH - LEFT - RIGHT - 60) * math.log(count / counts[0]) / span

    parts += [_text(x(count), HEIGHT - 10, f"{count}", anchor="middle") for count in counts]
    for label, points in series.items():
        colour = colours[label]
        path = " ".join(f"{x(count):.1f},{scale.y(value):.1f}" for count, value in sorted(points.items()))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for count, value in points.items():
            parts.append(
                f'<circle cx="{x(count):.1f}" cy="{scale.y(value):.1f}" r="3.5" fill="{colour}">'
                f"<title>{escape(label)}, {count}: {short(value)} {escape(unit)}</title></circle>"
            )
    return _picture(parts)


class Scale:
    """A logarithmic axis over the positive of these values; what is 0 stands at its foot."""

    def __init__(self, values: Sequence[float]) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        self.low = math.floor(math.log10(min(positive)) * 2 - 0.5) / 2
        self.high = math.ceil(math.log10(max(positive)) * 2 + 0.2) / 2

    def y(self, value: float) -> float:
        if value <= 0:
            return float(HEIGHT - BOTTOM)
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part

    def marks(self) -> Iterator[float]:
        """Round numbers on the axis: 1, 2 and 5 of each decade."""
        for decade in range(math.floor(self.low), math.ceil(self.high) + 1):
            for digit in (1, 2, 5):
                if self.low <= math.log10(mark := digit * 10.0**decade) <= self.high:
                    yield mark


def short(value: float) -> str:
    """Three digits, or all of a whole number's."""
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def said(item: Summary) -> str:
    """A median with its range, where there is one."""
    if short(item.least) == short(item.greatest):
        return short(item.median)
    return f"{short(item.median)} ({short(item.least)} to {short(item.greatest)})"


def _series(groups: Iterable[Mapping[str, Summary]]) -> list[str]:
    return list(dict.fromkeys(label for group in groups for label in group))


def _ends(item: Summary) -> tuple[float, float, float]:
    return item.least, item.median, item.greatest


def _frame(title: str, unit: str, scale: Scale) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="14" font-weight="bold">{escape(title)}, {escape(unit)}</text>'
    for mark in scale.marks():
        yield _line(LEFT, scale.y(mark), WIDTH - RIGHT, scale.y(mark), "#d8dee4")
        yield _text(LEFT - 6, scale.y(mark) + 4, short(mark), anchor="end")
    yield _line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#57606a")


def _colours(series: Iterable[str], names: Sequence[str]) -> dict[str, str]:
    """Of each series, in their order."""
    places = {label: place for place, label in enumerate(dict.fromkeys([*names, *series]))}
    return {label: COLOURS[places[label] % len(COLOURS)] for label in series}


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = float(LEFT)
    for label, colour in colours.items():
        yield f'<rect x="{x:.0f}" y="22" width="10" height="10" fill="{colour}"/>'
        yield _text(x + 14, 31, label)
        x += 28 + 6.4 * len(label)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )

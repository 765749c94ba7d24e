"""Text for a screen of 100 columns: aligned, wrapped, and nothing in it that a terminal obeys. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100
GAP = "  "


def printable(text: object) -> str:
    """Without control characters: a name or a message may have been written by anybody."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def plain(text: object) -> str:
    """On one line, without control characters, with single spaces."""
    return " ".join(printable(text).split())


def columns(header: Sequence[str], rows: Sequence[Sequence[object]], *, indent: str = "") -> list[str]:
    """Aligned; the last column is shortened where the line would be wider than the screen."""
    texts = [[plain(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[place]) for row in texts) for place in range(len(header))]
    lines = []
    for row in texts:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        before = indent + "".join(f"{cell}{GAP}" for cell in cells)
        lines.append((before + shortened(row[-1], WIDTH - len(before))).rstrip())
    return lines


def shortened(text: str, width: int) -> str:
    width = max(width, 20)
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def wrapped(text: str, *, indent: str = "", first: str | None = None) -> list[str]:
    """Several lines of at most the screen's width; a word that is longer stays whole, to be copied."""
    return textwrap.wrap(
        plain(text),
        width=WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )

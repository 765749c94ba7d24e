"""A preview as a page of Markdown, for people who review a change and have never seen Pulumi.

Pure, and it begins with a comment that nobody sees, by which the one page of a stack can be found again
and edited in place. Written for GitHub: no more than a comment may hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from infra.cli.preview.events import SECRET, Change, Difference, Preview, Verb
from infra.cli.preview.impact import Effect, Impact, effect
from infra.cli.preview.live import Live, notes

# A comment holds 65,536 characters.
MOST = 60_000
MOST_VALUE = 120
MOST_MESSAGE = 400
# Of the changes of what runs: the page has Pulumi's beside them.
MOST_ROWS = 50
MOST_NAMED = 5
# The most new resources that are shown one by one; more are a list to unfold.
FEW = 10

_LIVE = "### What the new operator does to what runs"
_TO_DO = {
    Verb.DELETED: "to delete",
    Verb.REPLACED: "to replace",
    Verb.ROLLED: "to roll",
    Verb.UPDATED: "to update in place",
    Verb.CREATED: "to create",
}


def marker(stack: str) -> str:
    """The first line of the stack's page, whatever else it says."""
    return f"<!-- kindling-preview: {stack} -->"


def render(preview: Preview, *, stack: str, live: str = "") -> str:
    """The page of a preview that went through; `live` is a part of it."""
    counts = Counter(change.verb for change in preview.changes)
    title = ", ".join(f"{counts[verb]} {label}" for verb, label in _TO_DO.items() if counts[verb])
    parts = [marker(stack), f"## Preview of stack {_code(stack)}: {title or 'nothing changes'}"]
    if preview.changes:
        parts += _changes(preview)
    stays = (
        "1 resource stays as it is"
        if preview.unchanged == 1
        else (f"{preview.unchanged} resources stay as they are")
    )
    if preview.unchanged:
        parts.append(f"{stays}.")
    elif not preview.changes:
        parts.append("The stack has no resources.")
    else:
        parts.append("Nothing of the stack stays as it is." if _has_old(preview) else "The stack is new.")
    parts.append(live)
    if preview.errors:
        text = _fenced("\n\n".join(preview.errors).strip()[:MOST_MESSAGE])
        parts.append(f"Pulumi made this preview, and reported beside it:\n\n{text}")
    footer = (
        "<sub>The program compared with what the last `up` wrote down, not with the cluster itself. "
        f"Made by `python3 -m infra preview {stack} --markdown FILE`.</sub>"
    )
    details = _details(preview.changes)
    page = _joined([*parts, details, footer])
    if len(page) > MOST:
        left_out = "*What differs is too much for this page: `python3 -m infra preview` shows it.*"
        page = _joined([*parts, left_out, footer])
    return page if len(page) <= MOST else page[: MOST - 20] + "\n\n… cut short\n"


def live(found: Live) -> str:
    """What the operator would do to what runs, for `render`."""
    if found.found is None:
        text = _fenced(found.missing.strip()[:MOST_MESSAGE])
        return f"{_LIVE}\n\nWhat it would do is not known.\n\n{text}"
    changed = [each for each in found.found["resources"] if each["changes"]]
    listed = [(each, row) for each in changed for row in each["rows"]]
    rows = [_row(each, row) for each, row in listed[:MOST_ROWS]]
    summary = str(found.found["summary"])
    parts = [_LIVE, f"**{summary[:1].upper()}{summary[1:]}.**"]
    if rows:
        parts.append("\n".join(["| resource | object | effect |", "|---|---|---|", *rows]))
    if len(listed) > MOST_ROWS:
        parts.append(
            f"And {len(listed) - MOST_ROWS} more: `python3 -m infra preview STACK --live` shows them."
        )
    fields = [
        f"- {_plain(each['kind'])} {_code(each['name'])} {_code(row['object'])} {_code(item['path'])}: "
        f"{_code(item['old'])} → {_code(item['new'])}"
        for each, row in listed[:MOST_ROWS]
        for item in row["fields"]
    ]
    if fields:
        parts.append(_folded("The fields that cause it, before and after", "\n".join(fields[:MOST_ROWS])))
    return _joined([*parts, *(f"<sub>{note}</sub>" for note in notes(found))]).strip()


def skipped(sentence: str, *, stack: str) -> str:
    """The page of a stack that was not looked at, and why."""
    return f"{marker(stack)}\n## Preview of stack {_code(stack)}: not made\n\n{sentence}\n"


def failed(text: str, *, stack: str) -> str:
    """The page of a preview that could not be made, with the error's own message."""
    return _joined(
        [
            marker(stack),
            f"## Preview of stack {_code(stack)} failed",
            _fenced(text.strip()[: MOST - 1000]),
            "Nothing was changed, and an `up` of this would end in the same way.",
        ]
    )


def _changes(preview: Preview) -> list[str]:
    effects = [(change, effect(change)) for change in preview.changes]
    parts = [
        _warning("Data is lost", effects, Impact.DATA),
        _warning("Running Pods are touched", effects, Impact.PODS),
    ]
    if not any(parts):
        parts.append("No data and no running Pods are touched.")
    created = [change for change, _ in effects if change.verb is Verb.CREATED]
    folded = created if len(created) > FEW else []
    rows = [
        f"| {change.verb.value} | {_cell(change)} | {found.text} |"
        for change, found in effects
        if not (folded and change.verb is Verb.CREATED)
    ]
    if rows:
        parts.append("\n".join(["| | resource | data and running Pods |", "|---|---|---|", *rows]))
    if folded:
        names = "\n".join(f"- {_called(change)}" for change in folded)
        parts.append(_folded(f"The {len(folded)} that are created", names))
    return parts


def _row(resource: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    name = _code(f"{resource['namespace']}/{resource['name']}")
    cells = [
        f"{_plain(resource['kind'])} {name}",
        _code(row["object"]) if row["object"] else "",
        _code(row["effect"], most=MOST_MESSAGE),
    ]
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _warning(label: str, effects: Sequence[tuple[Change, Effect]], touches: Impact) -> str:
    names = [_called(change) for change, found in effects if found.touches is touches]
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"**{label}:** {', '.join(names[:MOST_NAMED])}{more}."


def _details(changes: Sequence[Change]) -> str:
    """Every value that differs, before and after."""
    parts = []
    for change in changes:
        if change.differences:
            lines = [f"- {_code(item.path)}: {_sides(item)}" for item in change.differences]
            parts.append("\n".join([f"{_called(change)}, {change.verb.value}:", "", *lines]))
    return _folded("What differs, before and after", "\n\n".join(parts)) if parts else ""


def _sides(item: Difference) -> str:
    hidden = item.before == item.after == SECRET
    sides = f"{_code(SECRET)}, another one" if hidden else f"{_code(item.before)} → {_code(item.after)}"
    return f"{sides}, which is why it is replaced" if item.forces else sides


def _folded(summary: str, text: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def _called(change: Change) -> str:
    return f"{_plain(change.kind)} {_code(change.name)}"


def _cell(change: Change) -> str:
    # In a table a bar ends the cell even within code.
    return _called(change).replace("|", "\\|")


def _has_old(preview: Preview) -> bool:
    return any(change.verb is not Verb.CREATED for change in preview.changes)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "", text)


def _code(text: str, *, most: int = MOST_VALUE) -> str:
    """As code on one line, whatever it contains."""
    line = " ".join(text.split())
    if len(line) > most:
        line = line[: most - 1] + "…"
    fence = "`" * (_longest_run(line) + 1)
    space = " " if not line or line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line}{space}{fence}"


def _fenced(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"

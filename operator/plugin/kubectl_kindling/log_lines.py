"""A log's line as people read it: PostgreSQL's messages in JSON become its own text format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_LINE = re.compile(r"(\[pod/[^\]]+\] )?(\{.*\})\s*", re.DOTALL)
# PostgreSQL's "jsonlog": what not every message has, each with its word in the text format.
_MORE = {"detail": "DETAIL", "hint": "HINT", "context": "CONTEXT", "statement": "STATEMENT"}
_NO_ERROR = "00000"


def readable(line: str) -> str:
    """The line, which may become several; as it is where it is no message of PostgreSQL's in JSON."""
    found = _LINE.fullmatch(line)
    if found is None:
        return line
    try:
        message = json.loads(found[2])
    except ValueError:
        return line
    if not isinstance(message, dict) or not {"timestamp", "error_severity", "message"} <= message.keys():
        return line
    prefix = found[1] or ""
    return "".join(f"{prefix}{each}\n" for each in _text(message))


def _text(message: dict[str, Any]) -> Iterator[str]:
    user, database = message.get("user"), message.get("dbname")
    who = f"{user or ''}@{database or ''} " if user or database else ""
    head = f"{message['timestamp']} [{message.get('pid', '')}] {who}"
    code = message.get("state_code", _NO_ERROR)
    severity = message["error_severity"] if code == _NO_ERROR else f"{message['error_severity']} {code}"
    yield from _lines(f"{head}{severity}:  {message['message']}")
    for name, word in _MORE.items():
        if name in message:
            yield from _lines(f"{head}{word}:  {message[name]}")


def _lines(text: str) -> Iterator[str]:
    """Continued as PostgreSQL does; what would move a terminal's cursor is shown as its code."""
    first, *more = text.split("\n")
    yield _printable(first)
    yield from (f"\t{_printable(line)}" for line in more)


def _printable(text: str) -> str:
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text
    )

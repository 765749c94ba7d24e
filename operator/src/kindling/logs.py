"""Logs, one line each, with the resource's key where there is one; no bodies, ever.

JSON for machines, text for a developer's terminal. Kopf's warnings go the same way.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

FORMATS = ("json", "text")
TRACE_FIELDS = ("trace_id", "span_id")


class JsonFormatter(logging.Formatter):
    """One JSON object: time, level, logger, message; where given `key`, `error` (a traceback), and of a
    reconciliation that is traced `trace_id` and `span_id`.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        if key := key_of(record):
            line["key"] = key
        for name in TRACE_FIELDS:
            if value := getattr(record, name, None):
                line[name] = value
        line["message"] = record.getMessage()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


class TextFormatter(logging.Formatter):
    """Time of day, level, key, message; a traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        parts = [time, f"{record.levelname:7}", key_of(record), record.getMessage()]
        text = " ".join(part for part in parts if part)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def key_of(record: logging.LogRecord) -> str:
    """The key that we gave, or that of the object which kopf speaks of; empty where there is none."""
    if key := getattr(record, "key", None):
        return str(key)
    ref = getattr(record, "k8s_ref", None) or {}
    if not ref.get("name"):
        return ""
    group = str(ref.get("apiVersion", "")).rpartition("/")[0]
    kind = f"{str(ref.get('kind', '')).lower()}.{group}" if group else str(ref.get("kind", "")).lower()
    return f"{kind}/{ref.get('namespace')}/{ref['name']}"


def set_up(level: int, *, format: str = "json") -> None:
    """Everything to stderr. Kopf's own lines from warnings on: below, it logs objects with their specs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if format == "text" else JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in ("kopf", "asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))

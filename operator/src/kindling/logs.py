"""Logs as one JSON object a line, with the resource's key where there is one; no bodies, ever."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson


class Lines(logging.Formatter):
    """time, level, logger, message; `key` and `error` (a traceback) where given."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        key = getattr(record, "key", None)
        if key:
            line["key"] = str(key)
        line["message"] = record.getMessage()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def set_up(level: int) -> None:
    """Everything to stderr. Kopf's own lines from warnings on: below, it logs objects with their specs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in ("kopf", "asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)

"""Who asked what of the API server, counted from its audit log by user, verb and resource. Pure.

Read in pieces as it grows: for some thousands of resources it holds hundreds of thousands of lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

READS = frozenset({"get", "list", "watch"})
# Counted apart from the writes for a resource: an Event reports a write, a Lease belongs to the process.
APART = frozenset({"events", "leases"})


class Asked(NamedTuple):
    """One kind of request; `resource` has its subresource, if any, and `ok` is whether it was granted."""

    user: str
    verb: str
    resource: str
    ok: bool

    @property
    def write(self) -> bool:
        """Whether it wrote, or would have; Events and Leases left out."""
        return self.verb not in READS and self.resource not in APART


Counts = Counter[Asked]


def policy(users: Sequence[str]) -> dict[str, Any]:
    """An audit policy that logs the requests of these users, each as it is answered."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": list(users)}, {"level": "None"}],
    }


def count(lines: Iterable[bytes]) -> Counts:
    """Each request once, a watch when it starts."""
    counts: Counts = Counter()
    for line in lines:
        event = json.loads(line)
        stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
        if event["stage"] != stage:
            continue
        about = event.get("objectRef") or {}
        below = about.get("subresource")
        counts[
            Asked(
                user=event["user"]["username"],
                verb=event["verb"],
                resource=about.get("resource", "") + (f"/{below}" if below else ""),
                ok=(event.get("responseStatus") or {}).get("code", 0) < 400,
            )
        ] += 1
    return counts


class Log:
    """The audit log as it grows; each call of `more` counts what came since the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        path.touch()

    def more(self) -> Counts:
        return count(self._lines())

    def _lines(self) -> Iterator[bytes]:
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # not written to its end yet
                self._offset += len(line)
                yield line

"""What a program really asked of the API server: its requests, read from the server's own audit log.

The server's count rather than the program's metrics, which are part of what is under test.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.apiserver.support.apiclient import Json

LONGEST_LINE = 100_000
READS = frozenset({"get", "list", "watch"})
# Counted apart from the writes for a resource: an Event reports a write, a Lease belongs to the process.
APART = frozenset({"events", "leases"})
CREDENTIAL = "authentication.kubernetes.io/credential-id"


def options(directory: Path, *, user: str, others: Sequence[str] = ()) -> list[str]:
    """Options of kube-apiserver that make it log a user's requests, each as it is answered, and others'."""
    directory.mkdir(parents=True, exist_ok=True)
    policy = directory / "audit-policy.json"
    policy.write_text(
        json.dumps(
            {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": [{"level": "Metadata", "users": [user, *others]}, {"level": "None"}],
            }
        )
    )
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",  # In MB; by default the log is rotated after 100.
    ]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One answered request; a watch counts when it starts. `resource` has its subresource, if any."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    forbidden: bool
    received: datetime
    selector: str
    """Of labels, by which it lists or watches; empty for all."""
    credential: str
    """Which token it came with: replicas of one account have one each."""
    user: str

    @property
    def write(self) -> bool:
        return self.verb not in READS and self.resource not in APART

    @property
    def status(self) -> bool:
        return self.resource.endswith("/status")


class Audit:
    """The log as it grows."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "audit.log"
        self._log.touch()

    def mark(self) -> int:
        """The end of the last complete line of the log."""
        with self._log.open("rb") as log:
            size = log.seek(0, io.SEEK_END)
            start = log.seek(max(0, size - LONGEST_LINE))
            return start + log.read().rfind(b"\n") + 1

    def text(self) -> str:
        return self._log.read_text()

    def requests(self, since: int) -> list[Request]:
        """All requests since a mark."""
        with self._log.open("rb") as log:
            log.seek(since)
            lines = log.read().split(b"\n")[:-1]  # What comes after the last line's end is not written yet.
        events = [json.loads(line) for line in lines]
        return [_request(event) for event in events if _counts(event)]

    def writes(self, since: int, *, namespace: str | None = None) -> list[Request]:
        """Those that write, Events and Leases left out."""
        return [
            request
            for request in self.requests(since)
            if request.write and namespace in (None, request.namespace)
        ]

    def wait_quiet(
        self,
        *,
        seconds: float = 1.0,
        timeout: float = 60.0,
        written: Callable[[int], list[Request]] | None = None,
    ) -> None:
        """Wait until nothing was written for so long; `written` returns the writes since a mark."""
        written = written or self.writes
        deadline = time.monotonic() + timeout
        mark = self.mark()
        since = time.monotonic()
        while time.monotonic() - since < seconds:
            assert time.monotonic() < deadline, f"still writing after {timeout:g} s: {written(mark)[-5:]}"
            time.sleep(0.05)
            now = self.mark()
            if now > mark and written(mark):
                since = time.monotonic()
            mark = now


def wait_until(true: Callable[[], bool], *, seconds: float, what: str | Callable[[], object]) -> float:
    """Wait for it and return how long it took, by a twentieth too many; AssertionError that says `what` if it
    did not come.

    What takes long is asked for less often: each question costs the processor that the answer waits for.
    """
    began = time.monotonic()
    while not true():
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(min(0.2, max(0.01, waited / 20)))
    return time.monotonic() - began


def _counts(event: Json) -> bool:
    """Once each, and not what a test's own client asks in the user's name: it gives no agent."""
    stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    return event["stage"] == stage and "userAgent" in event


def _request(event: Json) -> Request:
    about = event.get("objectRef") or {}
    below = about.get("subresource")
    extra = event["user"].get("extra") or {}
    return Request(
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource=about.get("resource", "") + (f"/{below}" if below else ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        forbidden=(event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid",
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        selector=parse_qs(urlsplit(event["requestURI"]).query).get("labelSelector", [""])[0],
        credential=(extra.get(CREDENTIAL) or [""])[0],
        user=str(event["user"].get("username", "")),
    )

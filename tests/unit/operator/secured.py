"""A Memcached with spec.tls or spec.auth for tests: its Secrets as written, its Pods, what they answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kindling.kinds import certificates
from kindling.kinds.base import CachedResult, Child, ExternalResult, Observed, StatusReport, SyncResult
from kindling.kinds.memcached import auth
from kindling.kinds.server_tls import ACTIVE, ANNOTATION
from kindling.kube.resources import POD, SECRET, Object, Ref

from tests.unit.operator.memcacheds import KIND, NOW, memcached, observed, running

ON: Object = {"enabled": True}
ENDS = "2026-04-01T00:00:00Z"


class Cache:
    """The resource `cache` and what there is of it; `step` writes the Secrets once, as the engine would."""

    def __init__(self, ips: Sequence[str] = ("10.0.0.1", "10.0.0.2"), **spec: Any) -> None:
        self.cr = memcached(size=len(ips), **spec)
        self.objects: dict[Ref, Object] = running(ips)
        self.results: dict[str, CachedResult] = {}
        self.now = NOW
        self._steps = 0
        for ref, body in self.objects.items():
            if ref.type == POD:
                notes = body["metadata"]["annotations"]
                notes |= {ANNOTATION: ACTIVE} if (spec.get("tls") or {}).get("enabled") else {}
                notes |= {auth.ANNOTATION: auth.ACTIVE} if (spec.get("auth") or {}).get("enabled") else {}

    @property
    def world(self) -> Observed:
        entropy = bytes([self._steps % 256]) * 32
        return replace(observed(self.objects, self.results), now=self.now, entropy=entropy)

    def desired(self) -> list[Child]:
        return KIND.desired(self.cr, self.world)

    def step(self) -> list[Child]:
        """The Secrets that this wrote, because they were not so."""
        written = []
        for child in self.desired():
            before = self.objects.get(child.ref)
            if child.type != SECRET or (child.create_only and before is not None and not child.restore_data):
                continue
            notes = [each["metadata"].get("annotations") for each in (before or child.body, child.body)]
            if before is None or before.get("data") != child.body.get("data") or notes[0] != notes[1]:
                owned = {**child.body["metadata"], "uid": child.ref.name}
                self.objects[child.ref] = {**child.body, "metadata": owned}
                written.append(child)
        self._steps += 1
        return written

    def settle(self) -> None:
        while self.step():
            assert self._steps < 50, "it writes without an end"

    def secret(self, suffix: str) -> dict[str, str]:
        data = self.objects[Ref(SECRET, "ns", f"cache-{suffix}")]["data"]
        return {name: base64.b64decode(value).decode() for name, value in data.items()}

    def put(self, name: str, **values: str) -> None:
        """A Secret of the user's own."""
        data = {
            key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in values.items()
        }
        self.objects[Ref(SECRET, "ns", name)] = {"metadata": {"name": name}, "data": data}

    def say(self, *answers: ExternalResult | None) -> None:
        """What the prober answers of each Pod, to what is asked now; None: nothing yet."""
        asked = KIND.probes(self.cr, self.world)
        names = sorted(name for name in asked if name.startswith("access/"))
        assert len(names) == len(answers), names
        self.results = {
            name: CachedResult(cache_key=asked[name].cache_key, result=answer, at=self.now)
            for name, answer in zip(names, answers, strict=True)
            if answer is not None
        }

    def report(self) -> StatusReport:
        return KIND.status(self.cr, self.world, SyncResult(in_sync=True))

    def ready(self) -> tuple[str, str, str]:
        (found,) = (each for each in self.report().status["conditions"] if each["type"] == "Ready")
        return found["status"], found["reason"], found["message"]


def answered(
    *,
    login: bool | None = None,
    fingerprint: str = "",
    ends: str = ENDS,
    facts: Mapping[str, Any] | None = None,
) -> ExternalResult:
    made: dict[str, Any] = dict(facts or {})
    if login is not None:
        made["login"] = login
    if fingerprint:
        made["certificate"] = {"fingerprint": fingerprint, "not_after": ends, "issuer": "CN=cache-server-ca"}
    return ExternalResult(ok=True, facts=made)


def mark(values: Mapping[str, str]) -> str:
    """The fingerprint of a Secret's certificate."""
    found = certificates.read(values["tls.crt"])
    assert found is not None
    return found.fingerprint


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)

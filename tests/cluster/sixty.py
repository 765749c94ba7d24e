"""Sixty resources of all kinds with small requests: what a dev cluster is to hold at once, and for how long.

Apart from its test, which says what must be so: here is what they are, and how their coming up is timed.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.stack import Environment

OF_EACH = 15
SMALL = {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}}
BROKER = "pulsar://pulsar.pulsar.svc:6650"
KINDS = {
    "postgresqls.database.db.example.com": ("database.db.example.com/v1", "Postgresql"),
    "postgresqls.database.technotuesday.io": ("database.technotuesday.io/v1", "Postgresql"),
    "memcacheds.cache.example.com": ("cache.example.com/v1alpha1", "Memcached"),
    "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com": (
        "pulsar.pulsarconsumer.krvarma.com/v1",
        "PulsarConsumer",
    ),
    "mycustomresources.poc.test.domain": ("poc.test.domain/v1", "MyCustomResource"),
}


@dataclass(frozen=True, kw_only=True)
class Rise:
    """How the crowd came up; seconds from the first statement. `busy` and `waiting`: shares of the
    machine's processor time, all of them together, that were used and that waited for its disks.
    """

    ready: dict[str, float]
    """Of each kind, until the last one was Ready."""
    busy: float
    waiting: float

    @property
    def seconds(self) -> float:
        return max(self.ready.values())


def manifests(namespace: str) -> list[dict[str, Any]]:
    """Fifteen of each kind, of Postgresql's two groups together; each MyCustomResource has a friend here."""
    return list(_each(namespace))


def _each(namespace: str) -> Iterator[dict[str, Any]]:
    one, other, cache, consumer, custom = KINDS
    for number in range(OF_EACH):
        database = one if number % 2 else other
        small = {"resources": SMALL, "storage": {"size": "256Mi"}}
        yield _object(database, namespace, f"db-{number}", {"password": "lovelace-1815", **small})
        yield _object(cache, namespace, f"cache-{number}", {"size": 1, "memoryMB": 16, "resources": SMALL})
        subscription = {"topic": f"crowd-{number}", "subscriptionName": "crowd", "replicas": 1}
        yield _object(
            consumer,
            namespace,
            f"consumer-{number}",
            {"serverAddress": BROKER, **subscription, "resources": SMALL},
        )
        yield _object(custom, namespace, f"custom-{number}", {"name": f"db-{number}-0"})


def _object(plural: str, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    api_version, kind = KINDS[plural]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def rise(environment: Environment, namespace: str, *, seconds: float) -> Rise:
    """Wait until all are Ready, AssertionError when they are not in time; and say when which were."""
    began, before = time.monotonic(), _processors()
    ready: dict[str, float] = {}
    while True:
        missing = unready(environment, namespace)
        now = time.monotonic() - began
        for kind in KINDS:
            if kind not in missing:
                ready.setdefault(kind, now)
            else:
                ready.pop(kind, None)
        if not missing:
            break
        assert now < seconds, f"not Ready after {seconds:g} s: {missing}"
        time.sleep(0.5)
    used = [after - earlier for after, earlier in zip(_processors(), before, strict=True)]
    idle, waiting = used[3], used[4]
    return Rise(ready=ready, busy=1 - (idle + waiting) / sum(used), waiting=waiting / sum(used))


def unready(environment: Environment, namespace: str) -> dict[str, dict[str, int]]:
    """Of each kind of which not all are Ready for their generation: how many say which reason."""
    said = {kind: Counter[str]() for kind in KINDS}
    for item in environment.get(",".join(KINDS), "-n", namespace)["items"]:
        kind = next(plural for plural, pair in KINDS.items() if pair == (item["apiVersion"], item["kind"]))
        status = item.get("status") or {}
        conditions = {one["type"]: one for one in status.get("conditions", [])}
        current = status.get("observedGeneration") == item["metadata"]["generation"]
        condition = conditions.get("Ready", {"status": "Unknown", "reason": "NoStatus"})
        said[kind]["Ready" if current and condition["status"] == "True" else condition["reason"]] += 1
    return {kind: dict(count) for kind, count in said.items() if set(count) != {"Ready"}}


def _processors() -> list[int]:
    """/proc/stat's first line: user, nice, system, idle, iowait and more, in ticks."""
    return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def record(file: Path, **figures: object) -> None:
    """Write them down beside the machine they are of."""
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 2**20
    machine = {"processors": os.cpu_count(), "memory_gib": memory}
    file.write_text(json.dumps({"machine": machine, **figures}, indent=2) + "\n")

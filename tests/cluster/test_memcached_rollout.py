"""spec.rollout of a Memcached under load: what real clients find while all servers are replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster import client_pod
from tests.cluster.secured_caches import PYTHON, RESOURCE
from tests.cluster.stack import ROOT, Environment, within
from tests.cluster.test_claims import hold
from tests.cluster.test_memcached import image_of
from tests.cluster.test_memcached_discovery import java
from tests.cluster.test_memcached_workloads import named, names
from tests.cluster.watching import watching

ITEMS, READS = 3000, 300
"""Of each client, and in a second."""
SIZE, BOUND = 3, 60
WINDOW = 5
"""Seconds over which a ratio is taken."""
ROLLOUT_SECONDS = 600
PROGRAMS = ROOT / "tests" / "cluster"


def patch(environment: Environment, name: str, **spec: Any) -> None:
    environment.kubectl(
        "patch", f"{RESOURCE}/{name}", "--type=merge", f"--patch={json.dumps({'spec': spec})}"
    )


@contextmanager
def python(environment: Environment, name: str, *, size: int = SIZE, items: int = ITEMS) -> Iterator[str]:
    """pymemcache in a Pod, which reads through the Memcached of this name."""
    container = {
        "image": image_of(environment),
        "command": [PYTHON, "-c", (PROGRAMS / "cache_reader.py").read_text()],
        "args": [str(items), str(READS), *names(name, size)],
        "env": [{"name": "PYTHONPATH", "value": "/client/pymemcache.zip"}],
        "volumeMounts": [{"name": "client", "mountPath": "/client"}],
    }
    with client_pod.running(environment, "python", container, spec=client_pod.mounted(name)) as pod:
        yield pod


def counted(environment: Environment, pod: str) -> list[dict[str, float]]:
    """Its seconds, the oldest first."""
    lines = environment.kubectl("logs", pod).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def ratios(seconds: list[dict[str, float]]) -> list[float]:
    """Of each WINDOW of them, in per cent."""
    found = []
    for first in range(len(seconds) - WINDOW + 1):
        window = seconds[first : first + WINDOW]
        found.append(100 * sum(one["hits"] for one in window) / max(1, sum(one["reads"] for one in window)))
    return found


def replaced(environment: Environment, name: str, pods: list[str], **spec: Any) -> dict[str, float]:
    """Change the template, wait until all servers are of it, and return the lowest ratio of each client."""
    patch(environment, name, **spec)
    within(30, lambda: not _is_ready(environment, name))
    took = within(ROLLOUT_SECONDS, lambda: _is_ready(environment, name))
    seconds = {pod: counted(environment, pod)[-int(took) - 2 :] for pod in pods}
    lowest = {pod: min(ratios(each)) for pod, each in seconds.items()}
    reads = {pod: sum(one["reads"] for one in each) for pod, each in seconds.items()}
    print(f"all replaced after {took:.0f} s; the lowest of {WINDOW} s in per cent {lowest}, reads {reads}")
    return lowest


def _is_ready(environment: Environment, name: str) -> bool:
    resource = environment.get(f"{RESOURCE}/{name}")
    conditions = {item["type"]: item for item in resource["status"]["conditions"]}
    current = resource["status"]["observedGeneration"] == resource["metadata"]["generation"]
    return bool(current and conditions["Ready"]["status"] == "True")


def warm(environment: Environment, pod: str) -> None:
    within(120, lambda: (ratios(counted(environment, pod)) or [0])[-1] > 99)


@pytest.mark.thorough
def test_two_clients_find_as_much_as_the_resource_states_and_not_without_it(environment: Environment) -> None:
    """By pymemcache and by AWS's client for Java, which keep each key at its server."""
    with (
        named(environment, SIZE, rollout={"minHitRatioPercent": BOUND}) as name,
        python(environment, name) as first,
        java(
            environment,
            PROGRAMS / "cache_reader.bsh",
            str(ITEMS),
            str(READS),
            *names(name, SIZE),
        ) as second,
    ):
        pods = [first, second]
        for pod in pods:
            warm(environment, pod)
        kept = replaced(environment, name, pods, threads=2)
        hold(environment, RESOURCE, name)
        assert min(kept.values()) >= BOUND, kept
        for pod in pods:
            warm(environment, pod)
        patch(environment, name, rollout=None)
        lost = replaced(environment, name, pods, threads=3)
        assert max(lost.values()) < BOUND, lost


def test_the_next_server_waits_and_the_resource_says_for_what(environment: Environment) -> None:
    bound = 40
    with (
        named(environment, 2, rollout={"minHitRatioPercent": bound}) as name,
        python(environment, name, size=2, items=1500) as pod,
    ):
        warm(environment, pod)
        hold(environment, RESOURCE, name)
        line = "--output=jsonpath={.status.conditions[?(@.type=='Ready')]}{'\\n'}"
        with watching(environment, f"{RESOURCE}/{name}", line) as seen:
            lowest = replaced(environment, name, [pod], threads=2)
        assert min(lowest.values()) >= bound, lowest
        said = [json.loads(line) for _, line in seen]
        held = [one["message"] for one in said if one["reason"] == "HitRatioTooLow"]
        assert any(message.startswith(f"Pod {name}-0 is next. Without it about ") for message in held), said
        hold(environment, RESOURCE, name)

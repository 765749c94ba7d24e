"""What happened to a Pod that goes on all the same: no condition says so once it is ready again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kindling.kinds import crash_loop, pods, reasons
from kindling.kinds.base import Notice
from kindling.kinds.times import moment, seconds_since
from kindling.kube.resources import Object

NEWS_SECONDS = 3600.0
"""What is longer ago is no news: an API server keeps Events for an hour."""


def terminated(found: Iterable[Object], *, now: datetime) -> list[Notice]:
    """For each container of these Pods that failed and was started again: when, and why.

    Not for one that keeps failing, which a condition says.
    """
    return [
        _notice(pod, item, ended)
        for pod in found
        for item in pods.containers(pod)
        if (ended := _last_failure(item, now=now)) is not None
    ]


def is_news(at: object, *, now: datetime) -> bool:
    """Whether this, a time in RFC 3339, is of the last hour."""
    return moment(at) is not None and seconds_since(at, now=now) < NEWS_SECONDS


def _last_failure(container: Object, *, now: datetime) -> Object | None:
    ended: Object = (container.get("lastState") or {}).get("terminated") or {}
    if not ended.get("exitCode") or not is_news(ended.get("finishedAt"), now=now):
        return None
    return ended if crash_loop.last_end(container, now=now) is None else None


def _notice(pod: Object, container: Object, ended: Object) -> Notice:
    name, where = pod["metadata"]["name"], f"-n {pod['metadata']['namespace']}"
    one, at = container.get("name"), ended["finishedAt"]
    said = f"Container {one} of Pod {name} failed at {at} and was started again"
    if ended.get("reason") == crash_loop.OOM_KILLED:
        note = f"{said}: {crash_loop.used_too_much(container)}. {crash_loop.MORE_MEMORY}"
    else:
        logs = f"`kubectl logs {name} -c {one} --previous {where}`"
        note = f"{said}, with exit code {ended['exitCode']}: see {logs}."
    return Notice(reasons.CONTAINER_TERMINATED, note)

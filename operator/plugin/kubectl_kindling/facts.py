"""What the objects that kubectl printed say: conditions, children, Events, backups. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_kindling.kubectl import Object

SKIPPED = frozenset(
    {"conditions", "observedGeneration", "selector", "attempts", "database", "plan", "rotation"}
)
"""Fields of a status that are shown elsewhere, or are the operator's own notes."""
LISTED = frozenset({"roles", "databases", "runs", "approvals"})
"""Lists of the status that the screen has a table for."""
MOST_ITEMS = 8
MOST_EVENTS = 10


@dataclass(frozen=True)
class Ready:
    """The condition Ready as it counts: `status` is Unknown while it speaks of an older generation."""

    status: str
    reason: str
    message: str
    since: str

    @property
    def yes(self) -> bool:
        return self.status == "True"


@dataclass(frozen=True)
class Child:
    """A child in one row; `fault` says that its state is not what it should be."""

    kind: str
    name: str
    state: str
    fault: bool
    created: str
    uid: str


def meta(found: Object) -> Mapping[str, Any]:
    return found.get("metadata") or {}


def status_of(found: Object) -> Mapping[str, Any]:
    return found.get("status") or {}


def name_of(found: Object) -> str:
    return str(meta(found).get("name", ""))


def namespace_of(found: Object) -> str:
    return str(meta(found).get("namespace", ""))


def generations(found: Object) -> tuple[int, int]:
    """The generation that the status is of, -1 where there is none, and that of the spec."""
    return int(status_of(found).get("observedGeneration", -1)), int(meta(found).get("generation", 0))


def ready(found: Object) -> Ready:
    observed, generation = generations(found)
    item = next((each for each in conditions(found) if each.get("type") == "Ready"), {})
    if observed != generation:
        seen = f"generation {observed}" if observed >= 0 else "none of it"
        message = f"The spec is of generation {generation}; the operator has observed {seen}."
        return Ready("Unknown", "NotObserved", message, "")
    return Ready(
        str(item.get("status", "Unknown")),
        str(item.get("reason", "")),
        str(item.get("message", "")),
        str(item.get("lastTransitionTime", "")),
    )


def conditions(found: Object) -> list[Mapping[str, Any]]:
    return list(status_of(found).get("conditions") or ())


def phase(found: Object) -> str:
    """`pgPhase` of a database, `phase` of a Restore; empty where the kind has neither."""
    status = status_of(found)
    return str(status.get("pgPhase") or status.get("phase") or "")


def details(found: Object) -> list[tuple[str, str]]:
    """The fields of the status that are no condition and no table, each in one line."""
    lines = []
    for name, value in status_of(found).items():
        if name in SKIPPED or name in LISTED or name in ("pgPhase", "phase"):
            continue
        if text := _inline(value):
            lines.append((name, text))
    return lines


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, dict):
        parts = [f"{key} {_inline(inner)}" for key, inner in value.items() if _inline(inner)]
        return ", ".join(parts[:MOST_ITEMS])
    if isinstance(value, list):
        texts = [text for text in map(_inline, value[:MOST_ITEMS]) if text]
        more = f" and {len(value) - MOST_ITEMS} more" if len(value) > MOST_ITEMS else ""
        return ", ".join(texts) + more
    return ""


def child(found: Object) -> Child:
    state, fault = _state(found)
    if meta(found).get("deletionTimestamp"):
        state, fault = "Terminating", True
    return Child(
        str(found.get("kind", "")),
        name_of(found),
        state,
        fault,
        str(meta(found).get("creationTimestamp", "")),
        str(meta(found).get("uid", "")),
    )


def children(found: Sequence[Object]) -> list[Child]:
    """One row for each object, those with a fault first, Pods last of the others: they are many."""
    rows = {str(meta(each).get("uid")): child(each) for each in found}
    return sorted(rows.values(), key=lambda row: (not row.fault, row.kind == "Pod", row.kind, row.name))


def _state(found: Object) -> tuple[str, bool]:
    kind, spec, status = str(found.get("kind")), found.get("spec") or {}, status_of(found)
    if kind in ("StatefulSet", "Deployment"):
        wanted, have = int(spec.get("replicas", 1)), int(status.get("readyReplicas", 0))
        text = f"{have} of {wanted} ready"
        if int(status.get("updatedReplicas", wanted)) < wanted:
            text += ", a change is being rolled out"
        return text, have != wanted
    if kind == "Pod":
        return _pod_state(status)
    if kind == "PersistentVolumeClaim":
        size = (status.get("capacity") or {}).get("storage") or _requested(spec)
        return f"{status.get('phase', 'Pending')} {size}".strip(), status.get("phase") != "Bound"
    if kind == "Service":
        ports = ", ".join(str(port.get("port")) for port in spec.get("ports") or ())
        return f"{spec.get('type', 'ClusterIP')} port {ports}", False
    if kind == "Job":
        return _job_state(status)
    if kind == "CronJob":
        last = status.get("lastScheduleTime")
        text = f"schedule {spec.get('schedule')}" + (", suspended" if spec.get("suspend") else "")
        return f"{text}, last {last}" if last else text, False
    if kind == "PodDisruptionBudget":
        return f"{status.get('disruptionsAllowed', 0)} may be disrupted now", False
    return "", False


def _requested(spec: Mapping[str, Any]) -> str:
    return str(((spec.get("resources") or {}).get("requests") or {}).get("storage", ""))


def _pod_state(status: Mapping[str, Any]) -> tuple[str, bool]:
    phase = str(status.get("phase", "Pending"))
    if phase == "Succeeded":
        return phase, False
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    restarts = sum(int(each.get("restartCount", 0)) for each in containers)
    again = f", {restarts} restarts" if restarts else ""
    for each in containers:
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in ("PodInitializing", "ContainerCreating"):
            return f"{phase}: {each.get('name')} {waiting['reason']}{again}", True
    for item in status.get("conditions") or ():
        if item.get("type") == "PodScheduled" and item.get("status") == "False":
            return f"{phase}: {item.get('reason', 'not scheduled')}", True
    is_ready = any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in status.get("conditions") or ()
    )
    return f"{phase}, {'ready' if is_ready else 'not ready'}{again}", not is_ready


def _job_state(status: Mapping[str, Any]) -> tuple[str, bool]:
    for item in status.get("conditions") or ():
        if item.get("status") == "True" and item.get("type") in ("Complete", "Failed"):
            return f"{item['type']} {item.get('reason') or ''}".strip(), item["type"] == "Failed"
    return "Running", False


def event_time(event: Object) -> str:
    """When it was observed last: the API server fills in one of these."""
    series = event.get("series") or {}
    for value in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        meta(event).get("creationTimestamp"),
    ):
        if value:
            return str(value)
    return ""


def events(found: Sequence[Object], *, most: int = MOST_EVENTS) -> list[Object]:
    """The newest of them, the newest last; each once."""
    once = {str(meta(each).get("uid")): each for each in found}
    return sorted(once.values(), key=lambda each: (time(event_time(each)), name_of(each)))[-most:]


def backups_of(database: Object, backups: Sequence[Object]) -> list[Object]:
    """The Backups that back this Postgresql up."""
    group = str(database.get("apiVersion", "")).partition("/")[0]
    found = []
    for each in backups:
        named = (each.get("spec") or {}).get("databaseRef") or {}
        if named.get("name") == name_of(database) and (named.get("group") or _group(each)) == group:
            found.append(each)
    return found


def _group(found: Object) -> str:
    return str(found.get("apiVersion", "")).partition("/")[0]


def runs(backup: Object, action: str) -> list[Mapping[str, Any]]:
    """Those of one action, the newest first, as the status has them."""
    return [run for run in status_of(backup).get("runs") or () if run.get("action") == action]


def time(text: str) -> datetime:
    """A time of Kubernetes; the beginning of time for what is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def age(text: str, now: datetime) -> str:
    """How long ago that was, as kubectl prints it; empty for what is no time. A time to come has `in`."""
    when = time(text)
    if when.year == 1:
        return ""
    seconds = int((now - when).total_seconds())
    if seconds < -1:
        return f"in {duration(-seconds)}"
    return duration(max(0, seconds))


def duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 7200:
        return f"{seconds // 60}m"
    if seconds < 172800:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"

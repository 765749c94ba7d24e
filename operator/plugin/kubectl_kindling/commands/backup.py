"""`backup` and `drill`: a run of a Backup now, as `kubectl create job --from=cronjob/NAME` starts it.

The operator counts a Job of the Backup's CronJob as a run of it, whoever made the Job.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from kubectl_kindling import facts, failures, kinds, resources, table
from kubectl_kindling.arguments import Command
from kubectl_kindling.errors import FAILED, FINE, PluginError
from kubectl_kindling.kubectl import REQUEST_SECONDS, Kubectl, Object

LONGEST_NAME = 63


class Sort(NamedTuple):
    """A sort of run: its CronJob's name after the Backup's, and what is said of it."""

    word: str
    suffix: str
    field: str
    actions: tuple[str, ...]
    why_one: str
    remedy: str


BACKUP = Sort(
    word="manual",
    suffix="",
    field="spec.schedule",
    actions=("backup", "prepare"),
    why_one="a second one would fail: one run at a time works on a database",
    remedy="create another Backup for another one",
)
VERIFY = Sort(
    word="drill",
    suffix="-verify",
    field="spec.verify.schedule",
    actions=("verify",),
    why_one="its result is known soon, and a second one would show the same",
    remedy="create a Restore with another name to try one",
)


def run(command: Command, kubectl: Kubectl) -> int:
    """Raises `PluginError` for a Backup without a schedule, and while a run is under way."""
    return _start(command, kubectl, BACKUP)


def drill(command: Command, kubectl: Kubectl) -> int:
    """A restore that is tried. Raises `PluginError` where none is tried on schedule, or one is under way."""
    return _start(command, kubectl, VERIFY)


def _start(command: Command, kubectl: Kubectl, what: Sort) -> int:
    type, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), "Backup", command.target)
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    _require(resource, what)
    job = job_name(name, datetime.now(UTC), word=what.word)
    words = (
        "create", "job", job, f"--from=cronjob/{name}{what.suffix}", f"--namespace={namespace}",
        f"--request-timeout={REQUEST_SECONDS}s",
    )  # fmt: skip
    made = kubectl.ask(*words)
    if made.status != 0 and failures.is_not_found(made.stderr):
        raise PluginError(
            f"Backup {name} has no CronJob yet",
            why=facts.ready(resource).message,
            remedy=f"`kubectl kindling status {type.full}/{name} --namespace={namespace}` shows when it "
            "does.",
            status=FAILED,
        )
    if made.status != 0:
        raise failures.error_of(words, made.status, made.stderr)
    text = (
        f"Job {job} in namespace {namespace} is the run. "
        f"`kubectl kindling status {type.full}/{name} --namespace={namespace}` shows it."
    )
    print("\n".join(table.wrapped(text, indent="  ", first="")))
    return FINE


def _require(resource: Object, what: Sort) -> None:
    name, spec = facts.name_of(resource), resource.get("spec") or {}
    has = (spec.get("verify") or {}).get("schedule") if what is VERIFY else spec.get("schedule")
    if not has:
        raise PluginError(
            f"Backup {name} has no {what.field}",
            why="it is made once, and there is no CronJob whose run could be started now",
            remedy=f"{what.remedy}, or set {what.field}.",
            status=FAILED,
        )
    running = [run for run in facts.status_of(resource).get("runs") or () if run.get("phase") == "Running"]
    busy = next((run for run in running if run.get("action") in what.actions), None)
    if busy is not None:
        raise PluginError(
            f"run {busy.get('name')} of Backup {name} is under way",
            why=what.why_one,
            remedy=f"wait for it; `kubectl kindling status backup/{name}` shows it.",
            status=FAILED,
        )


def job_name(backup: str, now: datetime, *, word: str = "manual") -> str:
    """Of a run of this Backup."""
    return dated(backup, now, word=f"{word}-", longest=LONGEST_NAME)


def dated(name: str, now: datetime, *, word: str = "", longest: int) -> str:
    """A name that begins so and that no other has, a second apart."""
    tail = now.strftime(f"-{word}%y%m%d%H%M%S")
    return name[: longest - len(tail)].rstrip("-.") + tail

"""`backup`: a run of a Backup now, as `kubectl create job --from=cronjob/NAME` starts it.

The operator counts a Job of the Backup's CronJob as a run of it, whoever made the Job.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kubectl_kindling import facts, failures, kinds, resources, table
from kubectl_kindling.arguments import Command
from kubectl_kindling.errors import FAILED, FINE, PluginError
from kubectl_kindling.kubectl import REQUEST_SECONDS, Kubectl, Object

LONGEST_NAME = 63


def run(command: Command, kubectl: Kubectl) -> int:
    """Raises `PluginError` for a Backup without a schedule, and while a run is under way."""
    type, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), "Backup", command.target)
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    _require(resource)
    job = job_name(name, datetime.now(UTC))
    words = (
        "create", "job", job, f"--from=cronjob/{name}", f"--namespace={namespace}",
        f"--request-timeout={REQUEST_SECONDS}s",
    )  # fmt: skip
    made = kubectl.ask(*words)
    if made.status != 0 and failures.is_not_found(made.stderr):
        raise PluginError(
            f"Backup {name} has no CronJob yet",
            why=facts.ready(resource).message,
            remedy=f"`kubectl kindling status {type.full}/{name}` shows when it does.",
            status=FAILED,
        )
    if made.status != 0:
        raise failures.error_of(words, made.status, made.stderr)
    text = (
        f"Job {job} in namespace {namespace} is the run. "
        f"`kubectl kindling status {type.full}/{name}` shows it."
    )
    print("\n".join(table.wrapped(text, indent="  ", first="")))
    return FINE


def _require(resource: Object) -> None:
    name, spec = facts.name_of(resource), resource.get("spec") or {}
    if not spec.get("schedule"):
        raise PluginError(
            f"Backup {name} has no schedule",
            why="it is made once, and there is no CronJob whose run could be started now",
            remedy="create another Backup for another one, or set spec.schedule.",
            status=FAILED,
        )
    running = [run for run in facts.status_of(resource).get("runs") or () if run.get("phase") == "Running"]
    busy = next((run for run in running if run.get("action") in ("backup", "prepare")), None)
    if busy is not None:
        raise PluginError(
            f"run {busy.get('name')} of Backup {name} is under way",
            why="a second one would fail: one run at a time works on a database",
            remedy=f"wait for it; `kubectl kindling status backup/{name}` shows it.",
            status=FAILED,
        )


def job_name(backup: str, now: datetime) -> str:
    """A name that no other run has, a second apart."""
    tail = now.strftime("-manual-%y%m%d%H%M%S")
    return backup[: LONGEST_NAME - len(tail)].rstrip("-.") + tail

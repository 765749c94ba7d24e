"""The facts that the observed Pod and StatefulSet show, for `login` and `status` alike."""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.pods import pod_condition, pod_ready, revision
from kindling.kinds.postgresql.hibernation import is_to_stop
from kindling.kinds.postgresql.spec import pod_name
from kindling.kinds.progress import PodProgress
from kindling.kinds.times import seconds_since
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

START_SECONDS = 30.0
"""How long PostgreSQL may start before we say what takes it so long: longer than any start of its own."""


def find_pod(cr: Object, observed: Observed) -> Object | None:
    """The Pod NAME-0, if it is there and not being deleted."""
    pod = observed.objects.get(Ref(POD, cr["metadata"]["namespace"], pod_name(cr)))
    return pod if pod is not None and "deletionTimestamp" not in pod["metadata"] else None


def pod_progress(cr: Object, observed: Observed) -> PodProgress:
    meta = cr["metadata"]
    workload = Ref(STATEFUL_SET, meta["namespace"], meta["name"])
    pod = observed.objects.get(Ref(POD, meta["namespace"], pod_name(cr)))
    ending = pod is not None and "deletionTimestamp" in pod["metadata"]
    return PodProgress(
        workload=workload,
        observed_by_controller=_has_seen(find_workload(cr, observed)),
        wanted=0 if is_to_stop(cr, observed) else 1,
        pods=[pod] if pod is not None and not ending else [],
        ending=[pod] if pod is not None and ending else [],
    )


def is_stopped(cr: Object, observed: Observed) -> bool:
    """Whether the server is to be stopped, and its Pod is gone."""
    meta = cr["metadata"]
    pod = Ref(POD, meta["namespace"], pod_name(cr))
    stopped = is_to_stop(cr, observed) and pod not in observed.objects
    return stopped and _has_seen(find_workload(cr, observed))


def starting_since(pod: Object) -> str | None:
    """Since when PostgreSQL has run without letting anybody in; None where it does not, or has before."""
    ready = pod_condition(pod, "Ready")
    for item in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (item.get("state") or {}).get("running")
        if item.get("name") == "postgres" and running and not pod_ready(pod):
            since = str(running.get("startedAt"))
            # Ready no more since before that start, or never: both are of one clock, the kubelet's.
            return since if ready.get("lastTransitionTime", "") <= since else None
    return None


def recovering(pod: Object, observed: Observed) -> Problem | None:
    """PostgreSQL takes up to a second to start, unless it has a log to replay."""
    since = starting_since(pod)
    if since is None or seconds_since(since, now=observed.now) < START_SECONDS:
        return None
    name, where = pod["metadata"]["name"], f"-n {pod['metadata']['namespace']}"
    return Problem(
        reason=reasons.RECOVERING,
        message=f"PostgreSQL has been starting since {since}, as it does while it replays its log after a "
        f"crash: wait, and see `kubectl logs {name} -c postgres {where}`, which says how far it is.",
    )


def find_workload(cr: Object, observed: Observed) -> Object | None:
    """The StatefulSet NAME, if it is there."""
    meta = cr["metadata"]
    return observed.objects.get(Ref(STATEFUL_SET, meta["namespace"], meta["name"]))


def current_pod(cr: Object, observed: Observed) -> Object | None:
    """The Pod, if it is the one that the StatefulSet as it stands is to have.

    That is one of its present revision, or any while it is held back.
    """
    pod, workload = find_pod(cr, observed), find_workload(cr, observed)
    if pod is None or workload is None:
        return None
    return pod if is_held(workload) or is_updated(workload, pod) else None


def is_held(workload: Object) -> bool:
    """Whether the StatefulSet leaves its Pod as it is when its template changes (`updates`)."""
    strategy = _strategy(workload)
    return is_on_delete(workload) or bool((strategy.get("rollingUpdate") or {}).get("partition"))


def is_on_delete(workload: Object) -> bool:
    """Whether the next Pod is of its present template, though the present one stays."""
    return bool(_strategy(workload).get("type") == "OnDelete")


def _strategy(workload: Object) -> Object:
    found: Object = (workload.get("spec") or {}).get("updateStrategy") or {}
    return found


def is_updated(workload: Object, pod: Object | None) -> bool:
    """Whether the Pod is known to be of the StatefulSet's present template."""
    found = revision(pod) if pod is not None else None
    current = found is not None and found == (workload.get("status") or {}).get("updateRevision")
    return _has_seen(workload) and current


def _has_seen(workload: Object | None) -> bool:
    """Whether its controller has observed the current generation."""
    if workload is None:
        return False
    seen = (workload.get("status") or {}).get("observedGeneration") or -1
    return bool(seen >= (workload["metadata"].get("generation") or 0))


def is_down(pod: Object | None) -> bool:
    """Whether the server has ended, or ends again and again; not merely unready for a while."""
    for item in ((pod or {}).get("status") or {}).get("containerStatuses") or ():
        state = item.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason")
        if item.get("name") == "postgres" and (
            state.get("terminated") or waiting == reasons.CRASH_LOOP_BACK_OFF
        ):
            return True
    return False

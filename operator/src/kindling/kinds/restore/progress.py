"""How far a run is, by its own word: a question to its Pod every few seconds, and `status.progress`.

The word is a program's that nobody vouches for, so it is read strictly, and nothing is decided from it. A
run that does not answer is no fault: it may be of another release, or about to end.
"""

from __future__ import annotations

from typing import Any

from kindling.kinds import pods
from kindling.kinds.amounts import LARGEST, rounded
from kindling.kinds.backup import results
from kindling.kinds.base import Child, ExternalResult, Observed, Probe
from kindling.kinds.http import HttpRequest, answered
from kindling.kinds.network import from_operator
from kindling.kinds.restore import decisions
from kindling.kube.resources import Object, ResourceType

MEMBER = "run"
PORT = 8433
PATH = "/progress"
STEPS = {"download": "Download", "replay": "Replay", "load": "Load", "check": "Check"}
"""What a run calls its steps, and the status. Of any other step nothing is known but that it runs."""
ESTIMATED_SECONDS = 5.0
"""How long a step must have taken before the time that it still needs is estimated."""


def policy(type: ResourceType, cr: Object, *, name: str, operator_namespace: str) -> Child:
    """The NetworkPolicy of the runs: the operator alone asks how far one is."""
    return from_operator(type, cr, name=name, port=PORT, operator_namespace=operator_namespace)


def probes(cr: Object, observed: Observed) -> dict[str, Probe]:
    """To the Pod of the run that restores now, if it has an address."""
    if decisions.phase_of(cr) != decisions.RESTORING:
        return {}
    name = decisions.job_name(cr, decisions.attempt_of(cr))
    job = results.jobs(cr, observed).get(name)
    pod = results.pod_of(name, observed) if job is not None and results.ended(job) is None else None
    status, meta = (pod or {}).get("status") or {}, (pod or {}).get("metadata") or {}
    host = pods.address(pod or {})
    if not host or status.get("phase") != "Running" or "deletionTimestamp" in meta:
        return {}
    request = HttpRequest(
        namespace=cr["metadata"]["namespace"], host=host, port=PORT, pod=meta["name"], path=PATH
    )
    return {MEMBER: Probe(cache_key=("progress", meta["uid"], host), request=request)}


def report(cr: Object, observed: Observed) -> Object | None:
    """`status.progress`, in coarse figures, since each other value is a write. The last one stays until the
    run has answered, so that a new leader does not make it go and come back.
    """
    asked = probes(cr, observed)
    if MEMBER not in asked:
        return None
    result = observed.result(MEMBER, asked[MEMBER].cache_key)
    if result is None:
        known: Object | None = (cr.get("status") or {}).get("progress")
        return known
    return _read(result)


def words(progress: Object) -> str:
    """The same as a part of a sentence."""
    share = f"{progress['step']} is at {progress['percent']} %" if "percent" in progress else progress["step"]
    left = progress.get("secondsLeft")
    return share if left is None else f"{share}, with about {left} s left"


def _read(result: ExternalResult) -> Object | None:
    """None where it is no answer of a run."""
    if (said := answered(result)) is None:
        return None
    step = STEPS.get(str(said.get("phase")))
    if step is None:
        return None
    done, total, seconds = (_amount(said.get(name)) for name in ("bytes", "of", "seconds"))
    found: Object = {"step": step}
    if not (isinstance(done, int) and isinstance(total, int) and total):
        return found
    done = min(done, total)
    found |= {"bytes": rounded(done), "totalBytes": total, "percent": 100 * done // total}
    if done and seconds is not None and seconds >= ESTIMATED_SECONDS:
        found["secondsLeft"] = rounded(min(LARGEST, int(seconds * (total - done) / done)))
    return found


def _amount(value: Any) -> int | float | None:
    """A number that is not negative, and not larger than every reader of JSON takes; NaN is none."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST
    return value if good else None

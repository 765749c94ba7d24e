"""Statuses as Kubernetes writes them, in any state of being there: every field may be missing, or null.

Beside the worlds, which say what objects there are: this is the API's own vocabulary, and grows with the
types that kinds look at.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from kindling.kube.resources import POD, Object, ResourceType

MOMENTS = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:09:59Z", "2027-01-01T00:00:00Z"])
COUNTS = st.none() | st.integers(0, 4)
REVISIONS = st.none() | st.sampled_from(["r1", "r2"])
WAITING = ("ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "CrashLoopBackOff", "Other")


def _few(
    fields: dict[str, st.SearchStrategy[Any]], **always: st.SearchStrategy[Any]
) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(always, optional=fields)


CONDITIONS = st.none() | st.lists(
    _few(
        {
            "reason": st.sampled_from(["Unschedulable", "FailedCreate", "ProgressDeadlineExceeded"]),
            "message": st.sampled_from(["", "0/1 nodes are available.", "m" * 5000]),
            "lastTransitionTime": MOMENTS,
        },
        type=st.sampled_from(
            [
                "Ready",
                "PodScheduled",
                "Available",
                "Progressing",
                "ReplicaFailure",
                "Resizing",
                "NodeResizeError",
            ]
        ),
        status=st.sampled_from(["True", "False", "Unknown"]),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda item: str(item["type"]),
)
STATES = _few(
    {
        "waiting": _few(
            {"reason": st.sampled_from(WAITING), "message": st.sampled_from(["", "why", "m" * 5000])}
        ),
        "running": _few({"startedAt": MOMENTS}),
        "terminated": _few(
            {
                "exitCode": st.integers(0, 255),
                "reason": st.sampled_from(["Error", "OOMKilled", "Completed"]),
                "message": st.sampled_from(["", "why", "not {json", "m" * 5000]),
                "finishedAt": MOMENTS,
            }
        ),
    }
)
CONTAINERS = st.none() | st.lists(
    _few(
        {
            "name": st.sampled_from(["postgres", "memcached", "consumer", "other"]),
            "ready": st.booleans(),
            "restartCount": st.integers(0, 9),
            "state": st.none() | STATES,
            "lastState": st.none() | STATES,
            "image": st.sampled_from(["image:1", "i" * 300]),
            "containerID": st.just("containerd://0"),
        }
    ),
    max_size=2,
)
POD_STATUS = _few(
    {
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "initContainerStatuses": CONTAINERS,
        "reason": st.just("Evicted"),
        "message": st.sampled_from(["", "why"]),
        "podIP": st.none() | st.just("10.0.0.1"),
        "startTime": st.none() | MOMENTS,
    },
    conditions=CONDITIONS,
    containerStatuses=CONTAINERS,
)
COUNTED = (
    "observedGeneration", "replicas", "readyReplicas", "availableReplicas", "updatedReplicas",
    "unavailableReplicas", "currentReplicas", "collisionCount",
)  # fmt: skip
OTHER_STATUS = _few(
    {
        **dict.fromkeys(COUNTED, COUNTS),
        "currentRevision": REVISIONS,
        "updateRevision": REVISIONS,
        "conditions": CONDITIONS,
        "phase": st.none() | st.sampled_from(["Pending", "Bound", "Lost"]),
        "capacity": st.none() | st.sampled_from([{}, {"storage": "1Gi"}, {"storage": "1073741824"}]),
        "loadBalancer": st.none() | st.just({}),
    }
)


def statuses(type: ResourceType) -> st.SearchStrategy[Any]:
    """A status of that type; one in three has none."""
    typed = POD_STATUS if type == POD else OTHER_STATUS
    return st.sampled_from([None, {}]) | typed | typed.map(dict)

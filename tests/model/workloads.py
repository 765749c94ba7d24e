"""What makes Pods of workloads in the model: Kubernetes' controllers and a kubelet, at once and perfect.

Beside the API in memory, which like the real one does none of it by itself.
"""

from __future__ import annotations

import hashlib
import json

from kindling.kinds.pods import pod_ready
from kindling.kube.resources import DEPLOYMENT, POD, STATEFUL_SET, Object, Ref

from tests.model.memory import MemoryApi

SHORT = 60
"""Seconds of a Job that is to end at once."""
JOB_NAME = "batch.kubernetes.io/job-name"
SINCE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


def run_pods(api: MemoryApi) -> None:
    """Every workload has its Pods, they are ready, and it counts them so. Every Job has done its work."""
    control(api)
    for ref, job in list(api.objects.items()):
        if ref.type.plural == "jobs" and not (job.get("status") or {}).get("conditions"):
            if ref.name in api.unschedulable:
                _wait_for_a_node(api, ref, job)
            else:
                _finish(api, ref, job)
    for ref, pod in list(api.objects.items()):
        if ref.name in api.starting:
            continue
        if ref.type == POD and pod["metadata"].get("ownerReferences") and not _is_of_a_job(pod):
            wanted, status = _running(ref, pod), pod.get("status") or {}
            if api.called & {owner["name"] for owner in pod["metadata"]["ownerReferences"]}:
                wanted = _called(wanted)
            # How often its containers have started is nothing to be set right.
            if any(status.get(field) != wanted[field] for field in ("phase", "podIP", "conditions")):
                api.set_status(ref, wanted)
    control(api)


def _finish(api: MemoryApi, ref: Ref, job: Object) -> None:
    said = api.job_message(job)
    good = said is None or said[0]
    if said is not None:
        template, pod = job["spec"]["template"], _pod_of_a_job(api, ref, job)
        ended = {"terminated": {"exitCode": 0 if good else 1, "message": said[1]}}
        name = template["spec"]["containers"][0]["name"]
        api.set_status(pod, {"containerStatuses": [{"name": name, "state": ended}]})
    how = "Complete" if good else "Failed"
    api.set_status(ref, {"conditions": [{"type": how, "status": "True"}], "succeeded": int(good)})


def _pod_of_a_job(api: MemoryApi, ref: Ref, job: Object) -> Ref:
    template, owner = job["spec"]["template"], {"kind": "Job", "name": ref.name, "controller": True}
    metadata = {
        "namespace": ref.namespace,
        "name": f"{ref.name}-pod",
        "labels": {**template["metadata"]["labels"], JOB_NAME: ref.name},
        "ownerReferences": [{**owner, "apiVersion": "batch/v1", "uid": job["metadata"]["uid"]}],
    }
    pod = Ref(POD, ref.namespace, f"{ref.name}-pod")
    if pod not in api.objects:
        api.put(POD, {"metadata": metadata, "spec": template["spec"]})
    return pod


def _wait_for_a_node(api: MemoryApi, ref: Ref, job: Object) -> None:
    """No node takes the Pod, until the Job's deadline ends it: what is in the past here, if it is short."""
    pod = _pod_of_a_job(api, ref, job)
    if job["spec"]["activeDeadlineSeconds"] < SHORT:
        api.remove(pod)
        api.set_status(ref, {"conditions": [{"type": "Failed", "status": "True"}]})
        return
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    placed["lastTransitionTime"] = api.clock()
    if not (api.objects[pod].get("status") or {}).get("conditions"):
        api.set_status(pod, {"phase": "Pending", "conditions": [placed]})


def _is_of_a_job(pod: Object) -> bool:
    return JOB_NAME in (pod["metadata"].get("labels") or {})


def control(api: MemoryApi) -> None:
    """Every workload has its Pods, of its present template unless its strategy holds them back, and counts
    those that are ready. Pods below a partition are of the last template that all of them were of.
    """
    for ref, obj in list(api.objects.items()):
        if ref.type not in (DEPLOYMENT, STATEFUL_SET) or ref not in api.objects:
            continue  # with the first Pod that went, the garbage collector may have come by
        meta, template = obj["metadata"], obj["spec"]["template"]
        text = json.dumps(template, sort_keys=True).encode()
        revision = f"{ref.name}-{hashlib.sha256(text).hexdigest()[:8]}"
        wanted = {
            f"{ref.name if ref.type == STATEFUL_SET else revision}-{number}"
            for number in range(obj["spec"]["replicas"])
        }
        strategy = obj["spec"].get("updateStrategy") or {}
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        by_hand = strategy.get("type") == "OnDelete"
        before = api.revisions.setdefault(meta["uid"], (revision, template))
        present = _pods(api, meta["uid"], revision=revision)
        kept = [
            pod
            for pod in _pods(api, meta["uid"])
            if pod.name in wanted and (by_hand or _number(pod) < partition or pod in present)
        ]
        for pod in _pods(api, meta["uid"]):
            if pod not in kept:
                api.remove(pod)
        for name in sorted(wanted - {pod.name for pod in kept}):
            if Ref(POD, ref.namespace, name) not in api.objects:
                pod = Ref(POD, ref.namespace, name)
                made = before if _number(pod) < partition else (revision, template)
                api.put(POD, _pod(ref, meta["uid"], made[1], name=name, revision=made[0]))
        updated = _pods(api, meta["uid"], revision=revision)
        every = [api.objects[pod] for pod in _pods(api, meta["uid"])]
        counts = {"replicas": len(every), "updatedReplicas": len(updated)}
        counts["availableReplicas"] = sum(pod_ready(pod) for pod in every)
        status = {"observedGeneration": meta["generation"], **counts}
        # Of none at all, Kubernetes says that too; but a scale to none is set back before the Pod has ended.
        if wanted and len(updated) == counts["availableReplicas"] == len(wanted):
            api.revisions[meta["uid"]] = (revision, template)
        if ref.type == STATEFUL_SET:
            status |= {"updateRevision": revision, "currentRevision": api.revisions[meta["uid"]][0]}
        if ref in api.objects and obj.get("status") != status:
            api.set_status(ref, status)


def _pods(api: MemoryApi, owner: str, *, revision: str | None = None) -> list[Ref]:
    return [
        ref
        for ref, obj in api.objects.items()
        if ref.type == POD
        and owner in [item["uid"] for item in obj["metadata"].get("ownerReferences") or ()]
        and revision in (None, obj["metadata"]["labels"]["controller-revision-hash"])
    ]


def _number(pod: Ref) -> int:
    """Of a StatefulSet's Pod; of others 0, which no partition is below."""
    last = pod.name.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def _pod(ref: Ref, uid: str, template: Object, *, name: str, revision: str) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": ref.type.kind, "name": ref.name, "uid": uid, "controller": True}
    metadata = {
        **template["metadata"],
        "namespace": ref.namespace,
        "name": name,
        "labels": {**template["metadata"]["labels"], "controller-revision-hash": revision},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": template["spec"]}


def _running(ref: Ref, pod: Object) -> Object:
    digest = hashlib.sha256(ref.name.encode()).digest()
    return {
        "phase": "Running",
        # The same for the same name in every world.
        "podIP": f"10.{digest[0]}.{digest[1]}.{digest[2]}",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}],
        "containerStatuses": [
            {"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": SINCE}}}
            for name in (container["name"] for container in pod["spec"]["containers"])
        ],
    }


def _called(status: Object) -> Object:
    """It was ready, and is not: a connection waits."""
    conditions = [
        {"type": type, "status": "False", "lastTransitionTime": LATER}
        for type in ("Ready", "ContainersReady")
    ]
    containers = [{**item, "ready": False} for item in status["containerStatuses"]]
    return {**status, "conditions": conditions, "containerStatuses": containers}

"""In the place of scheduler and kubelet: each Pod is bound, reported running and ready, and deleted.

No container runs. It writes the status that a node would write (as KWOK does), because controllers and
our operator wait for it; whether a real program would get that far is tested on a cluster.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from tests.apiserver.support.apiclient import MERGE_PATCH, Api, Json
from tests.apiserver.support.controlplane import ControlPlane

PODS = "/api/v1/pods"
NODE = "node"
ADDRESS = "127.0.0.1"  # Of every Pod: nothing listens there, so a connection is refused at once.
# As long as the quickest of containers takes to start.
START_SECONDS = 1.0
PAUSE_SECONDS = 0.1
# Then all Pods are looked at again: a word may have been lost. Well within what tests wait for a Pod.
WATCH_SECONDS = 8
# Then ready for so long already, so that nobody waits for a young Pod to settle.
AGE = timedelta(minutes=3)

End = Callable[[ControlPlane, Json], tuple[int, str]]
"""How a Pod ends that runs to its end, such as a Job's: exit status and termination message."""


def succeeds(plane: ControlPlane, pod: Json) -> tuple[int, str]:
    return 0, ""


@contextmanager
def kubelet(plane: ControlPlane, *, end: End = succeeds) -> Iterator[None]:
    """Tend all Pods in a thread of its own until leaving. `end` is called on threads of their own."""
    with closing(Api(plane)) as api:
        node = _Node(plane, api, end)
        thread = threading.Thread(target=node.run, name="kubelet", daemon=True)
        thread.start()
        try:
            yield
        finally:
            node.stop()
            thread.join(timeout=30)


class _Node:
    """Lists, watches, lists again when the watch ends: a Pod is looked at each time it changes."""

    def __init__(self, plane: ControlPlane, api: Api, end: End) -> None:
        self._plane = plane
        self._api = api
        self._end = end
        self._one_at_a_time = threading.Lock()
        self._stopping = False
        self._watch: http.client.HTTPSConnection | None = None

    def run(self) -> None:
        while not self._stopping:
            try:
                listed = self._ask("GET", PODS)
                for pod in listed["items"]:
                    self._tend(pod)
                for event in self._events(listed["metadata"]["resourceVersion"]):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._tend(event["object"])
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                time.sleep(PAUSE_SECONDS)  # The API server may be away for a while.

    def stop(self) -> None:
        self._stopping = True
        if self._watch is not None and self._watch.sock is not None:
            with contextlib.suppress(OSError):  # it may end by itself just now
                self._watch.sock.shutdown(socket.SHUT_RDWR)

    def _events(self, version: str) -> Iterator[Json]:
        address = urlsplit(self._plane.url)
        assert address.hostname is not None
        context = ssl.create_default_context(cafile=self._plane.ca)
        self._watch = http.client.HTTPSConnection(address.hostname, address.port, context=context)
        with closing(self._watch):
            headers = {"Authorization": f"Bearer {self._plane.token}"}
            query = f"watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}"
            self._watch.request("GET", f"{PODS}?{query}", headers=headers)
            answer = self._watch.getresponse()
            while line := answer.readline():
                event: Json = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event

    def _tend(self, pod: Json) -> None:
        """The next thing that a node does for this Pod; a refusal means that it has changed since."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            # This very one: its successor may have its name by now.
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self._ask("DELETE", path, body={"apiVersion": "v1", "kind": "DeleteOptions", **options})
        elif not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            self._ask("POST", f"{path}/binding", body={"metadata": {"name": meta["name"]}, "target": target})
        elif (pod.get("status") or {}).get("phase") not in ("Running", "Succeeded", "Failed"):
            timer = threading.Timer(START_SECONDS, self._start, (path, pod))
            timer.daemon = True
            timer.start()

    def _start(self, path: str, pod: Json) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # The test may be over by now.
            ends = pod["spec"].get("restartPolicy") == "Never"
            status = _ended(pod, *self._end(self._plane, pod)) if ends else _running(pod)
            status = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
            self._ask("PATCH", f"{path}/status", body=status, content_type=MERGE_PATCH)

    def _ask(self, method: str, path: str, **what: Any) -> Json:
        with self._one_at_a_time:
            try:
                return self._api.request(method, path, **what).body
            except (OSError, http.client.HTTPException):
                self._api.close()  # Opened again by the next request.
                raise


def _running(pod: Json) -> Json:
    since = (datetime.now(UTC) - AGE).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = ("PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "hostIP": ADDRESS,
        "startTime": since,
        "conditions": [
            {"type": condition, "status": "True", "lastTransitionTime": since} for condition in conditions
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "containerID": f"none://{pod['metadata']['uid']}/{container['name']}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": since}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def _ended(pod: Json, code: int, message: str) -> Json:
    """Of a Pod that ran to its end, as a Job's does."""
    status = _running(pod)
    since = status["startTime"]
    words = {"reason": "Error" if code else "Completed", **({"message": message} if message else {})}
    ended = {"terminated": {"exitCode": code, **words, "startedAt": since, "finishedAt": since}}
    reason = "PodFailed" if code else "PodCompleted"
    conditions = [
        {**item, "status": "False", "reason": reason} if item["type"].endswith("Ready") else item
        for item in status["conditions"]
    ]
    containers = [
        {**item, "ready": False, "started": False, "state": ended} for item in status["containerStatuses"]
    ]
    phase = "Failed" if code else "Succeeded"
    return {**status, "phase": phase, "conditions": conditions, "containerStatuses": containers}

"""The cluster's default storage class, by what is asked of any: ours, or that of kind's own image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.client_pod import running
from tests.cluster.node import Node
from tests.cluster.stack import Environment, within

FILE = "/data/written"
USERS = (65532, 1000)


@contextmanager
def claim(environment: Environment, mode: str) -> Iterator[str]:
    name = f"volume-{os.urandom(3).hex()}"
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Mi"}}}
    metadata = {"name": name}
    environment.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    try:
        yield name
    finally:
        environment.kubectl("delete", f"pvc/{name}", "--ignore-not-found", "--wait=false")


def pod(
    environment: Environment, name: str, *, user: int, program: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A container that runs a program of Python with the claim at /data, and what its Pod needs for it."""
    operator = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
    container = {
        "image": operator["spec"]["template"]["spec"]["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", f"{program}\nimport time\ntime.sleep(3600)"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"runAsUser": user, "runAsGroup": user, "allowPrivilegeEscalation": False},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return container, {"volumes": [volume], "automountServiceAccountToken": False}


def test_a_volume_keeps_what_any_user_wrote_and_goes_with_its_claim(environment: Environment) -> None:
    node = Node(environment)
    writes = f"import os\nos.mkdir('/data/own', 0o700)\nopen('{FILE}', 'w').write('kept')"
    with claim(environment, "ReadWriteOnce") as name:
        container, spec = pod(environment, name, user=USERS[0], program=writes)
        with running(environment, "writer", container, spec=spec, delete=("--wait=true",)) as writer:
            within(30, lambda: "kept" in environment.kubectl("exec", writer, "--", "cat", FILE))
            volume = environment.get("pvc", name)["spec"]["volumeName"]
            found = environment.get("pv", volume)["spec"]
            assert found["capacity"] == {"storage": "1Mi"}
            path = found["hostPath"]["path"]
            assert node.has(path)
        container, spec = pod(environment, name, user=USERS[1], program=f"open('{FILE}').read()")
        with running(environment, "reader", container, spec=spec, delete=("--wait=true",)) as reader:
            assert environment.kubectl("exec", reader, "--", "cat", FILE) == "kept"
            assert environment.get("pvc", name)["spec"]["volumeName"] == volume
        environment.kubectl("delete", f"pvc/{name}", "--wait=true")
        within(60, lambda: environment.kubectl("get", "pv", volume, "--ignore-not-found") == "")
        assert not node.has(path), "with the folder that only its user could read"


def test_what_one_folder_cannot_be_is_refused_in_an_event(environment: Environment) -> None:
    with claim(environment, "ReadWriteMany") as name:
        container, spec = pod(environment, name, user=USERS[0], program="")
        made = {
            "containers": [{**container, "name": "client"}],
            "terminationGracePeriodSeconds": 0,
            **spec,
        }
        environment.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": made})
        words = ("events", "--field-selector", f"involvedObject.name={name},reason=ProvisioningFailed")

        def said() -> bool:
            return any("ReadWriteOnce" in item["message"] for item in environment.get(*words)["items"])

        try:
            within(60, said)
            assert environment.get("pvc", name)["status"]["phase"] == "Pending"
        finally:
            environment.kubectl("delete", f"pod/{name}", "--wait=false")

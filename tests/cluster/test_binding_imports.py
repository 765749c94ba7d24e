"""An application in another namespace logs in with the copy of a binding, before a rotation and after it."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.stack import Environment, within
from tests.cluster.test_claims import hold
from tests.cluster.test_rotation import PLURAL, bound, rotate

IMPORTS = "bindingimports.database.technotuesday.io"


@contextmanager
def namespace(environment: Environment) -> Iterator[str]:
    name = f"web-{os.urandom(3).hex()}"
    environment.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        environment.kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def exporting(environment: Environment, *, to: str) -> Iterator[str]:
    """A Postgresql that gives its binding, and the network, to that namespace."""
    name = f"shop-{os.urandom(3).hex()}"
    spec = {
        "defaultUser": "app",
        "credentials": {"rotation": {"overlap": "1m"}},
        "storage": {"size": "256Mi"},
        "deletionPolicy": "Delete",
        "bindingExports": [{"namespace": to, "name": "shop"}],
        "allowedFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": to}}}],
        "tls": {},
    }
    environment.apply(
        {
            "apiVersion": "database.db.example.com/v1",
            "kind": "Postgresql",
            "metadata": {"name": name},
            "spec": spec,
        }
    )
    try:
        environment.wait_ready(f"{PLURAL}/{name}", seconds=180)
        yield name
    finally:
        environment.kubectl("delete", f"{PLURAL}/{name}", "--wait=false", "--ignore-not-found")


def exported(environment: Environment, name: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = environment.get(f"{PLURAL}/{name}")["status"].get("bindingExports", [])
    return items[0] if items else {"ready": False, "reason": ""}


def reason(environment: Environment, there: str) -> str:
    status = environment.get(f"{IMPORTS}/shop", "-n", there)["status"]
    return str(status["conditions"][0]["reason"])


def has_copy(environment: Environment, there: str) -> bool:
    secrets = environment.get("secrets", "-n", there)["items"]
    return "shop-binding" in [secret["metadata"]["name"] for secret in secrets]


def application(environment: Environment, name: str, there: str) -> str:
    """A Pod of the namespace with libpq that mounts the copy and verifies the server."""
    operand = environment.operand(name)
    env = [
        {
            **variable,
            "valueFrom": {"secretKeyRef": {**variable["valueFrom"]["secretKeyRef"], "name": "shop-binding"}},
        }
        for variable in operand["env"]
    ]
    container = {
        "name": "app",
        "image": operand["image"],
        "command": ["sleep", "infinity"],
        "env": [
            *env,
            {"name": "PGSSLMODE", "value": "verify-full"},
            {"name": "PGSSLROOTCERT", "value": "/binding/ca.crt"},
        ],
        "volumeMounts": [{"name": "binding", "mountPath": "/binding", "readOnly": True}],
    }
    pod = f"app-{os.urandom(3).hex()}"
    environment.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": there},
            "spec": {
                "containers": [container],
                "volumes": [{"name": "binding", "secret": {"secretName": "shop-binding"}}],
                "terminationGracePeriodSeconds": 0,
            },
        }
    )
    environment.wait_ready(f"pod/{pod}", "-n", there)
    return pod


def login(environment: Environment, pod: str, there: str) -> str:
    words = ("psql", "--no-psqlrc", "-tAc", "select session_user || ' ' || current_user")
    return environment.kubectl("exec", "-n", there, pod, "--", *words).strip()


def test_an_application_of_another_namespace_logs_in_with_the_copy(environment: Environment) -> None:
    with namespace(environment) as there, exporting(environment, to=there) as name:
        within(60, lambda: exported(environment, name)["reason"] == "ImportMissing")
        assert not has_copy(environment, there), "the other side has not consented"
        # What the message prints is what a user runs, as it stands.
        (command,) = re.findall(r"`(echo [^`]+)`", exported(environment, name)["message"])
        echo, manifest, *then = shlex.split(command)
        assert (echo, then) == ("echo", ["|", "kubectl", "apply", "-f", "-"])
        environment.kubectl("apply", "-f", "-", stdin=manifest)
        environment.wait_ready(f"{IMPORTS}/shop", "-n", there)
        within(60, lambda: exported(environment, name)["ready"])
        first = application(environment, name, there)
        assert login(environment, first, there) == "app app"
        rotate(environment, name)
        within(90, lambda: bound(environment, name)[0] == "app_a")
        uri = "jsonpath={.data.username}/{.data.password}/{.data.uri}"
        ours = ("get", "secret", f"{name}-binding", "-o", uri)
        copy = ("get", "secret", "shop-binding", "-n", there, "-o", uri)
        within(10, lambda: environment.kubectl(*copy) == environment.kubectl(*ours))
        # One that has the earlier login goes on, one that starts now has the new one.
        assert login(environment, first, there) == "app app"
        second = application(environment, name, there)
        assert login(environment, second, there) == "app_a app"
        hold(environment, IMPORTS, "shop", there)
        hold(environment, PLURAL, name)
        # Taken back by the side that gives, given again, and taken back by the side that receives.
        patch: dict[str, Any] = {"spec": {"bindingExports": None}}
        environment.kubectl("patch", f"{PLURAL}/{name}", "--type=merge", f"--patch={json.dumps(patch)}")
        within(30, lambda: not has_copy(environment, there))
        within(30, lambda: reason(environment, there) == "NotExported")
        hold(environment, IMPORTS, "shop", there)
        patch = {"spec": {"bindingExports": [{"namespace": there, "name": "shop"}]}}
        environment.kubectl("patch", f"{PLURAL}/{name}", "--type=merge", f"--patch={json.dumps(patch)}")
        within(30, lambda: has_copy(environment, there))
        environment.kubectl("delete", f"{IMPORTS}/shop", "-n", there)
        within(60, lambda: not has_copy(environment, there))
        within(30, lambda: exported(environment, name)["reason"] == "ImportMissing")
        # With the database, the copy goes too.
        environment.kubectl("apply", "-f", "-", stdin=manifest)
        within(30, lambda: has_copy(environment, there))
        environment.kubectl("delete", f"{PLURAL}/{name}", timeout=180)
        within(60, lambda: not has_copy(environment, there))
        within(30, lambda: reason(environment, there) == "NotExported")

"""spec.tls and spec.auth of a Memcached, as clients meet them: who is let in and who is not, another password
and another certificate without a restart, and all of it off again.

The client is pymemcache, in a Pod that mounts the binding as the guide says.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from tests.cluster.claims.served import certificate_of
from tests.cluster.secured_caches import PYTHON, RESOURCE, binding
from tests.cluster.stack import Environment, within
from tests.cluster.test_claims import hold
from tests.cluster.test_exporters import page
from tests.cluster.test_memcached import create, image_of, library, ready, run, split, talk

DELIVERED_SECONDS = 180.0
"""For the files of a Secret to reach a running Pod, and to be read."""
# Reads what to do from its input: a password in the arguments would be in the API server's log.
_CLIENT = """
import json, ssl, sys
from pymemcache.client.base import Client

given = json.load(sys.stdin)


class Named(ssl.SSLContext):
    def wrap_socket(self, sock, **options):
        return super().wrap_socket(sock, **{**options, "server_hostname": given["host"]})


context = Named(ssl.PROTOCOL_TLS_CLIENT)
if given["trusts"]:
    context.load_verify_locations("/bindings/cache/ca.crt")
results = []
for host, port in given["servers"]:
    client = Client(
        (host, port), tls_context=context if given["tls"] else None, connect_timeout=5, timeout=5
    )
    try:
        if given["password"] is not None:
            client.set("login", "memcached " + given["password"], noreply=False)
        if given["value"] is not None:
            client.set("item", given["value"], noreply=False)
        found = client.get("item")
        results.append(found.decode() if found is not None else None)
    except Exception as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results))
"""
_PAGE = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
    sys.stdout.write(answer.read().decode())
"""


@dataclass(frozen=True)
class Application:
    """The Pod `name` beside the Memcached of that name, with pymemcache and the binding."""

    environment: Environment
    name: str

    def asks(
        self, *, password: str | None, value: str | None = None, tls: bool = True, trusts: bool = True
    ) -> list[str | None]:
        """The item of each server, once it is set to the value; or the error in its place."""
        given = {
            "servers": [split(server) for server in self.servers()],
            "host": f"{self.name}.default.svc",
            "password": password,
            "value": value,
            "tls": tls,
            "trusts": trusts,
        }
        words = ("exec", "-i", self.name, "--", PYTHON, "-c", _CLIENT)
        found: list[str | None] = json.loads(
            self.environment.kubectl(*words, stdin=json.dumps(given), timeout=60)
        )
        return found

    def servers(self) -> list[str]:
        found: list[str] = self.environment.get(f"{RESOURCE}/{self.name}")["status"]["serverList"]
        return found

    def pods(self) -> dict[str, int]:
        """What a restart of anything changes."""
        items = self.environment.get("pods", "-l", f"app.kubernetes.io/instance={self.name}")["items"]
        return {
            item["metadata"]["uid"]: sum(each["restartCount"] for each in item["status"]["containerStatuses"])
            for item in items
        }

    def fingerprints(self) -> set[str]:
        """Of the certificates that the servers show."""
        items = self.environment.get("pods", "-l", f"app.kubernetes.io/instance={self.name}")["items"]
        shown = [
            certificate_of(self.environment, item["metadata"]["name"], "default", port=11211)
            for item in items
        ]
        return {
            hashlib.sha256(each.public_bytes(Encoding.DER)).hexdigest() for each in shown if each is not None
        }


@contextmanager
def application(environment: Environment, **spec: Any) -> Iterator[Application]:
    """Beside a Memcached of this spec, both ready; gone afterwards."""
    name = f"secured-{os.urandom(3).hex()}"
    create(environment, name, **spec)
    environment.apply(library(name))
    mounts = {"binding": "/bindings/cache", "client": "/client"}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "it",
                "image": image_of(environment),
                "command": [PYTHON, "-c", "import time; time.sleep(3600)"],
                "env": [{"name": "PYTHONPATH", "value": "/client/pymemcache.zip"}],
                "volumeMounts": [{"name": key, "mountPath": path} for key, path in mounts.items()],
            }
        ],
        "volumes": [
            {"name": "binding", "secret": {"secretName": f"{name}-binding"}},
            {"name": "client", "configMap": {"name": name}},
        ],
    }
    environment.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod})
    try:
        ready(environment, name)
        environment.wait_ready(f"pod/{name}")
        yield Application(environment, name)
    finally:
        environment.kubectl("delete", f"pod/{name}", f"configmap/{name}", "--wait=false")
        environment.kubectl("delete", f"{RESOURCE}/{name}", "--wait=true")


def patch(environment: Environment, resource: str, **spec: Any) -> None:
    environment.kubectl("patch", resource, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def everything(environment: Environment, name: str) -> str:
    """All objects of the namespace but Secrets, and the logs of the caches and of the operator."""
    kinds = "pods,deployments,replicasets,configmaps,services,networkpolicies,events," + RESOURCE
    found = [environment.kubectl("get", kinds, "-o", "yaml", timeout=60)]
    logs = ("--all-containers", "--tail=-1", "--prefix")
    found.append(environment.kubectl("logs", "-l", f"app.kubernetes.io/instance={name}", *logs))
    operator = ("-n", "kindling-system", "-l", "app.kubernetes.io/component=operator")
    found.append(environment.kubectl("logs", *operator, *logs, timeout=60))
    return "\n".join(found)


def containers(environment: Environment, name: str) -> set[str]:
    """Of all Pods, those that are on their way out too."""
    pods = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
    return {container["name"] for pod in pods for container in pod["spec"]["containers"]}


def test_who_is_let_in_and_what_changes_without_a_restart(environment: Environment) -> None:
    on = {"enabled": True}
    with application(environment, size=2, tls=on, auth=on, exporter=on) as app:
        resource = f"{RESOURCE}/{app.name}"
        bound = binding(environment, app.name)
        first = bound["password"]
        assert bound["host"] == f"{app.name}.default.svc"
        assert app.asks(password=first, value="kept") == ["kept", "kept"]
        for refused, word in (
            (app.asks(password="wrong"), "authentication failure"),
            (app.asks(password=None), "unauthenticated"),
            (app.asks(password=first, trusts=False), "CERTIFICATE_VERIFY_FAILED"),
            (app.asks(password=first, tls=False), "Error"),
        ):
            assert [word in str(each) for each in refused] == [True, True], refused
        host, _ = split(app.servers()[0])
        shown = page(run(environment, _PAGE, f"http://{host}:9150/metrics"))
        assert (shown["memcached_up"], shown["memcached_current_items"]) == (1, 1)
        hold(environment, RESOURCE, app.name)

        # Another password and another certificate at a time: each waits for the kubelet.
        before, served = app.pods(), app.fingerprints()
        environment.kubectl("annotate", resource, "kindling.dev/rotate=now")
        environment.kubectl("delete", "secret", f"{app.name}-server-tls")
        within(DELIVERED_SECONDS, lambda: binding(environment, app.name)["password"] != first)
        second = binding(environment, app.name)["password"]
        assert app.asks(password=second) == ["kept", "kept"]
        assert app.asks(password=first) == ["kept", "kept"]
        within(30, lambda: "auth" in environment.get(resource)["status"])
        within(DELIVERED_SECONDS, lambda: len(app.fingerprints() - served) == 1 == len(app.fingerprints()))
        assert app.asks(password=second) == ["kept", "kept"]
        assert app.pods() == before
        ready(environment, app.name)
        hold(environment, RESOURCE, app.name)
        text = everything(environment, app.name)
        assert [word in text for word in (first, second)] == [False, False]

        patch(environment, resource, statistics=True)
        within(90, lambda: environment.get(resource)["status"].get("statistics", {}).get("servers") == 2)

        off = {"tls": None, "auth": None, "exporter": None, "statistics": None}
        patch(environment, resource, **off)
        ready(environment, app.name)
        within(90, lambda: containers(environment, app.name) == {"memcached"})
        host, port = split(app.servers()[0])
        assert talk(environment, host, port, "set a 0 0 1", "b", "get a").startswith("STORED")
        assert {"binding", "tls", "auth"} & {*environment.get(resource)["status"]} == set()

"""spec.workload of a Memcached, as its clients meet it: names that stay, and a change that is never empty."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.secured_caches import PYTHON, RESOURCE
from tests.cluster.stack import ROOT, Environment, within
from tests.cluster.test_claims import hold
from tests.cluster.test_memcached import create, image_of, library, pod_with_list, ready, scale
from tests.cluster.watching import watching

HANDOVER_SECONDS = 240
"""For the change of the workload: the kubelets' two minutes, and twice what the Pods and operator take."""
RETURN_SECONDS = 90
READER = ROOT / "tests" / "cluster" / "list_reader.py"
# Sets and gets an item at each name, by pymemcache; with an authority, over TLS to that very name.
_CLIENT = """
import json, os, ssl, sys
from pymemcache.client.base import Client

context = ssl.create_default_context(cadata=os.environ["CA"]) if os.environ.get("CA") else None
found = {}
for server in sys.argv[1:]:
    host, _, port = server.rpartition(":")
    client = Client((host, int(port)), tls_context=context, connect_timeout=5, timeout=5)
    found[server] = (client.get("item") or b"").decode()
    client.set("item", server, noreply=False)
    assert client.get("item").decode() == server
print(json.dumps(found))
"""


@contextmanager
def named(environment: Environment, size: int, **spec: Any) -> Iterator[str]:
    """A Memcached with a StatefulSet, ready; the client library is there under its name."""
    name = f"named-{os.urandom(3).hex()}"
    environment.apply(library(name))
    create(environment, name, size=size, workload="StatefulSet", **spec)
    try:
        ready(environment, name)
        yield name
    finally:
        environment.kubectl("delete", f"configmap/{name}", "--wait=false")
        environment.kubectl("delete", f"{RESOURCE}/{name}", "--ignore-not-found", "--wait=true")


def names(name: str, size: int) -> list[str]:
    return [f"{name}-{number}.{name}.default.svc:11211" for number in range(size)]


def servers(environment: Environment, name: str) -> list[str]:
    found: list[str] = environment.get(f"{RESOURCE}/{name}")["status"]["serverList"]
    return found


def exchanged(environment: Environment, name: str, *addresses: str, tls: bool = False) -> dict[str, str]:
    """What pymemcache found under the item at each address, where it then set that address."""
    client = f"client-{os.urandom(3).hex()}"
    authority = {"secretKeyRef": {"name": f"{name}-binding", "key": "ca.crt"}}
    container = {
        "name": "it",
        "image": image_of(environment),
        "command": [PYTHON, "-c", _CLIENT, *addresses],
        "env": [
            {"name": "PYTHONPATH", "value": "/client/pymemcache.zip"},
            *([{"name": "CA", "valueFrom": authority}] if tls else []),
        ],
        "volumeMounts": [{"name": "client", "mountPath": "/client"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "client", "configMap": {"name": name}}],
    }
    environment.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": client}, "spec": spec})
    try:
        within(60, lambda: environment.get("pod", client)["status"].get("phase") in ("Succeeded", "Failed"))
        said = environment.kubectl("logs", client)
        assert environment.get("pod", client)["status"]["phase"] == "Succeeded", said
        found: dict[str, str] = json.loads(said)
        return found
    finally:
        environment.kubectl("delete", f"pod/{client}", "--wait=false")


def test_each_cache_has_a_name_which_its_successor_has_too(environment: Environment) -> None:
    with named(environment, 3, binding="ConfigMap") as name:
        assert servers(environment, name) == names(name, 3)
        listed = environment.get(f"configmap/{name}-servers")["data"]
        assert listed["servers"].split() == names(name, 3)
        assert set(exchanged(environment, name, *names(name, 3)).values()) == {""}
        hold(environment, RESOURCE, name)
        pod = f"pod/{name}-1"
        before = environment.get(pod)
        line = "--output=jsonpath={.status.serverList}{'\\n'}"
        with watching(environment, f"{RESOURCE}/{name}", line) as seen:
            environment.kubectl("delete", pod, "--wait=false")
            within(30, lambda: names(name, 3)[1] not in servers(environment, name))
            within(RETURN_SECONDS, lambda: servers(environment, name) == names(name, 3))
        lists = [json.loads(line) for _, line in seen]
        assert {tuple(one) for one in lists} == {
            tuple(names(name, 3)),
            tuple(names(name, 3)[::2]),
        }, "the others stayed where they were"
        after = environment.get(pod)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        # The same client by the same names: two have what they had, and the third one is new.
        found = exchanged(environment, name, *names(name, 3))
        assert found == {server: server if "-1." not in server else "" for server in names(name, 3)}

        scale(environment, name, 4)
        assert servers(environment, name) == names(name, 4)
        scale(environment, name, 2)
        assert servers(environment, name) == names(name, 2)
        environment.kubectl("scale", f"statefulset/{name}", "--replicas=5")
        within(10, lambda: environment.get("statefulset", name)["spec"]["replicas"] == 2)


def test_its_certificate_is_for_each_name(environment: Environment) -> None:
    with named(environment, 2, tls={"enabled": True}) as name:
        found = exchanged(environment, name, *names(name, 2), f"{name}.default.svc:11211", tls=True)
        assert len(found) == 3
        hold(environment, RESOURCE, name)


@contextmanager
def reader(environment: Environment, name: str) -> Iterator[str]:
    """The Pod that reads the list of this Memcached, which it may do by name."""
    group, _, plural = (RESOURCE.partition(".")[2], "", RESOURCE.partition(".")[0])
    pod = f"{name}-reader"
    rules = [{"apiGroups": [group], "resources": [plural], "resourceNames": [name], "verbs": ["get"]}]
    rbac = "rbac.authorization.k8s.io"
    environment.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": pod}})
    environment.apply({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": pod}, "rules": rules})
    environment.apply(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": pod},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": pod},
            "subjects": [{"kind": "ServiceAccount", "name": pod, "namespace": "default"}],
        }
    )
    path = f"/apis/{group}/v1beta1/namespaces/default/{plural}/{name}"
    container = {
        "image": image_of(environment),
        "command": [PYTHON, "-c", READER.read_text(), path, "/bindings/cache"],
    }
    manifest = pod_with_list(pod, f"{name}-servers", container)
    manifest["spec"] |= {"automountServiceAccountToken": True, "serviceAccountName": pod}
    environment.apply(manifest)
    try:
        within(150, lambda: bool(reported(environment, pod)))
        yield pod
    finally:
        environment.kubectl("delete", f"pod/{pod}", f"role/{pod}", f"rolebinding/{pod}", "--wait=false")
        environment.kubectl("delete", f"serviceaccount/{pod}", "--wait=false")


def reported(environment: Environment, pod: str) -> dict[str, Any]:
    try:
        lines = environment.kubectl("logs", pod, "--tail=1").splitlines()
    except AssertionError:  # its container is being created
        return {}
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


@pytest.mark.thorough
def test_a_change_of_the_workload_is_never_empty_for_whoever_reads_the_list(environment: Environment) -> None:
    """Back and forth, read every 100 ms from the API server and from a file that is minutes late at most."""
    name = f"moved-{os.urandom(3).hex()}"
    create(environment, name, size=2, binding="ConfigMap")
    resource = f"{RESOURCE}/{name}"
    try:
        ready(environment, name)
        first = servers(environment, name)
        with reader(environment, name) as pod:
            for workload, gone in (("StatefulSet", "deployment"), ("Deployment", "statefulset")):
                patch = json.dumps({"spec": {"workload": workload}})
                environment.kubectl("patch", resource, "--type=merge", "--patch", patch)
                took = within(HANDOVER_SECONDS, lambda gone=gone: not _exists(environment, gone, name))  # type: ignore[misc]
                ready(environment, name)
                listed = servers(environment, name)
                assert len(listed) == 2
                assert (listed == names(name, 2)) == (workload == "StatefulSet")
                # A Deployment's selector has a StatefulSet's Pods too, while they end.
                within(60, lambda: len(_pods(environment, name)) == 2)
                hold(environment, RESOURCE, name)
                said = reported(environment, pod)
                print(f"{workload} after {took:.0f} s; {said['reads']} lists read")
                assert said["wrong"] == []
                assert {*listed} <= {*said["answered"]}
            # As long as a file may be behind, and as long again as what it named before is gone.
            within(150, lambda: _file(environment, pod) == servers(environment, name))
            said = reported(environment, pod)
            assert said["wrong"] == []
            assert min(said["reads"].values()) > 1000
            assert {*first, *names(name, 2), *servers(environment, name)} == {*said["answered"]}
    finally:
        environment.kubectl("delete", resource, "--ignore-not-found", "--wait=true")


def _exists(environment: Environment, kind: str, name: str) -> bool:
    return bool(environment.get(kind, "-l", f"app.kubernetes.io/instance={name}")["items"])


def _pods(environment: Environment, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
    return found


def _file(environment: Environment, pod: str) -> list[str]:
    program = "print(open('/bindings/cache/servers').read())"
    return environment.kubectl("exec", pod, "--", PYTHON, "-c", program).split()

"""The Pulumi package on a real API server: programs of several languages, and what comes back to them.

The plugin is a process that Pulumi starts. A program in Python uses it by Pulumi's Automation API.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation

from infra.paths import REPOSITORY
from tests.apiserver.support import pulumi_package
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to

SECRETS = "/api/v1/namespaces/{namespace}/secrets/{name}"
Outputs = Mapping[str, Any]


class Component(pulumi.ComponentResource):
    """What a generated SDK has for each component, without its types."""

    def __init__(self, kind: str, name: str, inputs: dict[str, Any], outputs: tuple[str, ...]) -> None:
        props = {**dict.fromkeys(outputs), **inputs}
        opts = pulumi.ResourceOptions(version="0.0.0")
        super().__init__(f"kindling:index:{kind}", name, props, opts, remote=True)


class Workspace:
    """Programs of this process, each a stack of its own."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        pulumi_package.install(folder / "home", source=REPOSITORY / "infra/package", version="0.0.0")
        self._env = pulumi_package.env_vars(folder / "home", cluster.plane)
        self._folder = folder
        self.state = folder / "home/backend"

    def stack(self, name: str, program: Callable[[], None]) -> automation.Stack:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return automation.create_or_select_stack(
            stack_name=name,
            project_name="package",
            program=program,
            opts=automation.LocalWorkspaceOptions(work_dir=str(folder), env_vars=self._env),
        )


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, running_cluster: Cluster) -> Iterator[Workspace]:
    before = dict(os.environ)
    made = Workspace(tmp_path_factory.mktemp("package"), running_cluster)
    os.environ["PATH"] = made._env["PATH"]
    yield made
    os.environ.clear()
    os.environ.update(before)


def values(outputs: Mapping[str, automation.OutputValue]) -> dict[str, Any]:
    return {name: output.value for name, output in outputs.items()}


def secret_of(cluster: Cluster, namespace: str, name: str) -> dict[str, str]:
    data = cluster.api.get(SECRETS.format(namespace=namespace, name=name)).accepted()["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def export(component: pulumi.ComponentResource, *names: str) -> None:
    for name in names:
        pulumi.export(name, getattr(component, name))


@pytest.mark.usefixtures("replica")
def test_a_cache_is_waited_for_and_says_where_it_is(
    workspace: Workspace, running_cluster: Cluster, namespace: str
) -> None:
    names = ("host", "port", "configMapName", "name", "namespace")

    def program() -> None:
        inputs = {"namespace": namespace, "size": 2, "port": 11300, "binding": "ConfigMap"}
        export(Component("Cache", "sessions", inputs, names), *names)

    stack = workspace.stack("cache", program)
    planned = stack.preview()
    assert planned.change_summary[automation.OpType.CREATE] == 3
    found = values(stack.up().outputs)
    api = running_cluster.api
    ready = running_cluster.ready(
        ref_to(KINDS_BY_NAME["memcacheds.cache.example.com"], namespace, "sessions")
    )
    assert ready["status"] == "True"
    listed = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{found['configMapName']}").accepted()["data"]
    assert (found["host"], str(int(found["port"]))) == (listed["host"], listed["port"])
    assert found["port"] == 11300
    service = api.get(f"/api/v1/namespaces/{namespace}/services/sessions").accepted()
    assert service["spec"]["ports"][0]["port"] == 11300
    assert (found["name"], found["namespace"]) == ("sessions", namespace)
    again = stack.up(expect_no_changes=True)
    assert set(again.summary.resource_changes or {}) == {"same"}
    stack.destroy()
    assert (
        api.get(f"/apis/cache.example.com/v1alpha1/namespaces/{namespace}/memcacheds/sessions").status == 404
    )


@pytest.mark.usefixtures("replica")
def test_a_database_says_where_it_is_and_which_secret_has_the_login(
    workspace: Workspace, running_cluster: Cluster, namespace: str
) -> None:
    names = ("host", "port", "secretName")

    def program() -> None:
        inputs = {
            "name": "rows",
            "namespace": namespace,
            "defaultUser": "shop",
            "storageSize": "2Gi",
            "spec": {"parameters": {"work_mem": "8MB"}, "password": "canary-in-a-state"},
            # No server runs here, so it is never Ready.
            "waitForReady": False,
        }
        export(Component("Database", "orders", inputs, names), *names)

    stack = workspace.stack("database", program)
    found = values(stack.up().outputs)
    binding = SECRETS.format(namespace=namespace, name=found["secretName"])
    wait_until(lambda: running_cluster.api.get(binding).status == 200, seconds=60, what="no binding")
    login = secret_of(running_cluster, namespace, found["secretName"])
    assert (found["host"], found["port"]) == (login["host"], int(login["port"]))
    assert login["username"] == "shop"
    kind = KINDS_BY_NAME["postgresqls.database.technotuesday.io"]
    resource = running_cluster.get(ref_to(kind, namespace, "rows"))
    assert resource is not None
    assert resource["spec"]["storage"] == {"size": "2Gi"}
    assert resource["spec"]["parameters"] == {"work_mem": "8MB"}
    states = list(workspace.state.rglob("database*.json"))
    assert states
    assert not [file for file in states if "canary-in-a-state" in file.read_text()]
    stack.destroy()


@pytest.mark.usefixtures("replica")
def test_a_wait_in_vain_ends_in_time(workspace: Workspace, namespace: str) -> None:
    def program() -> None:
        Component("Database", "never", {"namespace": namespace, "timeoutSeconds": 5}, ())

    stack = workspace.stack("never", program)
    with pytest.raises(automation.CommandError) as error:
        stack.up()
    said = str(error.value)
    assert "LoginFailed: No login through never." in said
    assert "timed out waiting for the condition" in said
    stack.destroy()


def test_a_wrong_input_ends_a_preview_with_its_name_and_a_remedy(
    workspace: Workspace, namespace: str
) -> None:
    def program() -> None:
        Component("Cache", "wrong", {"namespace": namespace, "size": 4}, ())

    with pytest.raises(automation.CommandError) as error:
        workspace.stack("wrong", program).preview()
    said = str(error.value)
    assert (
        "property size with value '{4}' has a problem: cannot be `4`: set it to a number from 1 to 3" in said
    )
    assert "infra/package" not in said

"""The Pulumi package on a real API server: what programs make with it, and what comes back to them.

The plugin is the process that Pulumi starts. The programs use it by Pulumi's Automation API.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation

from infra.distribution import pulumi_package, rendering
from infra.paths import REPOSITORY
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.controllers import controllers
from tests.apiserver.support.controlplane import control_plane
from tests.apiserver.support.kubelet import kubelet
from tests.apiserver.support.pulumi_package import IMAGES, Component, Workspace, env_vars, process, schema_of

CACHE = KINDS_BY_NAME["memcacheds.cache.example.com"]
DATABASE = KINDS_BY_NAME["postgresqls.database.technotuesday.io"]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, running_cluster: Cluster) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("package"), running_cluster.plane)


def values(outputs: Mapping[str, automation.OutputValue]) -> dict[str, Any]:
    return {name: output.value for name, output in outputs.items()}


def export(component: pulumi.ComponentResource, *names: str) -> None:
    pulumi.export(component._name, {name: getattr(component, name) for name in names})


@pytest.mark.usefixtures("replica")
def test_a_program_gets_host_port_and_secret(
    workspace: Workspace, running_cluster: Cluster, namespace: str
) -> None:
    ends = ("host", "port", "secretName", "configMapName", "name", "namespace")

    def program() -> None:
        cached = {"namespace": namespace, "size": 2, "port": 11300, "binding": "ConfigMap"}
        cache = Component("Cache", "sessions", cached, ends)
        export(cache, *ends)
        database = {
            "name": "rows",
            "namespace": namespace,
            "defaultUser": "shop",
            "storageSize": "2Gi",
            "spec": {"parameters": {"work_mem": "8MB"}, "password": "canary-in-a-state"},
            # No server runs here, so it is never Ready.
            "waitForReady": False,
        }
        export(Component("Database", "orders", database, ends, depends_on=cache), *ends)

    stack = workspace.stack("both", program)
    found = values(stack.up().outputs)
    api = running_cluster.api
    cache, database = found["sessions"], found["orders"]

    assert running_cluster.ready(ref_to(CACHE, namespace, "sessions"))["status"] == "True"
    listed = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{cache['configMapName']}").accepted()["data"]
    assert (cache["host"], str(int(cache["port"]))) == (listed["host"], listed["port"])
    service = api.get(f"/api/v1/namespaces/{namespace}/services/sessions").accepted()
    assert service["spec"]["ports"][0]["port"] == cache["port"] == 11300
    assert (cache["name"], cache["namespace"]) == ("sessions", namespace)

    binding = f"/api/v1/namespaces/{namespace}/secrets/{database['secretName']}"
    wait_until(lambda: api.get(binding).status == 200, seconds=60, what="no binding")
    data = api.get(binding).accepted()["data"]
    login = {key: base64.b64decode(value).decode() for key, value in data.items()}
    assert (database["host"], database["port"]) == (login["host"], int(login["port"]))
    assert login["username"] == "shop"
    resource = running_cluster.get(ref_to(DATABASE, namespace, "rows"))
    assert resource is not None
    assert resource["spec"]["storage"] == {"size": "2Gi"}
    assert resource["spec"]["parameters"] == {"work_mem": "8MB"}
    states = list(workspace.state.rglob("both*.json"))
    assert states
    assert not [file for file in states if "canary-in-a-state" in file.read_text()]

    again = stack.up(expect_no_changes=True)
    assert set(again.summary.resource_changes or {}) == {automation.OpType.SAME}
    stack.destroy()
    assert running_cluster.get(ref_to(CACHE, namespace, "sessions")) is None


def test_a_wrong_input_ends_a_preview_with_its_name_and_a_remedy(
    workspace: Workspace, namespace: str
) -> None:
    def program() -> None:
        Component("Cache", "wrong", {"namespace": namespace, "size": 101})

    with pytest.raises(automation.CommandError) as error:
        workspace.stack("wrong", program).preview()
    said = str(error.value)
    assert (
        "property size with value '{101}' has a problem: cannot be `101`: set it to a number from 1 to 100"
        in said
    )
    assert "infra/package" not in said


@pytest.mark.thorough
@pytest.mark.usefixtures("replica")
def test_a_wait_in_vain_ends_in_time_and_says_what_the_operator_says(
    workspace: Workspace, namespace: str
) -> None:
    def program() -> None:
        Component("Database", "never", {"namespace": namespace, "timeoutSeconds": 5})

    stack = workspace.stack("never", program)
    with pytest.raises(automation.CommandError) as error:
        stack.up()
    said = str(error.value)
    assert "LoginFailed: No login through never." in said
    assert "timed out waiting for the condition" in said
    stack.destroy()


@pytest.mark.thorough
def test_outputs_are_known_in_a_preview(workspace: Workspace, namespace: str) -> None:
    """So that a preview shows what uses them with their values."""

    def program() -> None:
        made = Component("Database", "planned", {"namespace": namespace}, ("host", "port", "secretName"))
        ends: Any = made
        pulumi.export("all", pulumi.Output.concat(ends.host, " ", ends.secretName))

    said = workspace.stack("planned", program).preview().stdout
    assert f"planned.{namespace}.svc planned-binding" in said


@pytest.mark.thorough
def test_the_operator_is_installed_and_its_definitions_are_protected(tmp_path: Path) -> None:
    protect = True

    def program() -> None:
        made = Component(
            "Operator", "kindling", {"images": IMAGES, "protect": protect}, ("namespace", "image")
        )
        export(made, "namespace", "image")
        # Of a kind that the cluster does not know before.
        cached = {"namespace": "default", "waitForReady": False}
        export(Component("Cache", "sessions", cached, ("host",), depends_on=made), "host")

    with (
        control_plane(directory=tmp_path) as plane,
        controllers(plane),
        kubelet(plane),
        closing(Api(plane)) as api,
    ):
        stack = Workspace(tmp_path / "package", plane).stack("operator", program)
        stack.preview()
        done = stack.up()
        assert done.outputs["sessions"].value == {"host": "sessions.default.svc"}
        assert done.outputs["kindling"].value == {"namespace": "kindling-system", "image": IMAGES["operator"]}
        (expected,) = rendering.render([rendering.Request(rendering.default_operator(), IMAGES)])
        resources = (stack.export_stack().deployment or {})["resources"]
        made = [item for item in resources if item["type"].startswith("kubernetes:")]
        assert len(made) == len(expected) + 1
        path = "/apis/apps/v1/namespaces/kindling-system/deployments/kindling-operator"
        status = api.get(path).accepted()["status"]
        assert status["readyReplicas"] == 2
        definitions = [item for item in expected if item["kind"] == "CustomResourceDefinition"]
        with pytest.raises(automation.CommandError, match="protected"):
            stack.destroy()
        assert len(api.get(DEFINITIONS).accepted()["items"]) == len(definitions)
        protect = False
        stack.up()
        stack.destroy()
        assert api.get(DEFINITIONS).accepted()["items"] == []


@pytest.mark.thorough
def test_pulumi_installs_the_archive_with_all_that_it_needs(workspace: Workspace, tmp_path: Path) -> None:
    """By the guide's command; then the plugin answers in the environment that Pulumi has made for it."""
    found = pulumi_package.files(REPOSITORY, version="1.2.3", images=IMAGES)
    for name, content in found.items():
        (tmp_path / name).write_bytes(content)
    guide = (REPOSITORY / "docs/guides/pulumi-package.md").read_text()
    command = "pulumi plugin install resource kindling 1.2.3 --file kindling-pulumi-1.2.3.tgz"
    assert f"\n{command}\n" in guide
    home = tmp_path / "home"
    env = {**env_vars(home, workspace.plane), "HOME": str(tmp_path)}
    subprocess.run(command.split(), cwd=tmp_path, env=env, check=True, timeout=1200)
    plugin = home / "plugins/resource-kindling-v1.2.3"
    # Today's host makes the environment where PulumiPlugin.yaml says, an older one in the folder itself.
    (python,) = [path for name in (".venv", ".") if (path := plugin / name / "bin/python").exists()]
    with process(plugin, python=str(python)) as stub:
        assert schema_of(stub)["version"] == "1.2.3"

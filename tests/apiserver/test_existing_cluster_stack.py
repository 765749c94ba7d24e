"""A stack in an existing cluster, its whole life: real Pulumi, provider, API server and registry."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.existing import ROWS, SETTINGS, configure, new_stack, ok, refused, rewrite
from tests.unit.infra.cli_machine import Machine
from tests.unit.infra.registry_server import registry


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def machine(tmp_path: Path, plane: ControlPlane, host: str) -> Machine:
    return new_stack(tmp_path, plane, host=host)


def state(machine: Machine) -> list[dict[str, Any]]:
    record = machine.home / "state/pulumi/.pulumi/stacks/kindling/staging.json"
    found: list[dict[str, Any]] = json.loads(record.read_text())["checkpoint"]["latest"]["resources"]
    return found


def administrator(api: Api) -> str:
    """Another token with every right."""
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "other-admin"}}
    api.create("/api/v1/namespaces/default/serviceaccounts", account).accepted()
    binding = {
        "kind": "ClusterRoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "other-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "other-admin", "namespace": "default"}],
    }
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).accepted()
    review = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    answer = api.create("/api/v1/namespaces/default/serviceaccounts/other-admin/token", review).accepted()
    token: str = answer["status"]["token"]
    return token


def test_the_life_of_a_stack_in_an_existing_cluster(
    machine: Machine, plane: ControlPlane, api: Api, host: str
) -> None:
    assert "to create" in ok(machine, "preview", "staging")
    ok(machine, "up", "staging")
    uid = api.get(ROWS).accepted()["metadata"]["uid"]
    (cluster,) = (r for r in state(machine) if r["type"].endswith("dynamic/existing:Cluster"))
    assert cluster["id"] == api.get("/api/v1/namespaces/kube-system").accepted()["metadata"]["uid"]
    record = json.dumps(state(machine))
    assert plane.token not in record
    (provider,) = (r for r in state(machine) if r["type"] == "pulumi:providers:kubernetes")
    assert provider["inputs"]["kubeconfig"] == "", "another machine has another path"

    # New credentials and another address of the same cluster: not a thing changes.
    rewrite(machine, token=administrator(api), server=plane.url.replace("127.0.0.1", "localhost"))
    unchanged = (
        "exec",
        "--stack",
        "staging",
        "pulumi",
        "up",
        "--yes",
        "--skip-preview",
        "--expect-no-changes",
    )
    ok(machine, *unchanged)
    # Another name for the context is written down, and replaces nothing.
    renamed = json.loads((machine.home / "kubeconfig").read_text())
    renamed["contexts"][0]["name"] = "renamed"
    (machine.home / "kubeconfig").write_text(json.dumps(renamed))
    configure(machine, host=host, context="renamed")
    ok(machine, "up", "staging")
    assert api.get(ROWS).accepted()["metadata"]["uid"] == uid

    # Without the cluster a preview still says what would change.
    kubeconfig = (machine.home / "kubeconfig").read_text()
    (machine.home / "kubeconfig").unlink()
    configure(machine, host=host, context="renamed", more="  kindling:replicas: 3\n")
    assert "1 to replace" in ok(machine, "preview", "staging")
    (machine.home / "kubeconfig").write_text(kubeconfig)

    # Protected: refused as a whole, in our words and, by its own command, in Pulumi's.
    configure(machine, host=host, context="renamed", protect="auto")
    ok(machine, "up", "staging")
    message = refused(machine, "destroy", "staging")
    assert "stack `staging` is protected against destroy" in message
    assert "rows" in message
    assert "kindling:protect to false" in message
    assert machine.cli("exec", "--stack", "staging", "pulumi", "destroy", "--yes").returncode != 0
    assert api.get(ROWS).accepted()["metadata"]["uid"] == uid
    assert api.get(SETTINGS).status == 200, "half a stack is worse than a whole one"

    configure(machine, host=host, context="renamed")
    ok(machine, "up", "staging")
    assert "Stack staging is gone." in ok(machine, "destroy", "staging")
    assert (api.get(ROWS).status, api.get(SETTINGS).status) == (404, 404)
    assert api.get("/api/v1/namespaces/kube-system").status == 200
    assert "nothing to destroy" in ok(machine, "destroy", "staging")


def test_what_stops_an_up_is_said_before_anything_is_touched(
    machine: Machine, plane: ControlPlane, host: str
) -> None:
    good = (machine.home / "kubeconfig").read_text()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{held.getsockname()[1]}"
    rewrite(machine, server=f"https://{closed}")
    assert "cannot be reached" in refused(machine, "up", "staging")
    (machine.home / "kubeconfig").write_text(good)
    rewrite(machine, token="canary-token")
    assert "does not accept its credentials" in refused(machine, "up", "staging")
    (machine.home / "kubeconfig").write_text(good)
    configure(machine, host=host, context="nowhere")
    assert "there is no context `nowhere`" in refused(machine, "up", "staging")
    configure(machine, host=closed)
    assert f"the registry {closed} does not answer" in refused(machine, "up", "staging")
    configure(machine, host=host)
    ok(machine, "up", "staging")
    ok(machine, "destroy", "staging")


def test_a_context_that_leads_elsewhere_stops_up_and_destroy(machine: Machine, api: Api, host: str) -> None:
    ok(machine, "up", "staging")
    record = machine.home / "state/pulumi/.pulumi/stacks/kindling/staging.json"
    here = api.get("/api/v1/namespaces/kube-system").accepted()["metadata"]["uid"]
    good = record.read_text()
    record.write_text(good.replace(here, "00000000-0000-0000-0000-000000000000"))
    for verb in ("up", "destroy"):
        message = refused(machine, verb, "staging")
        assert "leads to another cluster than the one stack `staging` is in" in message
        assert "--preserve-config" in message
    assert api.get(ROWS).status == 200
    record.write_text(good)
    ok(machine, "destroy", "staging")

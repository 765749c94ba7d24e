"""Asking an existing cluster by kubectl: which it is, what one may do there, what is said if one may not."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kindling.kube import versions

from infra import rbac, settings
from infra.cli import setup_steps
from infra.cli.commands import doctor
from infra.cli.stacks import file_backend, preflight
from infra.drivers.cluster_context import OLDEST, ClusterContext, Permission
from infra.errors import KindlingError
from infra.resources import host
from infra.resources.existing_cluster import ExistingClusterProvider
from infra.settings import stack_files
from tests.apiserver.support.accounts import with_rights
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane, tool
from tests.convergence.proxy import proxy

CRDS = Permission("create", "customresourcedefinitions", "apiextensions.k8s.io")


def access(plane: ControlPlane, folder: Path, **changed: Any) -> ClusterContext:
    """By a kubeconfig of its own; `changed` replaces its token, server or context."""
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = changed.get("token", plane.token)
    config["clusters"][0]["cluster"]["server"] = changed.get("server", plane.url)
    file = folder / f"kubeconfig-{len(list(folder.iterdir()))}"
    file.write_text(json.dumps(config))
    return ClusterContext(tool("kubectl"), changed.get("context", "test"), str(file))


@pytest.fixture(scope="module")
def weak(plane: ControlPlane, api: Api) -> str:
    """A token that may look at namespaces and nothing more."""
    manifests: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces/default/serviceaccounts", {"kind": "ServiceAccount", "apiVersion": "v1"}),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {
                "kind": "ClusterRole",
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}],
            },
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "kind": "ClusterRoleBinding",
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "weak"},
                "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": "default"}],
            },
        ),
    ]
    for path, manifest in manifests:
        api.create(path, {**manifest, "metadata": {"name": "weak"}}).accepted()
    review = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    answer = api.create("/api/v1/namespaces/default/serviceaccounts/weak/token", review)
    token: str = answer.accepted()["status"]["token"]
    return token


def test_the_cluster_has_one_id_by_whatever_credentials(
    plane: ControlPlane, tmp_path: Path, weak: str
) -> None:
    uid = access(plane, tmp_path).uid()
    assert len(uid) == 36
    assert access(plane, tmp_path, token=weak).uid() == uid


def test_an_administrator_lacks_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    assert access(plane, tmp_path).missing(preflight.required_permissions(served=None)) == []


def test_the_rights_that_lack_are_named(plane: ControlPlane, tmp_path: Path, weak: str) -> None:
    way = access(plane, tmp_path, token=weak)
    assert way.missing([CRDS, Permission("get", "namespaces")]) == [CRDS]
    wanted = preflight.required_permissions(served=("team-a",))
    assert way.missing(wanted) == [right for right in wanted if right != Permission("get", "namespaces")]
    assert "create rolebindings.rbac.authorization.k8s.io in team-a" in [str(right) for right in wanted]
    assert not any("clusterrolebindings" in str(right) for right in wanted)
    assert any("clusterrolebindings" in str(right) for right in preflight.required_permissions(served=None))
    for resource in ("clusterroles", "validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        assert any(right.resource == resource for right in wanted), resource


def settings_of(*kinds: str) -> settings.Settings:
    return settings.Settings(
        stack="staging",
        cluster=settings.ClusterSettings(source=settings.EXISTING, name="", existing_context="test"),
        operator=settings.OperatorSettings(2, "info", (), kinds=kinds),
        samples=settings.SamplesSettings(enabled=False),
        broker=settings.BrokerSettings(enabled=False),
    )


def granting(plane: ControlPlane, api: Api, name: str, *more: dict[str, Any]) -> ClusterContext:
    """Somebody who may do all that `up` itself does, and what `more` says."""
    rules: list[dict[str, Any]] = [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
        for right in preflight.required_permissions(served=None)
    ]
    look = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}
    way = with_rights(plane, api, namespace="preflight", account=name, rules=[*rules, look, *more])
    return ClusterContext(tool("kubectl"), "test", str(way.kubeconfig))


def test_nobody_begins_who_could_not_grant_what_the_operator_needs(
    plane: ControlPlane, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server would refuse the roles in the midst of `up`."""
    found = settings_of("Memcached")
    held: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for verb, resource, group, _ in rbac.grants(["Memcached"], namespaces=None)
    ]
    missing = {"apiGroups": ["cache.example.com"], "resources": ["memcacheds/status"], "verbs": ["patch"]}
    assert missing in held
    few = granting(plane, api, "few", *(rule for rule in held if rule != missing))
    monkeypatch.setattr(preflight, "context_of", lambda _stack, *, kubectl: few)
    with pytest.raises(KindlingError) as raised:
        preflight.check("staging", found, None, kubectl=few.kubectl)
    assert raised.value.why == "they may not patch memcacheds.cache.example.com/status"
    # Kubernetes' own way to grant what one has not: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
    for name, more in (("all", held), ("escalating", [over_roles("escalate", "bind")])):
        way = granting(plane, api, name, *more)
        monkeypatch.setattr(preflight, "context_of", lambda _stack, *, kubectl, way=way: way)
        preflight.check("staging", found, None, kubectl=way.kubectl)


def over_roles(*verbs: str) -> dict[str, Any]:
    return {"apiGroups": [preflight.RBAC], "resources": ["clusterroles"], "verbs": list(verbs)}


def test_whoever_may_write_a_role_and_not_bind_it_is_stopped_before_the_first_write(
    plane: ControlPlane, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server would take the role and refuse its binding."""
    way = granting(plane, api, "unbinding", over_roles("escalate"))
    monkeypatch.setattr(preflight, "context_of", lambda _stack, *, kubectl: way)
    with pytest.raises(KindlingError, match="lack rights"):
        preflight.check("staging", settings_of("Memcached"), None, kubectl=way.kubectl)
    role = {"apiGroup": preflight.RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {
        "apiVersion": f"{preflight.RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "unbinding-all"},
        "roleRef": role,
        "subjects": [{"kind": "User", "name": "somebody", "apiGroup": preflight.RBAC}],
    }
    bindings = f"/apis/{preflight.RBAC}/v1/clusterrolebindings"
    token = json.loads(Path(way.kubeconfig).read_text())["users"][0]["user"]["token"]
    assert Api(dataclasses.replace(plane, token=token)).create(bindings, binding).status == 403
    may = granting(plane, api, "binding", over_roles("escalate", "bind"))
    token = json.loads(Path(may.kubeconfig).read_text())["users"][0]["user"]["token"]
    assert Api(dataclasses.replace(plane, token=token)).create(bindings, binding).status == 201


def test_a_recent_cluster_passes(plane: ControlPlane, tmp_path: Path) -> None:
    access(plane, tmp_path).recent()


def test_a_kubernetes_that_is_too_old_is_refused_before_the_first_write(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the preflight of `up`, by `doctor`, and by the resource, which is the first that Pulumi makes."""
    monkeypatch.setattr(stack_files, "context", lambda _stack: "test")
    monkeypatch.setattr(file_backend, "state", lambda _stack: None)
    folder = tmp_path / "proxy"
    folder.mkdir()
    with proxy(plane, directory=folder) as between:
        between.says_version = "v1.29.14-gke.1"
        way = access(between.plane, tmp_path)
        monkeypatch.setattr(stack_files, "get", lambda _stack, _name: way.kubeconfig)
        machine = setup_steps.HostReport(stack="staging", parts=(), cluster="elsewhere")
        found = settings_of()
        monkeypatch.setattr(host, "cluster_context", lambda _context: way)
        refused: list[Callable[[], object]] = [
            lambda: preflight.check("staging", found, None, kubectl=way.kubectl),
            lambda: ExistingClusterProvider().create({"context": "test"}),
        ]
        for attempt in refused:
            with pytest.raises(KindlingError) as raised:
                attempt()
            assert "context `test` runs Kubernetes v1.29.14-gke.1" in raised.value.what
            assert "1.30 is the oldest that works" in raised.value.why
            assert "upgrade the cluster" in raised.value.remedy
        assert [str(error) for error in doctor._cluster(machine)] == [str(raised.value)]
        assert {asked.method for asked in between.asked} == {"GET"}
        between.says_version = "v1.30.0"
        way.recent()


def test_host_and_operator_agree_on_the_oldest() -> None:
    assert OLDEST == versions.OLDEST


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.mark.parametrize(
    ("changed", "what", "remedy"),
    [
        ({"context": "nowhere"}, "there is no context `nowhere`", "kindling:context"),
        ({"token": "canary-token"}, "does not accept its credentials", "renew them"),
        ({"server": "https://127.0.0.1:{port}"}, "cannot be reached", "API server runs"),
    ],
)
def test_each_way_to_fail_is_one_message(
    plane: ControlPlane, tmp_path: Path, changed: dict[str, str], what: str, remedy: str
) -> None:
    replaced = {key: value.format(port=closed_port()) for key, value in changed.items()}
    with pytest.raises(KindlingError) as raised:
        access(plane, tmp_path, **replaced).uid()
    assert what in raised.value.what
    assert remedy in raised.value.remedy
    assert "canary-token" not in str(raised.value)
    assert len(raised.value.why.splitlines()) == 1
    assert not raised.value.why.startswith(("error", "E1"))


def test_a_token_without_the_right_to_read_is_reported(plane: ControlPlane, api: Api, tmp_path: Path) -> None:
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "nobody"}}
    api.create("/api/v1/namespaces/default/serviceaccounts", account).accepted()
    review = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    answer = api.create("/api/v1/namespaces/default/serviceaccounts/nobody/token", review).accepted()
    with pytest.raises(KindlingError, match="lack a right"):
        access(plane, tmp_path, token=answer["status"]["token"]).uid()

"""Damage done by hand: `drift` says what and where, with an exit status of its own, and `up` heals it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kubelet import kubelet
from tests.pulumi.machine import Host

NAMESPACE = "/api/v1/namespaces/kindling-system"
DEPLOYMENT = "/apis/apps/v1/namespaces/kindling-system/deployments/kindling-operator"
SERVICE = f"{NAMESPACE}/services/kindling-operator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = f"{RBAC}/clusterroles/kindling-operator"
ROLE = f"{RBAC}/namespaces/kindling-system/roles/kindling-operator"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memcacheds.cache.example.com"
EVERYTHING_IS = "Stack dev: everything is as the last `up` left it.\n"


@pytest.fixture(scope="module")
def stack(host: Host, plane: ControlPlane) -> Iterator[Host]:
    """The whole program, up. Each test leaves nothing that differs, which the next relies on."""
    with kubelet(plane):
        done = host.cli("up")
        assert done.returncode == 0, done.stdout + done.stderr
        yield host
        done = host.cli("drift")
        assert (done.returncode, done.stdout) == (0, EVERYTHING_IS), done.stderr


def up(stack: Host) -> str:
    done = stack.cli("up")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drift(stack: Host) -> str:
    """What it prints where it finds some; nothing is written down by it."""
    before = record(stack).read_bytes()
    done = stack.cli("drift")
    assert done.returncode == 3, done.stdout + done.stderr
    assert record(stack).read_bytes() == before
    return done.stdout


def record(stack: Host) -> Path:
    return stack.home / "state/pulumi/.pulumi/stacks/kindling/dev.json"


def replace(api: Api, path: str, body: Json) -> None:
    api.request("PUT", path, body=body).accepted()


def test_what_others_changed_is_reported_field_by_field_and_put_back(stack: Host, api: Api) -> None:
    """All in one run, as each takes its seconds: what was taken, edited, deleted, and lost from a node."""
    role = api.get(CLUSTER_ROLE).accepted()
    rule = role["rules"][3]
    replace(api, CLUSTER_ROLE, {**role, "rules": [each for each in role["rules"] if each != rule]})
    deployment = edited_deployment(api)
    crd = api.get(CRD).accepted()
    version = crd["spec"]["versions"][0]
    column = version["additionalPrinterColumns"].pop(1)["name"]
    replace(api, CRD, crd)
    api.delete(SERVICE).accepted()
    label = "pod-security.kubernetes.io/enforce"
    api.merge(NAMESPACE, {"metadata": {"labels": {label: None}}}).accepted()

    reported = drift(stack)
    assert "Stack dev: 5 resources are not as the last `up` left it." in reported
    # One line, where Pulumi's own account would change every rule behind it.
    gone = json.dumps({key: rule[key] for key in sorted(rule)})
    assert below(reported, "ClusterRole kindling-operator") == [f"rules[3]: gone, recorded {gone}"]
    path = "spec.template.spec.containers[operator]"
    assert {
        "spec.replicas: 3, recorded 2",
        f'{path}.env[KINDLING_LOG_LEVEL].value: "DEBUG", recorded "INFO"',
        f'{path}.resources.limits.memory: "1Gi", recorded "256Mi"',
    } <= set(below(reported, "Deployment kindling-system/kindling-operator"))
    (line,) = below(reported, "CustomResourceDefinition memcacheds.cache.example.com")
    assert line.startswith(f"spec.versions[{version['name']}].additionalPrinterColumns[{column}]: gone")
    assert "  Service kindling-system/kindling-operator: gone\n" in reported
    assert f'    metadata.labels.{label}: gone, recorded "restricted"\n' in reported

    up(stack)
    assert api.get(CLUSTER_ROLE).accepted()["rules"] == role["rules"]
    found = api.get(DEPLOYMENT).accepted()
    assert found["spec"]["replicas"] == 2
    assert found["metadata"]["uid"] == deployment["metadata"]["uid"]
    columns = api.get(CRD).accepted()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [each["name"] for each in columns][1] == column
    assert api.get(SERVICE).status == 200
    assert api.get(NAMESPACE).accepted()["metadata"]["labels"][label] == "restricted"


def edited_deployment(api: Api) -> Json:
    """From another field manager, as after `kubectl scale` and `kubectl edit`; returns what it was made."""
    deployment = api.get(DEPLOYMENT).accepted()
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    level = next(item for item in container["env"] if item["name"] == "KINDLING_LOG_LEVEL")
    level["value"] = "DEBUG"
    container["resources"]["limits"]["memory"] = "1Gi"
    deployment["spec"]["replicas"] = 3
    replace(api, DEPLOYMENT, deployment)
    return deployment


def below(reported: str, resource: str) -> list[str]:
    """The lines of a report that are this resource's."""
    lines = reported.partition(f"  {resource}\n")[2].splitlines()
    return [line.strip() for line in itertools.takewhile(lambda line: line.startswith("    "), lines)]


def test_what_pulumi_alone_does_not_see_is_reported_too_and_nothing_rolls(stack: Host, api: Api) -> None:
    """An image on no node, a rule beside ours, and a definition that is gone though others come after it."""
    images = stack.memory["images"]
    before = api.get(DEPLOYMENT).accepted()["metadata"]["generation"]
    stack.remember(images=[ref for ref in images if "operator" not in ref])
    role = api.get(ROLE).accepted()
    more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    replace(api, ROLE, {**role, "rules": [*role["rules"], more]})
    api.delete(CRD).accepted()
    wait_until(lambda: api.get(CRD).status == 404, seconds=30, what="it is gone")
    reported = drift(stack)
    assert "  CustomResourceDefinition memcacheds.cache.example.com: gone\n" in reported
    assert "  Image localhost/kindling-operator:" in reported
    assert ": not on every node\n" in reported
    assert f"  Role kindling-system/kindling-operator\n    rules: {json.dumps(more)} added\n" in reported
    assert "may stay" in reported
    api.delete(ROLE).accepted()
    up(stack)
    assert api.get(CRD).status == 200
    assert sorted(stack.memory["images"]) == sorted(images)
    assert api.get(DEPLOYMENT).accepted()["metadata"]["generation"] == before
    assert api.get(ROLE).accepted()["rules"] == role["rules"]


def test_cluster_that_is_gone_is_one_line_and_needs_no_cluster(stack: Host) -> None:
    nodes = stack.memory["nodes"]
    stack.remember(nodes={})
    assert drift(stack).splitlines()[2:3] == [
        "  kind cluster kindling-dev: gone, and with it all that it held"
    ]
    stack.remember(nodes=nodes)


def test_unreachable_cluster_is_a_failure_and_no_drift(stack: Host, tmp_path: Path) -> None:
    kubeconfig = Path(stack.memory["kubeconfig"])
    config = json.loads(kubeconfig.read_text())
    server = config["clusters"][0]["cluster"]["server"]
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    stack.remember(kubeconfig=str(tmp_path / "kubeconfig"))
    failed = stack.cli("up")
    assert failed.returncode == 1
    done = stack.cli("drift")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("configured Kubernetes cluster is unreachable") == 1, done.stderr
    assert "remedy: " in done.stderr
    stack.remember(kubeconfig=str(kubeconfig))
    assert server in kubeconfig.read_text()
    # With the way in of today, not the one in the record.
    up(stack)


@pytest.mark.thorough
def test_another_way_into_the_same_cluster_replaces_nothing(
    stack: Host, plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    config = json.loads(plane.kubeconfig.read_text())
    config["contexts"][0]["name"] = config["current-context"] = "renamed"
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    before = api.get(DEPLOYMENT).accepted()["metadata"]
    stack.remember(kubeconfig=str(tmp_path / "kubeconfig"))
    reported = up(stack)
    stack.remember(kubeconfig=str(plane.kubeconfig))
    reported += up(stack)
    assert "replaced" not in reported
    assert "created" not in reported
    after = api.get(DEPLOYMENT).accepted()["metadata"]
    assert (after["uid"], after["generation"]) == (before["uid"], before["generation"])


def test_run_at_work_elsewhere_stops_up_alone_and_the_state_stays_usable(stack: Host) -> None:
    """What only looks takes no lock, and need not wait."""
    lock = stack.home / "state/pulumi/.pulumi/locks/organization/kindling/dev/0123.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(
        json.dumps({"pid": 1, "username": "ci", "hostname": "runner", "timestamp": "2026-01-01T00:00:00Z"})
    )
    for verb in ("drift", "preview"):
        done = stack.cli(verb)
        assert done.returncode == 0, done.stderr
    done = stack.cli("up")
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 1
    assert "stack `dev` is being changed by another run" in done.stderr
    assert "ci@runner" in done.stderr
    lock.unlink()

"""A release as its users have it: its folder, kubectl, kustomize, Helm, and an API server with controllers.

No container runs, which no way of installing needs: the objects are what is compared. The release is made by
the command that the guide prints, and everything else that it prints is run here, too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import manifests
from infra.distribution import rendering
from infra.distribution.integrations import default_values
from infra.distribution.rendering import Request
from infra.manifests import Manifest
from infra.paths import REPOSITORY
from tests.apiserver.support.controllers import controllers
from tests.apiserver.support.controlplane import ControlPlane, control_plane, tool
from tests.apiserver.support.kubelet import kubelet
from tests.unit.infra import releases
from tests.unit.infra.releases import IMAGES

VERSION = "1.2.3"
CHART = f"kindling-{VERSION}.tgz"
NAMESPACE = "kindling-system"
DEFINITIONS = len(manifests.definitions())
GUIDE = REPOSITORY / "docs/guides/install.md"
SECONDS = 120.0
MADE = re.compile(r"^\$ python3 -m infra (release .*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release, made by the guide's command, with every image of it."""
    checkout = releases.checkout(tmp_path_factory.mktemp("release") / "checkout", version=VERSION)
    found = MADE.search(GUIDE.read_text())
    assert found is not None
    _, *words = shlex.split(found[1])
    at = words.index("--images") + 1
    assert words[at:] == [re.sub(r"[0-9]{64}$", "DIGEST", IMAGES["operator"]), "…"]
    done = releases.command(checkout, *words[:at], *IMAGES.values())
    assert done.returncode == 0, done.stderr
    return checkout.parent / f"kindling-{VERSION}"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An empty cluster with Kubernetes' controllers, in which every Pod is said to run."""
    with (
        control_plane(directory=tmp_path_factory.mktemp("plane")) as running,
        controllers(running),
        kubelet(running),
    ):
        yield running


class Shell:
    """Where a user types: in the release's folder, with kubectl and Helm."""

    def __init__(self, folder: Path, *, home: Path, kubeconfig: Path | None = None) -> None:
        self.folder = folder
        programs = [str(tool(name).parent) for name in ("kubectl", "helm")]
        self._environment = {
            "PATH": os.pathsep.join([*programs, "/usr/bin", "/bin"]),
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig or home / "none"),
        }

    def run(self, line: str, *words: str | Path) -> str:
        """What a command prints; it must succeed."""
        done = self._run([*shlex.split(line), *map(str, words)])
        assert done.returncode == 0, f"{line}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def refused(self, line: str) -> str:
        """The message of a command that must fail."""
        done = self._run(shlex.split(line))
        assert done.returncode != 0, done.stdout
        return done.stderr

    def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def offline(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """For what needs no cluster."""
    return Shell(folder, home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def shell(folder: Path, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(folder, home=tmp_path_factory.mktemp("home"), kubeconfig=plane.kubeconfig)


def objects(text: str) -> dict[rendering.Key, Manifest]:
    """What a stream of YAML has, without the marks of tools and without the order of rules."""
    return by_key(item for item in yaml.load_all(text, yaml.CSafeLoader) if item)


def by_key(found: Iterable[Manifest]) -> dict[rendering.Key, Manifest]:
    return {rendering.key(item): without_marks(item) for item in found}


MARKS = re.compile(
    r"(meta\.helm\.sh|helm\.sh|kubectl\.kubernetes\.io|deployment\.kubernetes\.io|pulumi\.com)/"
    r"|app\.kubernetes\.io/managed-by$"
)
# What the server makes of an object, whoever creates it.
SERVERS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")


def without_marks(found: Manifest) -> Manifest:
    metadata = {name: value for name, value in found["metadata"].items() if name not in SERVERS}
    for name in ("labels", "annotations"):
        kept = {key: text for key, text in metadata.pop(name, {}).items() if not MARKS.match(key)}
        metadata |= {name: kept} if kept else {}
    rest = {name: value for name, value in found.items() if name not in ("metadata", "status")}
    if "rules" in rest:
        rest["rules"] = sorted(rest["rules"], key=json.dumps)
    if found["kind"] == "Service":  # Its address is of the server's choice.
        addresses = ("clusterIP", "clusterIPs")
        rest["spec"] = {name: value for name, value in rest["spec"].items() if name not in addresses}
    return {**rest, "metadata": metadata}


def without_namespace(found: Mapping[rendering.Key, Manifest]) -> dict[rendering.Key, Manifest]:
    """That is Helm's own to make, before the chart's objects."""
    return {key: item for key, item in found.items() if item["kind"] != "Namespace"}


# The chart, without a cluster.

TEMPLATE = f"helm template kindling {CHART} --namespace {NAMESPACE}"


def test_helm_finds_nothing_wrong_with_the_chart(offline: Shell) -> None:
    assert "0 chart(s) failed" in offline.run(f"helm lint --strict {CHART}")


def test_the_chart_by_default_is_install_yaml(offline: Shell) -> None:
    found = objects(offline.run(TEMPLATE))
    assert found == without_namespace(objects((offline.folder / "install.yaml").read_text()))


def test_what_an_uninstall_leaves_are_the_definitions(offline: Shell) -> None:
    found = [item for item in yaml.load_all(offline.run(TEMPLATE), yaml.CSafeLoader) if item]
    kept = [
        item["kind"]
        for item in found
        if item["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    ]
    assert kept == ["CustomResourceDefinition"] * DEFINITIONS
    assert sum(item["kind"] == "CustomResourceDefinition" for item in found) == DEFINITIONS


AMOUNTS = {"requests": {"cpu": "70m", "memory": "99Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
HEADERS = {"secretKeyRef": {"name": "otlp", "key": "headers"}}
PODS: dict[str, Any] = {
    "labels": {"team": "platform", "app.kubernetes.io/name": "no: ours stays"},
    "annotations": {"sidecar.istio.io/inject": "false", "text": 'a "b" {{ c }}: #d'},
    "nodeSelector": {"pool": "system"},
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "imagePullSecrets": [{"name": "operators"}],
    "resources": {"operator": AMOUNTS, "prober": AMOUNTS},
    "env": [
        {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.monitoring:4318"},
        {
            "name": "OTEL_EXPORTER_OTLP_HEADERS",
            "valueFrom": HEADERS,
        },
    ],
}
ALL_KINDS = manifests.kinds()
SOME = [[kind] for kind in ALL_KINDS] + [[kind for kind in ALL_KINDS if kind != other] for other in ALL_KINDS]
CASES: dict[str, dict[str, Any]] = {
    "replicas": {"replicas": 5, "logLevel": "debug"},
    "secrets": {"imagePullSecrets": [{"name": "a"}, {"name": "b.c"}]},
    "pods": {"operatorPod": PODS},
    "pods-and-secrets": {"operatorPod": PODS, "imagePullSecrets": [{"name": "all"}]},
    "watched": {"watchNamespaces": ["team-a", "team-b"]},
    "many-watched": {"watchNamespaces": [f"team-{number}" for number in range(21)]},
    "namespaces": {"scope": "namespaces", "watchNamespaces": ["team-a", NAMESPACE]},
    **{
        f"kinds-{'-'.join(kinds)}": {
            "kinds": kinds,
            "scope": "namespaces" if number % 2 else "cluster",
            "watchNamespaces": ["team-a"] if number % 2 else [],
        }
        for number, kinds in enumerate(SOME)
    },
}


def request(values: Mapping[str, Any]) -> Request:
    """The settings of a stack for the same values."""
    names = {"logLevel": "log_level", "watchNamespaces": "watch_namespaces", "operatorPod": "pod"}
    lists = ("kinds", "watchNamespaces")
    operator = {
        names.get(name, name): tuple(value) if name in lists else value
        for name, value in values.items()
        if name != "imagePullSecrets"
    }
    secrets = [item["name"] for item in values.get("imagePullSecrets", ())]
    return Request(rendering.default_operator(**operator), IMAGES, secrets)


@pytest.fixture(scope="module")
def declared() -> dict[str, list[Manifest]]:
    """What `up` would make for each of the cases."""
    rendered = rendering.render([request(values) for values in CASES.values()])
    return dict(zip(CASES, rendered, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_chart_with_values_is_what_up_makes_with_such_settings(
    offline: Shell, declared: dict[str, list[Manifest]], tmp_path: Path, name: str
) -> None:
    (tmp_path / "values.yaml").write_text(json.dumps(CASES[name]))
    found = objects(offline.run(TEMPLATE, "--values", tmp_path / "values.yaml"))
    assert found == without_namespace(by_key(declared[name]))


def test_another_namespace(offline: Shell) -> None:
    text = offline.run(TEMPLATE.replace(NAMESPACE, "elsewhere"))
    assert NAMESPACE not in text
    (binding,) = (item for item in objects(text).values() if item["kind"] == "ClusterRoleBinding")
    assert [subject["namespace"] for subject in binding["subjects"]] == ["elsewhere"]


def shipped(*paths: str) -> list[Manifest]:
    return [yaml.safe_load((REPOSITORY / "integrations" / path).read_text()) for path in paths]


def test_the_chart_has_monitoring_for_those_who_ask_for_it(offline: Shell) -> None:
    """Equal to the files that are tested against a real Prometheus, templates of alerts and panels too."""
    switches = [f"--set monitoring.{name}.enabled=true" for name in default_values()]
    labelled = "--set monitoring.prometheusRule.labels.release=prometheus"
    found = objects(offline.run(" ".join([TEMPLATE, *switches, labelled])))
    before = objects(offline.run(TEMPLATE))
    added = {key: item for key, item in found.items() if key not in before}
    by_kind = {item["kind"]: item for item in added.values()}
    assert len(added) == len(by_kind) == 4
    monitor, pods, rules = shipped(
        "prometheus/service-monitor.yaml", "prometheus/pod-monitor.yaml", "prometheus/rules.yaml"
    )
    assert (by_kind["ServiceMonitor"], by_kind["PodMonitor"]) == (monitor, pods)
    rules["metadata"]["labels"] = {"release": "prometheus"}
    assert by_kind["PrometheusRule"] == rules
    dashboards = by_kind["ConfigMap"]
    assert dashboards["metadata"]["labels"] == {"grafana_dashboard": "1"}
    files = sorted((REPOSITORY / "integrations/grafana").iterdir())
    assert dashboards["data"] == {path.name: path.read_text() for path in files}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("monitoring.rules.enabled=true", "rules"),
        ("monitoring.serviceMonitor.enabled=maybe", "/monitoring/serviceMonitor/enabled"),
        ("monitoring.dashboards.labels.a=1", "/monitoring/dashboards/labels/a"),
        ("replicas=0", "/replicas"),
        ("replicas=many", "/replicas"),
        ("kinds={Mongo}", "/kinds/0"),
        ("scope=namespaces", "/watchNamespaces"),
        ("watchNamespaces={Team_A}", "/watchNamespaces/0"),
        ("images.operator=registry.example.com/operator", "/images/operator"),
        ("images.operator=registry.example.com/operator:latest", "/images/operator"),
        ("images.mysql=x:1", "mysql"),
        ("imagePullSecrets[0].name=a_b", "/imagePullSecrets/0/name"),
        ("operatorPod.hostNetwork=true", "hostNetwork"),
        ("operatorPod.resources.operator.limits.cpu=null", "/operatorPod/resources/operator/limits"),
        ("operatorPod.env[0].name=KINDLING_KINDS,operatorPod.env[0].value=x", "/operatorPod/env/0/name"),
        ("operatorPod.env[0].name=OTEL_SERVICE_NAME", "/operatorPod/env/0"),
        ("logLevel=loud", "/logLevel"),
        ("replica=3", "replica"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(offline: Shell, given: str, named: str) -> None:
    assert named in offline.refused(f"{TEMPLATE} --set {shlex.quote(given)}")


@pytest.mark.parametrize(("base", "whole"), [("base", "install"), ("namespaced", "install-namespaced")])
def test_kustomize_makes_the_manifest_of_its_base(offline: Shell, base: str, whole: str) -> None:
    found = objects(offline.run(f"kubectl kustomize kustomize/{base}"))
    assert found == objects((offline.folder / f"{whole}.yaml").read_text())


# In a cluster.


def live(shell: Shell) -> dict[rendering.Key, Manifest]:
    """The objects of the release as they are in the cluster, without the namespace."""
    return without_namespace(by_key(items(shell, "install.yaml")))


def items(shell: Shell, file: str, *words: str) -> list[Manifest]:
    text = shell.run(f"kubectl get -f {file} -o json", *words)
    found: list[Manifest] = json.loads(text)["items"] if text.strip() else []
    return found


def remove(shell: Shell) -> None:
    """Everything that there may be, as the guide says it."""
    for file in ("kustomize/base/operator.yaml", "crds.yaml"):
        shell.run(f"kubectl delete -f {file} --ignore-not-found --timeout=60s")


WAYS = {
    "kubectl": "kubectl apply -f install.yaml",
    "server-side": "kubectl apply --server-side -f install.yaml",
    "kustomize": "kubectl apply -k kustomize/base",
    "helm": f"helm install kindling {CHART} --namespace {NAMESPACE} --create-namespace",
}


@pytest.mark.thorough
def test_each_way_makes_the_same_objects(shell: Shell) -> None:
    found = {}
    for way, line in WAYS.items():
        shell.run(line)
        found[way] = live(shell)
        if way != "helm":
            # The server has nothing to change in what it was given, by any of the files.
            shell.run("kubectl diff -f install.yaml")
            shell.run("kubectl apply --dry-run=server -f install-namespaced.yaml")
        remove(shell)
    assert len(found["kubectl"]) > 20
    for way in WAYS:
        assert found[way] == found["kubectl"], way


def memcached(shell: Shell) -> str:
    return shell.run("kubectl get memcacheds kept -o jsonpath={.metadata.uid}")


def test_the_life_of_a_release_of_helm(shell: Shell) -> None:
    where = f"--namespace {NAMESPACE}"
    deployment = f"kubectl get deployment kindling-operator {where} -o jsonpath={{.spec.replicas}}"
    shell.run(f"helm install kindling {CHART} {where} --create-namespace")
    first = live(shell)
    resource = {
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": "kept"},
        "spec": {"size": 1},
    }
    (shell.folder.parent / "kept.yaml").write_text(json.dumps(resource))
    shell.run("kubectl wait -f crds.yaml --for=condition=Established --timeout=30s")
    shell.run("kubectl apply -f ../kept.yaml")
    uid = memcached(shell)
    assert uid

    shell.run(f"helm upgrade kindling {CHART} {where} --set replicas=3 --set kinds={{Memcached}}")
    assert shell.run(deployment) == "3"
    # What the kinds that are left do not need is gone; definitions, with what users made of them, stay.
    left = items(shell, "install.yaml", "--ignore-not-found")
    policies = [item["metadata"]["name"] for item in left if item["kind"] == "ValidatingAdmissionPolicy"]
    assert "kindling-memcached" in policies
    assert "kindling-postgresql" not in policies
    assert sum(item["kind"] == "CustomResourceDefinition" for item in left) == DEFINITIONS

    shell.run(f"helm rollback kindling 1 {where}")
    assert live(shell) == first
    assert memcached(shell) == uid

    shell.run(f"helm uninstall kindling {where}")
    left = items(shell, "install.yaml", "--ignore-not-found")
    assert {item["kind"] for item in left} == {"CustomResourceDefinition", "Namespace"}
    assert memcached(shell) == uid
    remove(shell)


@pytest.mark.thorough
def test_helm_takes_over_what_kubectl_installed(shell: Shell) -> None:
    shell.run("kubectl apply -f install.yaml")
    before = live(shell)
    install = f"helm install kindling {CHART} --namespace {NAMESPACE}"
    assert "meta.helm.sh/release-name" in shell.refused(install)
    shell.run(f"{install} --take-ownership --force-conflicts")
    assert live(shell) == before
    shell.run(f"helm uninstall kindling --namespace {NAMESPACE}")
    remove(shell)


# The guide.


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each block, those in lists too."""
    for pad, language, block in re.findall(r"^( *)```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        yield language, "".join(line.removeprefix(pad) for line in block.splitlines(keepends=True))


def test_the_guide_works_as_printed(shell: Shell) -> None:
    """From top to bottom, each block of files written and each command run; `helm` meets an empty cluster."""
    verbs = []
    for language, text in blocks(GUIDE.read_text()):
        if language == "yaml":
            name = text.partition("\n")[0].removeprefix("# ")
            (shell.folder / name).parent.mkdir(exist_ok=True)
            (shell.folder / name).write_text(text)
        for line in text.splitlines() if not language else ():
            if line.startswith("helm install"):
                remove(shell)
            shell.run(line)
            verbs.append(" ".join(shlex.split(line)[:2]))
            if line == "kubectl apply -k overlay":
                found = live(shell)["apps/v1", "Deployment", NAMESPACE, "kindling-operator"]
                pod = found["spec"]["template"]["spec"]
                assert pod["nodeSelector"] == {"example.com/pool": "system"}
                assert pod["containers"][0]["image"].startswith("mirror.example.com/")
    assert {"kubectl apply", "kubectl delete", "helm install", "helm upgrade", "helm rollback"} <= set(verbs)
    remove(shell)

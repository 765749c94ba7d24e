"""Every way of installing a release, in a cluster whose nodes pull its images: the same objects, each serves.

And an upgrade to the next release under load, after which everything that served still runs as it was.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.components import broker
from infra.distribution import files
from infra.drivers.engine import ContainerEngine
from infra.manifests import Manifest
from tests.apiserver import test_release as released
from tests.apiserver.test_release import NAMESPACE, WAYS, Shell
from tests.cluster import release_load, standin
from tests.cluster.standin import Checkout
from tests.unit.infra import releases

pytestmark = pytest.mark.thorough
checkout = standin.checkout
FIRST, NEXT = released.VERSION, "1.2.4"
ROLLED_OUT = f"kubectl rollout status deployment/kindling-operator --namespace {NAMESPACE} --timeout=100s"
CACHE: Manifest = {
    "apiVersion": "cache.example.com/v1alpha1",
    "kind": "Memcached",
    "metadata": {"name": "tried", "namespace": "default"},
    "spec": {"size": 1},
}
HELM = f"--namespace {NAMESPACE}"


@dataclass(frozen=True)
class Installed:
    """What Pulumi made of the checkout, the release of it, and the broker's objects, to be made again."""

    objects: Mapping[Any, Manifest]
    images: Mapping[str, str]
    broker: list[Manifest]
    shell: Shell


def release(folder: Path, *, version: str, images: Mapping[str, str]) -> Path:
    made = folder / f"made-{version}"
    found = releases.checkout(folder / f"checkout-{version}", version=version)
    words = ("--version", version, "--output", str(made), "--images", *images.values())
    done = releases.command(found, *words)
    assert done.returncode == 0, done.stderr
    return made


def apply(shell: Shell, *items: Manifest, verb: str = "apply") -> None:
    (shell.folder.parent / "items.json").write_text(release_load.as_list(list(items)))
    shell.run(f"kubectl {verb} -f ../items.json")


def serves(shell: Shell) -> None:
    """A cache becomes Ready, by whatever installed the operator."""
    shell.run(ROLLED_OUT)
    apply(shell, CACHE)
    shell.run("kubectl wait memcacheds/tried --for=condition=Ready --timeout=100s")
    apply(shell, CACHE, verb="delete")


@pytest.fixture(scope="module")
def pulumi(checkout: Checkout) -> Installed:
    """Pulumi's way, up and down again: it pushes the images that the other ways run."""
    checkout.change("staging", "  kindling:samples: true\n", "")
    standin.bring_staging_up(checkout)
    printed = checkout.ok("exec", "--stack", "staging", "pulumi", "stack", "output", "images", "--json")
    pushed: dict[str, str] = json.loads(printed[printed.index("{") :])
    images = {name: pushed[name] for name in files.image_names()}
    folder = release(checkout.home, version=FIRST, images=images)
    shell = Shell(folder, home=checkout.home, kubeconfig=checkout.home / "kubeconfig")
    where = f"--namespace {broker.NAMESPACE}"
    parts = json.loads(shell.run(f"kubectl get deployment,service {broker.NAME} {where} -o json"))["items"]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": broker.NAMESPACE}}
    again = [space, *(released.without_marks(item) for item in parts)]
    # With it the operator's own objects name the local broker.
    checkout.change("staging", "  kindling:broker: true\n", "")
    checkout.ok("up", "staging")
    objects = released.live(shell)
    serves(shell)
    checkout.ok("destroy", "staging")
    return Installed(objects, images, again, shell)


def test_each_way_makes_the_same_objects_and_serves(pulumi: Installed) -> None:
    shell = pulumi.shell
    for way, line in WAYS.items():
        try:
            shell.run(line)
            serves(shell)
            found = released.live(shell)
        finally:
            released.remove(shell)
        assert found.keys() == pulumi.objects.keys(), way
        assert [key for key, item in found.items() if item != pulumi.objects[key]] == [], way


@pytest.fixture
def another_operator(checkout: Checkout, pulumi: Installed) -> str:
    """The image of the next release's operator, in the registry: of other content, by another digest."""
    engine = ContainerEngine.detect()
    context = checkout.home / "next"
    context.mkdir()
    (context / "Containerfile").write_text(f"FROM {pulumi.images['operator']}\nLABEL release={NEXT}\n")
    place = pulumi.images["operator"].partition("@")[0]
    tag = "localhost/kindling-operator:next-release"
    engine.run("pull", "--tls-verify=false", pulumi.images["operator"], timeout=300)
    try:
        engine.build(context=context, containerfile=context / "Containerfile", tag=tag, build_args={})
        digest = engine.push(tag, f"{place}:{NEXT}", insecure=True)
    finally:
        engine.remove_image(tag)
    return f"{place}@{digest}"


def processes(shell: Shell) -> dict[str, list[Any]]:
    """Of each Pod that runs for a resource: its id, and since when each container runs."""
    owned = "app.kubernetes.io/managed-by=kindling"
    pods = json.loads(shell.run(f"kubectl get pods -l {owned} -o json"))["items"]
    return {
        pod["metadata"]["name"]: [
            pod["metadata"]["uid"],
            *sorted(str(each["state"]["running"]) for each in pod["status"]["containerStatuses"]),
        ]
        for pod in pods
    }


def ended(shell: Shell, name: str) -> str:
    """What a client printed, once it has ended well."""
    shell.run(f"kubectl wait pod/{name} --for=jsonpath={{.status.phase}}=Succeeded --timeout=110s")
    return shell.run(f"kubectl logs {name} -c load")


def read(shell: Shell) -> set[str]:
    """The messages of the load that the consumer has printed."""
    name = f"deployment/{release_load.CONSUMER}-deployment"
    return set(re.findall(r"\bload \d+", shell.run(f"kubectl logs {name} --tail=-1")))


def test_an_upgrade_under_load_restarts_nothing_and_loses_nothing(
    checkout: Checkout, pulumi: Installed, another_operator: str
) -> None:
    """By Helm, while a database, a cache and a consumer work; and back again."""
    shell = pulumi.shell
    images = {**pulumi.images, "operator": another_operator}
    following = release(checkout.home, version=NEXT, images=images)
    apply(shell, *pulumi.broker)
    shell.run(f"helm install kindling {released.CHART} {HELM} --create-namespace")
    shell.run(ROLLED_OUT)
    where = f"--namespace {broker.NAMESPACE}"
    shell.run(f"kubectl rollout status deployment/{broker.NAME} {where} --timeout=110s")
    apply(shell, *release_load.RESOURCES)
    for resource in release_load.RESOURCES:
        group = resource["apiVersion"].partition("/")[0]
        name = f"{resource['kind'].lower()}s.{group}/{resource['metadata']['name']}"
        shell.run(f"kubectl wait {name} --for=condition=Ready --timeout=110s")
    before = processes(shell)
    assert len(before) == len(release_load.RESOURCES)
    clients = release_load.pods(pulumi.images)
    for name, pod in clients.items():
        apply(shell, {**pod, "metadata": {**pod["metadata"], "name": name}})
    shell.run(f"kubectl wait pod {' '.join(clients)} --for=jsonpath={{.status.phase}}=Running --timeout=60s")
    time.sleep(5)
    shell.run(f"helm upgrade kindling {following / f'kindling-{NEXT}.tgz'} {HELM}")
    shell.run(ROLLED_OUT)
    deployment = f"kubectl get deployment kindling-operator {HELM} -o json"
    running = json.loads(shell.run(deployment))["spec"]["template"]["spec"]["containers"][0]["image"]
    assert running == another_operator
    time.sleep(10)
    shell.run(f"helm rollback kindling 1 {HELM}")
    shell.run(ROLLED_OUT)

    bench = ended(shell, "load-database")
    assert "number of failed transactions: 0 " in bench, bench
    assert int(re.findall(r"actually processed: (\d+)", bench)[0]) > 0
    cache = json.loads(ended(shell, "load-cache"))
    assert (cache["asked"] > 0, cache["lost"]) == (True, 0)
    sent = json.loads(ended(shell, "load-topic").splitlines()[-1])["sent"]
    wanted = {f"load {number}" for number in range(1, sent + 1)}
    deadline = time.monotonic() + 30
    while not wanted <= read(shell) and time.monotonic() < deadline:
        time.sleep(1)
    assert wanted - read(shell) == set()
    assert processes(shell) == before
    print(f"{bench}\n{cache}, {sent} messages")

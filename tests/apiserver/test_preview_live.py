"""`preview --live` as its users have it: real Pulumi and API server, and what the operator then does."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kindling.kube.resources import POD, Ref

from infra.paths import REPOSITORY
from tests import guides
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.controlplane import tool
from tests.apiserver.support.existing import new_stack, ok, rewrite
from tests.apiserver.support.kinds import MEMCACHED, POSTGRESQL_EXAMPLE
from tests.apiserver.support.operator_process import images, operator
from tests.unit.infra.cli_machine import Machine
from tests.unit.infra.registry_server import registry

PROGRAM = """\
import json

import pulumi
from pulumi_kubernetes import apps

from infra import settings
from infra.components.cluster import Cluster

found = settings.load(pulumi.Config().get, stack=pulumi.get_stack())
cluster = Cluster("cluster", settings=found.cluster, protect=False)
env = [{"name": name, "value": value} for name, value in json.loads('ENV').items()]
apps.v1.Deployment(
    "operator-deployment",
    metadata={
        "name": "kindling-previewed",
        "namespace": "default",
        "annotations": {"pulumi.com/skipAwait": "true", "pulumi.com/deletionPropagationPolicy": "background"},
    },
    spec={
        "selector": {"matchLabels": {"app": "kindling-previewed"}},
        "template": {
            "metadata": {"labels": {"app": "kindling-previewed"}},
            "spec": {"containers": [{"name": "operator", "image": "operator:1", "env": env}]},
        },
    },
    opts=pulumi.ResourceOptions(provider=cluster.provider),
)
"""
NEW = "kindling.invalid/memcached:2"
MEMCACHED_IMAGE = "KINDLING_IMAGE_MEMCACHED"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def machine(tmp_path: Path, running_cluster: Cluster, host: str) -> Machine:
    made = new_stack(tmp_path, running_cluster.plane, host=host)
    guides.copy(made.checkout, ["operator/requirements.txt", "operator/src"])
    return made


def declare(machine: Machine, namespace: str, **changed: str) -> None:
    env = {"KINDLING_WATCH_NAMESPACES": namespace, **images(), **changed}
    (machine.checkout / "__main__.py").write_text(PROGRAM.replace("ENV", json.dumps(env)))


def preview(machine: Machine) -> tuple[str, str]:
    """What it prints, and the page."""
    file = machine.home / "page.md"
    printed = ok(machine, "preview", "staging", "--live", "--markdown", str(file))
    return printed, file.read_text()


def read_only(machine: Machine, cluster: Cluster) -> None:
    """What the guide has one do for a credential that may only read."""
    page = (REPOSITORY / "docs/guides/preview.md").read_text()
    (manifest,) = (body for language, _, body in guides.blocks(page) if language == "yaml")
    (machine.home / "kindling-preview.yaml").write_text(manifest)
    lines = [line for line in page.splitlines() if line.startswith("kubectl ")]
    apply, create = (shlex.split(line)[1:] for line in lines)
    kubectl = [str(tool("kubectl")), f"--kubeconfig={cluster.plane.kubeconfig}"]
    run = partial(subprocess.run, cwd=machine.home, check=True, capture_output=True, text=True, timeout=60)
    run([*kubectl, *apply])
    rewrite(machine, token=run([*kubectl, *create]).stdout.strip())


def pods(cluster: Cluster, namespace: str) -> set[str]:
    listed = cluster.list(POD, namespace, selector={})
    return {pod["metadata"]["name"] for pod in listed if "deletionTimestamp" not in pod["metadata"]}


def test_the_page_says_what_the_new_operator_then_does(
    machine: Machine, running_cluster: Cluster, namespace: str
) -> None:
    cluster = running_cluster
    declare(machine, namespace)
    printed, page = preview(machine)
    # Of a stack that does not exist yet nothing is asked.
    assert "The stack has no operator yet" in page
    assert "The stack has no operator yet" in printed
    cache = ref_to(KINDS_BY_NAME[MEMCACHED.id], namespace, "cache")
    with operator(cluster.operator_plane, namespaces=namespace, kept=True) as running:
        running.wait_ready()
        cluster.create(KINDS_BY_NAME[MEMCACHED.id], namespace, "cache", {"size": 2})
        cluster.create(KINDS_BY_NAME[POSTGRESQL_EXAMPLE.id], namespace, "db", {})
        cluster.wait_settled(cache, ref_to(KINDS_BY_NAME[POSTGRESQL_EXAMPLE.id], namespace, "db"))
        wait_until(lambda: len(pods(cluster, namespace)) == 3, seconds=60, what="three Pods")
    ok(machine, "up", "staging")

    # By what may only read, from here on.
    read_only(machine, cluster)
    _, page = preview(machine)
    assert "## Preview of stack `staging`: nothing changes" in page
    nothing = "**Nothing changes, 2 resources stay as they are; not known of 1 resource: what servers say.**"
    assert nothing in page, page

    declare(machine, namespace, **{MEMCACHED_IMAGE: NEW})
    before = pods(cluster, namespace)
    caches = sorted(name for name in before if name.startswith("cache-"))
    printed, page = preview(machine)
    assert "## Preview of stack `staging`: 1 to roll" in page
    assert "**2 Pods roll, no resource becomes invalid, no data is touched; not known of 1 resource" in page
    row = f"| Memcached `{namespace}/cache` | `Deployment/cache` |"
    assert f"{row} `is updated; Pods {', '.join(caches)} roll, at once` |" in page
    assert (
        f"`spec.template.spec.containers.memcached.image`: `kindling.invalid/memcached:1` → `{NEW}`" in page
    )
    assert "2 Pods roll" in printed
    with operator(
        cluster.operator_plane, namespaces=namespace, env={MEMCACHED_IMAGE: NEW}, kept=True
    ) as running:
        running.wait_ready()
        wait_until(
            lambda: not pods(cluster, namespace) & set(caches), seconds=60, what="others in their place"
        )
        cluster.audit.wait_quiet(seconds=2)
    assert before - pods(cluster, namespace) == set(caches)

    # A cluster that cannot be read does not keep the preview from its page.
    rewrite(machine, token="canary")
    printed, page = preview(machine)
    assert "What it would do is not known." in page
    assert "the resources cannot be read: Unauthorized" in page
    assert "canary" not in page + printed
    cluster.delete(Ref(cache.type, namespace, "cache"))

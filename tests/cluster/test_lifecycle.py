"""What only a real cluster can show of a stack's life: upgraded, replaced, damaged, lost and recreated."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.drivers.engine import ContainerEngine
from infra.settings import cluster_name
from tests.archives import unpack
from tests.cluster.stack import ROOT, STACK, Environment
from tests.ports import free_port

SETTINGS = ROOT / f"Pulumi.{STACK}.yaml"
OPERATOR = ("deployment/kindling-operator", "-n", "kindling-system")
# The Pods of the samples, by the label that they all bear.
SAMPLES = ("pods", "-n", "default", "-l", "app.kubernetes.io/managed-by=kindling")


@pytest.fixture
def settings() -> Iterator[Path]:
    """The stack's settings, as they were at the end."""
    before = SETTINGS.read_text()
    yield SETTINGS
    SETTINGS.write_text(before)


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The commit before this one, in a folder of its own."""
    archive = tmp_path / "previous.tar"
    subprocess.run(["git", "archive", f"--output={archive}", "HEAD~1"], cwd=ROOT, timeout=60, check=True)
    folder = tmp_path / "previous"
    with tarfile.open(archive) as content:
        unpack(content, folder)
    return folder


def incarnation(environment: Environment) -> str:
    """The identity of this cluster, which differs from that of another cluster of the same name."""
    return str(environment.get("namespace", "kube-system")["metadata"]["uid"])


def running(environment: Environment) -> dict[str, tuple[str, list[tuple[str, int]]]]:
    """Every Pod of the samples: which one it is, what it runs, and how often that was started again."""

    def containers(pod: dict[str, Any]) -> list[tuple[str, int]]:
        found = pod["status"].get("containerStatuses", [])
        return [(status["image"], status["restartCount"]) for status in found]

    pods = environment.get(*SAMPLES)["items"]
    return {pod["metadata"]["name"]: (pod["metadata"]["uid"], containers(pod)) for pod in pods}


def drift(environment: Environment, *, status: int) -> str:
    done = environment.infra("drift", STACK)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def operand_images(environment: Environment) -> dict[str, str]:
    container = environment.get(*OPERATOR)["spec"]["template"]["spec"]["containers"][0]
    return {
        item["name"]: item["value"] for item in container["env"] if item["name"].startswith("KINDLING_IMAGE_")
    }


def test_upgrade_from_the_commit_before_keeps_data_and_pods(
    environment: Environment, previous: Path, thorough: bool
) -> None:
    """From a cluster that it made, too, if asked to be thorough; else what stands is put back to it first."""
    if thorough:
        environment.ok("destroy", STACK)
    done = environment.infra("up", STACK, checkout=previous)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    word = os.urandom(6).hex()
    environment.psql("mydb", f"CREATE TABLE kept AS SELECT '{word}' AS word")
    cluster, images, before = incarnation(environment), operand_images(environment), running(environment)
    assert before
    environment.ok("up", STACK)
    assert incarnation(environment) == cluster
    assert environment.psql("mydb", "SELECT word FROM kept") == word
    # A commit that changes what the Pods run is there to roll them.
    if operand_images(environment) == images:
        assert running(environment) == before


def test_drift_of_an_idle_stack_is_none(environment: Environment) -> None:
    """Whatever the API, its controllers and the operator add to our objects."""
    assert "everything is as the last `up` left it" in drift(environment, status=0)


def test_drift_by_hand_is_reported_and_repaired(environment: Environment) -> None:
    environment.kubectl("delete", "clusterrolebinding", "kindling-operator")
    environment.kubectl("scale", "deployment", "kindling-operator", "-n", "kindling-system", "--replicas=3")
    image = environment.get(*OPERATOR)["spec"]["template"]["spec"]["containers"][0]["image"]
    node = f"{cluster_name(STACK)}-control-plane"
    ContainerEngine.detect().run("exec", node, "ctr", "--namespace=k8s.io", "images", "rm", image)
    printed = drift(environment, status=3)
    assert "  ClusterRoleBinding kindling-operator: gone\n" in printed
    assert "    spec.replicas: 3, recorded 2\n" in printed
    assert f"  Image {image}: not on every node\n" in printed
    environment.ok("up", STACK)
    drift(environment, status=0)


@pytest.mark.thorough
def test_setting_of_the_cluster_makes_another_in_its_place(environment: Environment, settings: Path) -> None:
    before = incarnation(environment)
    port = free_port()
    settings.write_text(f"{settings.read_text()}  kindling:apiServerPort: {port}\n")
    environment.ok("up", STACK)
    assert incarnation(environment) != before
    assert f":{port}" in environment.kubectl("config", "view", "--minify")
    drift(environment, status=0)


@pytest.mark.thorough
def test_cluster_deleted_by_hand_is_reported_and_created_again(environment: Environment) -> None:
    before = incarnation(environment)
    environment.ok("exec", "--stack", STACK, "kind", "delete", "cluster")
    printed = drift(environment, status=3)
    assert f"  kind cluster {cluster_name(STACK)}: gone, and with it all that it held\n" in printed
    environment.ok("up", STACK)
    assert incarnation(environment) != before
    deployment = environment.get(*OPERATOR)
    assert deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"]
    drift(environment, status=0)

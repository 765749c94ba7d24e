"""The files of the assembled node image, as far as they can be wrong without a cluster noticing at once."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from infra.bootstrap import node_image as assembling
from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.tools import KUBERNETES, NODE_TOOLS, TOOLS, Tool
from infra.drivers import node_image
from infra.drivers.engine import ContainerEngine
from infra.errors import KindlingError

# kind reads these words in the manifest, and does what they ask.
TEMPLATED, PATCHED = "would you kindly template this file", "would you kindly patch this file"
OWN = ("node-network", "node-storage")


def manifest(name: str = "default-cni.yaml") -> str:
    return (assembling.FILES / "kind/manifests" / name).read_text()


@pytest.mark.parametrize(
    ("file", "section", "key"),
    [
        ("etc/systemd/system/containerd.service", "Service", "TasksMax"),
        ("etc/systemd/system.conf.d/10-tasks.conf", "Manager", "DefaultTasksMax"),
    ],
)
def test_no_unit_is_given_a_share_of_what_the_node_may(file: str, section: str, key: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read(assembling.FILES / file)
    assert parser[section][key] == "infinity"


def test_kind_is_asked_to_fill_in_ranges_and_the_control_planes_address() -> None:
    assert TEMPLATED in manifest()
    assert PATCHED in manifest()
    objects = list(yaml.safe_load_all(manifest()))
    [container] = objects[-1]["spec"]["template"]["spec"]["containers"]
    names = [variable["name"] for variable in container["env"]]
    # kind appends CONTROL_PLANE_ENDPOINT to the list that is there.
    assert names == ["NODE_NAME", "POD_SUBNET"]


def test_containerd_waits_for_the_file_that_the_agent_writes() -> None:
    text = (assembling.FILES / "etc/containerd/config.toml").read_text()
    folder = tomllib.loads(text)["plugins"]["io.containerd.grpc.v1.cri"]["cni"]["conf_dir"]
    assert f'"{folder}/' in (build.FOLDER / "node-network" / "node.go").read_text()
    [volume] = list(yaml.safe_load_all(manifest()))[-1]["spec"]["template"]["spec"]["volumes"]
    assert volume["hostPath"]["path"] == folder
    # A range written into the image would be that of every node.
    assert not (assembling.FILES / "etc/cni").exists()


@pytest.mark.parametrize("name", OWN)
def test_our_programs_are_built_with_the_clusters_own_version(name: str) -> None:
    assert name in NODE_TOOLS
    assert TOOLS[name].version == f"0.{KUBERNETES.removeprefix('1.')}"


def test_volumes_are_where_the_node_keeps_them_over_a_restart() -> None:
    """A folder that is mounted elsewhere would be in the container, and gone with it."""
    objects = {item["kind"]: item for item in yaml.safe_load_all(manifest("default-storage.yaml"))}
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    [container], [volume] = pod["containers"], pod["volumes"]
    [mount] = container["volumeMounts"]
    root = next(variable["value"] for variable in container["env"] if variable["name"] == "ROOT")
    assert root == mount["mountPath"] == volume["hostPath"]["path"]
    assert root.startswith("/var/")
    source = (build.FOLDER / "node-storage" / "main.go").read_text()
    assert f'"{objects["StorageClass"]["provisioner"]}"' in source


@pytest.mark.parametrize("name", OWN)
def test_the_images_name_follows_our_programs_source(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = assembling.own_ref()
    location = build.location

    def another(tool: Tool) -> Path:
        found = location(tool)
        return found if tool.name != name else found.parent.with_name("another") / found.name

    monkeypatch.setattr(build, "location", another)
    assert assembling.own_ref() != before


class Engine(ContainerEngine):
    """One that has these images and reaches no registry."""

    has: tuple[str, ...] = ()

    def has_image(self, ref: str) -> bool:
        return ref in self.has

    def has_any_of(self, name: str) -> bool:
        return any(ref.startswith(f"{name}:") for ref in self.has)

    def pull(self, ref: str, *, platform: str = "") -> bool:
        return False


@pytest.mark.parametrize("assembled", [True, False])
def test_the_assembled_image_is_refused_for_workers(monkeypatch: pytest.MonkeyPatch, assembled: bool) -> None:
    monkeypatch.setattr(Engine, "has", (assembling.own_ref(),) if assembled else ())
    monkeypatch.setattr(assembling, "assemble", lambda *_: pytest.fail("it was assembled"))
    with pytest.raises(KindlingError) as caught:
        node_image.ensure_node_image(Engine("podman", Path("podman")), workers=2)
    assert "kindling:workers is 2" in caught.value.what
    assert node_image.PUBLISHED in caught.value.why
    assert "set kindling:workers to 0" in caught.value.remedy


def test_the_published_image_is_one_by_its_digest_for_the_pinned_kind_and_kubernetes() -> None:
    """Whoever renews kind or Kubernetes takes the image from that kind's release notes."""
    found = re.fullmatch(
        r"docker\.io/kindest/node:v(\d+\.\d+)\.\d+@sha256:[0-9a-f]{64}", node_image.PUBLISHED
    )
    assert found is not None
    assert found[1] == KUBERNETES.rpartition(".")[0]
    assert TOOLS["kind"].version == node_image.PUBLISHED_FOR


def test_workers_get_the_published_image_where_both_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    own = assembling.own_ref()
    monkeypatch.setattr(Engine, "has", (own, node_image.PUBLISHED))
    engine = Engine("podman", Path("podman"))
    assert node_image.ensure_node_image(engine, workers=1) == node_image.PUBLISHED
    assert node_image.ensure_node_image(engine) == own

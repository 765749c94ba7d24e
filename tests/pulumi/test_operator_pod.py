"""What a real cluster asks of Pods, as the guide writes it, by the whole program on a real API server."""

from __future__ import annotations

import re
from typing import Any

import yaml

from infra import paths
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kubelet import kubelet
from tests.pulumi.machine import Host
from tests.pulumi.test_drift import DEPLOYMENT, EVERYTHING_IS, up

PAGES = ("docs/reference/settings.md", "docs/guides/drift.md")
MORE = """\
  kindling:imagePullSecrets: [{name: registry}]
  kindling:images: {postgres: "registry.example/mirror/postgres:17.2"}
"""


def example(key: str) -> str:
    """The documents' example of a setting, as it stands in a stack's file."""
    text = "".join((paths.REPOSITORY / page).read_text() for page in PAGES)
    blocks = re.findall(r"```yaml\nconfig:\n(.*?)```", text, re.DOTALL)
    (found,) = (block for block in blocks if block.startswith(f"  kindling:{key}:"))
    return str(found)


def test_the_guides_settings_of_pods_are_what_the_cluster_has(
    host: Host, plane: ControlPlane, api: Api
) -> None:
    plain = (host.checkout / "Pulumi.dev.yaml").read_text()
    host.settings(plain + example("operatorPod") + MORE + example("ignoreChanges"))
    wanted: dict[str, Any] = yaml.safe_load(example("operatorPod"))["kindling:operatorPod"]
    with kubelet(plane):
        up(host)
        template = api.get(DEPLOYMENT).accepted()["spec"]["template"]
        pod, metadata = template["spec"], template["metadata"]
        for key in ("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets"):
            assert pod[key] == wanted[key]
        assert wanted["labels"].items() <= metadata["labels"].items()
        assert wanted["annotations"].items() <= metadata["annotations"].items()
        assert {one["name"]: one["resources"] for one in pod["containers"]} == wanted["resources"]
        env = pod["containers"][0]["env"]
        assert [item for item in env if item["name"].startswith("OTEL_")] == wanted["env"]
        reported = {item["name"]: item.get("value") for item in env}
        assert reported["KINDLING_PULL_SECRETS"] == "registry"
        assert reported["KINDLING_IMAGE_POSTGRES"] == "registry.example/mirror/postgres:17.2"
        assert not [ref for ref in host.memory["images"] if "kindling-postgres:" in ref]
        done = host.cli("drift")
        assert (done.returncode, done.stdout) == (0, EVERYTHING_IS), done.stdout + done.stderr

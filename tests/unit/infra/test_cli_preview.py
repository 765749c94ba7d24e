"""`preview` and its page, with a real Pulumi: what it says of each change, of failures, and of secrets.

The first program writes manifests into a folder in place of a cluster, so that objects of Kubernetes can
stand and change without one; the last is ours.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import TOOLS, build, sdk_version
from infra.bootstrap.toolchain.tools import PULUMI_KUBERNETES
from infra.cli.preview import markdown
from infra.paths import REPOSITORY
from tests.unit.infra.cli_machine import Machine, machine_with_pulumi

PROGRAM = """\
import os

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes import apps, core
from pulumi_kubernetes.apiextensions import CustomResource

now = NOW
version = os.environ.get("KINDLING_PROVIDER_VERSION")
options = pulumi.ResourceOptions(version=version)
provider = kubernetes.Provider("none", render_yaml_to_directory="rendered", opts=options)
inside = pulumi.ResourceOptions(provider=provider)


def deployment(name, image="app:1", replicas=1, label=1):
    container = {"name": "main", "image": image}
    spec = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    apps.v1.Deployment(
        name,
        metadata={"name": name, "labels": {"now": str(label)}},
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
        opts=inside,
    )


deployment("rolled", image=f"app:{now}")
deployment("scaled", replicas=now)
deployment("labelled", label=now)
deployment(f"number-{now}")
core.v1.Namespace("space", metadata={"name": f"space-{now}"}, opts=inside)
core.v1.Secret("password", metadata={"name": "password"}, string_data={"word": f"canary-{now}"}, opts=inside)
CustomResource(
    "database",
    api_version="database.db.example.com/v1",
    kind="Postgresql",
    metadata={"name": "database"},
    spec={"size": now, "password": pulumi.Output.secret(f"canary-{now}")},
    opts=inside,
)
pulumi.export("password", pulumi.Output.secret(f"canary-{now}"))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return machine_with_pulumi(tmp_path)


def declare(machine: Machine, *, now: int, more: str = "") -> None:
    (machine.checkout / "__main__.py").write_text(PROGRAM.replace("NOW", str(now)) + more)


def preview(machine: Machine, *, status: int = 0) -> str:
    """The page, which is also written where the preview fails."""
    file = machine.home / "page.md"
    done = machine.cli("preview", "--markdown", str(file))
    assert done.returncode == status, done.stdout + done.stderr
    text = file.read_text()
    assert text.startswith(markdown.marker("dev"))
    assert "canary" not in text + done.stdout + done.stderr
    return text


def row(text: str, resource: str) -> list[str]:
    """The table's cells for a resource: what happens, and what it does to data and Pods."""
    (line,) = (line for line in text.splitlines() if line.startswith("|") and f"`{resource}`" in line)
    cells = [cell.strip() for cell in line.split("|")]
    return [cells[1], cells[3]]


def test_each_change_is_reported(machine: Machine) -> None:
    declare(machine, now=1)
    assert machine.cli("up").returncode == 0
    assert "nothing changes" in preview(machine)

    declare(machine, now=2)
    text = preview(machine)
    first, *_ = (line for line in text.splitlines() if line.startswith("##"))
    assert first == (
        "## Preview of stack `dev`: 1 to delete, 2 to replace, 1 to roll, 3 to update in place, 1 to create"
    )
    assert row(text, "number-1") == ["deleted", "its Pods end; what they hold in data is lost"]
    assert row(text, "space") == ["replaced", "everything in the namespace is lost: Pods and data"]
    assert row(text, "password") == ["replaced", "not touched"]
    assert row(text, "rolled") == [
        "rolled",
        "new Pods take the place of the running ones; what they hold in data is lost",
    ]
    assert row(text, "scaled") == ["updated in place", "Pods are added or taken away"]
    assert row(text, "labelled") == ["updated in place", "not touched"]
    assert row(text, "database")[1].endswith("its data is kept")
    assert row(text, "number-2")[0] == "created"
    assert "**Data is lost:** Deployment `number-1`, Namespace `space`, Deployment `rolled`." in text
    assert "- `spec.template.spec.containers[0].image`: `app:1` → `app:2`" in text
    assert "- `spec.password`: `[secret]`, another one" in text
    assert "- `data.word`: `[secret]`, another one, which is why it is replaced" in text
    assert "1 resource stays as it is." in text
    assert text == preview(machine)


def test_a_program_that_fails_is_reported_on_the_page_too(machine: Machine) -> None:
    declare(machine, now=1, more="raise pulumi.RunError('the program is `broken`')\n")
    text = preview(machine, status=1)
    assert "## Preview of stack `dev` failed" in text
    assert "the program is `broken`" in text


def test_a_violated_policy_is_reported_on_the_page(machine: Machine) -> None:
    program = machine.checkout / "__main__.py"
    declare(machine, now=1)
    program.write_text(
        "from infra import policy_enforcement\n"
        + program.read_text().replace("now =", "policy_enforcement.enforce()\nnow =")
    )
    text = preview(machine, status=1)
    assert (
        "Deployment `rolled`: spec.template.spec.containers[main].resources.limits.memory is not set" in text
    )
    assert "remedy: say how much memory it may take." in text


def test_a_wrong_setting_is_reported_on_the_page(machine: Machine) -> None:
    with (machine.checkout / "Pulumi.dev.yaml").open("a") as file:
        file.write("  kindling:workers: many\n")
    text = preview(machine, status=1)
    assert "kindling:workers of stack `dev` cannot be `many`" in text
    assert "remedy: set it in Pulumi.dev.yaml." in text


def test_a_page_of_an_earlier_run_is_not_taken_for_this_ones(machine: Machine) -> None:
    (machine.home / "page.md").write_text("old")
    (machine.checkout / "Pulumi.dev.yaml").unlink()
    assert "there is no stack `dev`" in preview(machine, status=1)


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_done(machine: Machine) -> None:
    done = machine.cli("preview", "--markdown", str(machine.home / "none" / "page.md"))
    assert done.returncode == 1
    assert "page.md` cannot be written" in done.stderr
    assert "No such file or directory" in done.stderr
    assert not (machine.home / "state").exists()


def test_nothing_but_the_page_is_left(machine: Machine) -> None:
    declare(machine, now=1)
    machine.extra["TMPDIR"] = str(machine.home / "tmp")
    (machine.home / "tmp").mkdir()
    preview(machine)
    assert not list((machine.home / "tmp").glob("kindling-preview-*"))


def our_own_program(machine: Machine) -> None:
    for name in ("crds", "samples", "operator"):
        shutil.copytree(REPOSITORY / name, machine.checkout / name)
    shutil.copy(REPOSITORY / "__main__.py", machine.checkout)
    (machine.home / "bin" / "podman").write_text("#!/bin/false\n")
    machine.extra["KINDLING_ENGINE"] = "docker"


def test_our_own_program_is_previewed_without_a_cluster_and_an_engine(machine: Machine) -> None:
    our_own_program(machine)
    text = preview(machine)
    assert "No data and no running Pods are touched." in text
    assert "The stack is new." in text
    assert "- Deployment `operator-deployment`" in text
    assert "- Cluster `cluster`" in text


@pytest.mark.thorough
def test_the_provider_of_the_sdk_is_used_where_it_is_installed(machine: Machine) -> None:
    """The built one, linked under the SDK's version, is used: Pulumi warns that its version is older."""
    tool = build.location(TOOLS["pulumi-resource-kubernetes"])
    our_own_program(machine)
    installed = machine.home / "pulumi" / "plugins" / f"resource-kubernetes-v{sdk_version()}"
    installed.mkdir(parents=True)
    (installed / tool.name).symlink_to(tool)
    machine.extra["PULUMI_HOME"] = str(machine.home / "pulumi")
    done = machine.cli("preview")
    assert done.returncode == 0, done.stdout + done.stderr
    reported = f"is expected to have version >={sdk_version()}, but has {PULUMI_KUBERNETES}"
    assert reported in done.stdout
    del machine.extra["PULUMI_HOME"]
    bare = machine.cli("preview")
    assert bare.returncode == 0, bare.stdout + bare.stderr
    assert reported not in bare.stdout, "the program asks for the one that is there"

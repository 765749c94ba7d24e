"""A release from stack to stack and back, by the whole program: each stack with an API server of its own.

Images are named by a real registry, which has them already: what runs in them is no matter of a release.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from infra.paths import REPOSITORY
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controllers import controllers
from tests.apiserver.support.controlplane import ControlPlane, control_plane
from tests.apiserver.support.existing import new_stack, ok, refused
from tests.apiserver.support.kubelet import kubelet
from tests.unit.infra.cli_machine import Machine
from tests.unit.infra.registry_server import registry
from tests.unit.infra.repository import commit, git

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memcacheds.cache.example.com"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kindling-operator"
DEPLOYMENT = "/apis/apps/v1/namespaces/kindling-system/deployments/kindling-operator"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
# The names and tags of what a stack runs, as the checkout has them.
WANTED = """\
import json
from infra import settings
from infra.components.images import required_images
found = required_images(settings.read("staging")).values()
print(json.dumps([[each.image, each.digest()] for each in found]))
"""


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[dict[str, ControlPlane]]:
    with ExitStack() as stack:
        found = {}
        for name in ("staging", "prod"):
            (tmp_path / name).mkdir()
            found[name] = stack.enter_context(control_plane(directory=tmp_path / name))
            stack.enter_context(controllers(found[name]))
            stack.enter_context(kubelet(found[name]))
        yield found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    with registry(tmp_path / "registry") as host:
        yield host


@pytest.fixture
def machine(tmp_path: Path, planes: dict[str, ControlPlane], host: str) -> Machine:
    """A clone of this repository, with both stacks in clusters that are there."""
    machine = new_stack(tmp_path, planes["staging"], host=host)
    for part in ("crds", "operator", "samples"):
        shutil.copytree(
            REPOSITORY / part,
            machine.checkout / part,
            ignore=shutil.ignore_patterns("__pycache__", ".*_cache"),
        )
    for file in ("__main__.py", ".gitignore"):
        shutil.copy(REPOSITORY / file, machine.checkout)
    for name, plane in planes.items():
        shutil.copy(plane.kubeconfig, machine.home / f"kubeconfig-{name}")
    images = {
        "staging": f"kindling:registry: {host}/kindling\n  kindling:insecureRegistry: true",
        "prod": "kindling:imageSource: promoted",
    }
    for name, more in images.items():
        (machine.checkout / f"Pulumi.{name}.yaml").write_text(
            "config:\n  pulumi:disable-default-providers: [kubernetes]\n"
            f"  kindling:cluster: existing\n  kindling:context: test\n"
            f"  kindling:kubeconfig: {machine.home / f'kubeconfig-{name}'}\n  {more}\n"
        )
    git(machine.checkout, "init", "--quiet", "--initial-branch", "main")
    return machine


def seed(machine: Machine, host: str) -> None:
    """Give the registry an image of each name, under the tag of the checkout's content."""
    done = subprocess.run(
        [sys.executable, "-c", WANTED], cwd=machine.checkout, capture_output=True, text=True, check=True
    )
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:

        def ask(method: str, path: str, body: bytes, kind: str) -> str:
            connection.request(method, path, body=body, headers={"Content-Type": kind})
            answer = connection.getresponse()
            answer.read()
            assert answer.status in (201, 202), (method, path, answer.status)
            return answer.headers["Location"]

        for name, tag in json.loads(done.stdout):
            blob = b"{}"
            digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
            place = ask("POST", f"/v2/kindling/{name}/blobs/uploads/", b"", "application/octet-stream")
            target = f"/v2/{place.partition('/v2/')[2]}&digest={digest}"
            ask("PUT", target, blob, "application/octet-stream")
            config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": 2}
            manifest = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config,
                "layers": [],
                "annotations": {"tag": tag},
            }
            ask("PUT", f"/v2/kindling/{name}/manifests/{tag}", json.dumps(manifest).encode(), MANIFEST)


def objects(plane: ControlPlane) -> dict[str, Any]:
    """What a release is, as the cluster has it."""
    with closing(Api(plane)) as api:
        deployment = api.get(DEPLOYMENT).accepted()
        return {
            "definition": api.get(DEFINITION).accepted()["spec"],
            "rights": api.get(ROLE).accepted()["rules"],
            "pod": deployment["spec"]["template"]["spec"],
        }


def edit(machine: Machine, file: str, old: str, new: str) -> None:
    place = machine.checkout / file
    text = place.read_text()
    assert old in text
    place.write_text(text.replace(old, new, 1))


def approved(machine: Machine) -> None:
    """As prod.yml does it: a plan by a job without a way into the cluster, then that plan and no other."""
    plan, page, summary = (machine.home / name for name in ("plan.json", "preview.md", "summary.md"))
    kubeconfig = machine.home / "kubeconfig-prod"
    machine.extra["GITHUB_STEP_SUMMARY"] = str(summary)
    kubeconfig.rename(machine.home / "aside")
    ok(machine, "preview", "prod", "--markdown", str(page), "--save-plan", str(plan))
    (machine.home / "aside").rename(kubeconfig)
    assert "## Preview of stack `prod`: " in page.read_text()
    assert summary.read_text() == page.read_text()
    ok(machine, "up", "prod", "--plan", str(plan))
    assert "the stack was last changed" in refused(machine, "up", "prod", "--plan", str(plan))
    del machine.extra["GITHUB_STEP_SUMMARY"]


@pytest.mark.thorough
def test_prod_runs_what_staging_proved_and_goes_back(
    machine: Machine, planes: dict[str, ControlPlane], host: str
) -> None:
    first = commit(machine.checkout, "the first release")
    seed(machine, host)
    assert "has nothing to promote" in refused(machine, "promote", "staging", "prod")
    ok(machine, "up", "staging")
    reported = ok(machine, "promote", "staging", "prod")
    assert f"  commit: none -> {first[:12]}\n" in reported
    assert f"  operator: none -> {host}/kindling/kindling-operator@sha256:" in reported
    assert "nothing was written" in ok(machine, "promote", "staging", "prod")
    commit(machine.checkout, "prod: the first release")
    # Nothing that counts has changed, so this commit too is that release.
    approved(machine)
    before = objects(planes["prod"])
    assert before == objects(planes["staging"])

    # Another definition, other rights, another Pod, another operator.
    edit(machine, "crds/memcacheds.cache.example.com.yaml", "shortNames: [mc]", "shortNames: [mc, second]")
    edit(
        machine,
        "infra/rbac.py",
        'OWN = (*READ, "create", "patch")',
        'OWN = (*READ, "create", "patch", "update")',
    )
    edit(machine, "infra/components/operator_pod.py", '"memory": "256Mi"', '"memory": "257Mi"')
    (machine.checkout / "operator/src/kindling/second.py").write_text("# the second release\n")
    program = (machine.checkout / "__main__.py").read_text()
    (machine.checkout / "__main__.py").write_text(program + '\nraise pulumi.RunError("half-way")\n')
    seed(machine, host)
    assert machine.cli("up", "staging", "--yes").returncode == 1
    assert "the last `up` of stack `staging` did not succeed" in refused(
        machine, "promote", "staging", "prod"
    )
    (machine.checkout / "__main__.py").write_text(program)
    ok(machine, "up", "staging")
    message = refused(machine, "promote", "staging", "prod")
    assert "with changes that are in no commit" in message
    assert "operator/src/kindling/second.py" in message
    second = commit(machine.checkout, "the second release")
    ok(machine, "up", "staging")
    assert objects(planes["staging"]) != before

    # Prod has the first still, and neither this commit's rights nor its Pod beside it.
    record = machine.home / "state/pulumi/.pulumi/stacks/kindling/prod.json"
    kept = record.read_bytes()
    words = f"stack `prod` runs the release of commit {first[:12]}, and this checkout is commit {second[:12]}"
    for verb in ("up", "preview", "drift"):
        message = refused(machine, verb, "prod")
        assert words in message
        assert "python3 -m infra checkout prod FOLDER" in message
    assert record.read_bytes() == kept
    for verbs in (("up", "--yes", "--skip-preview"), ("preview",)):
        alone = machine.cli("exec", "--stack", "prod", "pulumi", *verbs, "--non-interactive")
        assert alone.returncode != 0
        assert words in alone.stdout + alone.stderr
    assert objects(planes["prod"]) == before

    assert f"  commit: {first[:12]} -> {second[:12]}\n" in ok(machine, "promote", "staging", "prod")
    commit(machine.checkout, "prod: the second release")
    ok(machine, "up", "prod")
    after = objects(planes["prod"])
    assert after == objects(planes["staging"])
    assert all(after[part] != before[part] for part in before)

    # Back: the release before, from its own commit, with the settings of today.
    edit(machine, "Pulumi.prod.yaml", "config:", "config:\n  kindling:replicas: 3")
    ok(machine, "promote", "staging", "prod", "--release", first[:7])
    commit(machine.checkout, "prod: back to the first release")
    assert f"this checkout is commit {git(machine.checkout, 'rev-parse', 'HEAD')[:12]}" in refused(
        machine, "up", "prod"
    )
    folder = machine.home / "prod-release"
    reported = ok(machine, "checkout", "prod", str(folder))
    assert f"the release of stack staging ({first[:12]})" in reported
    there = Machine(machine.home, folder, machine.extra)
    assert "everything is as" not in there.cli("preview", "prod").stdout
    ok(there, "up", "prod")
    assert objects(planes["prod"]) == before
    with closing(Api(planes["prod"])) as api:
        assert api.get(DEPLOYMENT).accepted()["spec"]["replicas"] == 3
    assert "everything is as the last `up` left it" in ok(there, "drift", "prod")

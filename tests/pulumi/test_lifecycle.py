"""A stack from nothing to nothing, by the whole program: previewed, up, up again, half-failed, destroyed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.paths import REPOSITORY
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kubelet import kubelet
from tests.pulumi.machine import Host

OPERANDS = REPOSITORY / "operator" / "images"
IMPATIENT = """\
import pulumi

from infra import program, settings


def hurry(args):
    if args.type_ == "kubernetes:apps/v1:Deployment":
        args.opts.custom_timeouts = pulumi.CustomTimeouts(create="8s", update="8s")
    return pulumi.ResourceTransformResult(args.props, args.opts)


pulumi.runtime.register_resource_transform(hurry)
program.build(settings.load(pulumi.Config().get, stack=pulumi.get_stack()))
"""


def kept_for(host: Host) -> list[Path]:
    """What is in the folder that Pulumi's programs have for temporary files."""
    return list((host.home / "state/stacks/dev/tmp").iterdir())


def test_life_of_a_stack(host: Host, plane: ControlPlane) -> None:
    """One test, because each step needs the state that the one before left."""
    temporary = host.home / "tmp"
    temporary.mkdir()
    host.extra["TMPDIR"] = str(temporary)
    engine = host.home / "bin" / "podman"
    engine.rename(engine.with_name("aside"))
    if kubectl := shutil.which("kubectl"):  # else it is in the cache, built for the tests
        (host.home / "bin" / "kubectl").symlink_to(kubectl)
    host.extra["PATH"] = f"{host.home / 'bin'}:/nowhere"
    preview = host.cli("preview")
    assert preview.returncode == 0, preview.stdout + preview.stderr
    assert "to create" in preview.stdout
    assert host.cli("drift").returncode == 1
    engine.with_name("aside").rename(engine)

    # No node: the operator's Pods cannot run.
    program = host.checkout / "__main__.py"
    whole = program.resolve()
    program.unlink()
    program.write_text(IMPATIENT)
    failed = host.cli("up")
    assert failed.returncode == 1
    assert "kindling-operator" in failed.stdout
    assert "`pulumi up` of stack `dev` ended with status" in failed.stderr
    assert "Traceback" not in failed.stdout + failed.stderr
    program.unlink()
    program.symlink_to(whole)
    with kubelet(plane):
        retried = host.cli("up")
        assert retried.returncode == 0, retried.stdout + retried.stderr
        assert "replaced" not in retried.stdout
        # The Kubernetes provider leaves the kubeconfig it was given wherever temporary files go.
        assert list(temporary.iterdir()) == []
        assert kept_for(host) == []
        assert host.memory["tmpdir"] == str(temporary)

        again = host.cli("exec", "pulumi", "up", "--yes", "--skip-preview", "--expect-no-changes")
        assert again.returncode == 0, again.stdout + again.stderr
        # Nobody was left to remove it, but who reads it must be its user.
        [*_, left] = kept_for(host)
        assert left.parent.stat().st_mode & 0o777 == 0o700
        assert host.cli("up").returncode == 0
        assert kept_for(host) == []
        refreshed = host.cli("exec", "pulumi", "refresh", "--preview-only", "--expect-no-changes")
        assert refreshed.returncode == 0, refreshed.stdout + refreshed.stderr

        # Another cluster by the same name, since the nodes are gone.
        host.remember(nodes={}, images=[])
        healed = host.cli("up")
        assert healed.returncode == 0, healed.stdout + healed.stderr
        assert host.memory["nodes"]
        # The operator's own, and those of its operands.
        assert len(host.memory["images"]) == 1 + len(list(OPERANDS.glob("*/Containerfile")))
        assert host.cli("drift").returncode == 0

        gone = host.cli("destroy")
        assert gone.returncode == 0, gone.stdout + gone.stderr
        assert host.memory["nodes"] == {}
        assert not (host.home / "state").exists()
        assert list(temporary.iterdir()) == []
        assert "nothing to destroy" in host.cli("destroy").stdout


@pytest.mark.parametrize("verb", ["drift", "refresh"])
def test_stack_that_never_was_up_is_distinguished(host: Host, verb: str) -> None:
    done = host.cli(verb, "test")
    assert done.returncode == 1
    assert "stack `test` has no state to compare" in done.stderr

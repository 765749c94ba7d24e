"""Staging and prod in a cluster that Kindling's program did not make, with a registry between them.

What only nodes that pull can show, where it is asked to be thorough; promotion and protection tests/apiserver
tests each time.
"""

from __future__ import annotations

import json
import time

import pytest

from infra.drivers.engine import ContainerEngine
from tests.cluster import program_pod, standin
from tests.cluster.standin import Checkout, bring_staging_up
from tests.unit.infra.repository import commit

pytestmark = pytest.mark.thorough
checkout = standin.checkout


def test_what_staging_is_proven_with_is_what_prod_gets(checkout: Checkout) -> None:
    host = checkout.folder.joinpath("Pulumi.staging.yaml").read_text().split("registry: ")[1].split("/")[0]
    bring_staging_up(checkout)  # It waits for a sample of each kind to be Ready, where there are some.
    proven = checkout.operator_image("staging")
    assert proven.startswith(f"{host}/kindling/kindling-operator@sha256:")
    rows = checkout.get("staging", "statefulset", "mydb")["spec"]["template"]["spec"]["containers"][0]
    assert rows["image"].startswith(f"{host}/kindling/kindling-postgres@sha256:")
    unchanged = ("pulumi", "up", "--yes", "--skip-preview", "--expect-no-changes")
    checkout.ok("exec", "--stack", "staging", *unchanged)
    refused = checkout.infra("up", "prod")
    assert refused.returncode == 1
    assert "promote staging prod" in refused.stdout + refused.stderr
    assert proven.rpartition("@")[2][:19] in checkout.ok("promote", "staging", "prod")
    checkout.ok("destroy", "staging")
    assert (
        "NotFound"
        in checkout.infra(
            "exec", "--stack", "staging", "kubectl", "get", "namespace", "kindling-system"
        ).stderr
    )

    # Another commit: prod is what was proven, from its own commit, and builds nothing.
    (checkout.folder / "operator/src/kindling/unproven.py").write_text("# not in any image\n")
    commit(checkout.folder)
    refused = checkout.infra("up", "prod")
    assert refused.returncode == 1
    assert "stack `prod` runs the release of commit" in refused.stderr
    checkout.ok("checkout", "prod", str(checkout.home / "release"))
    checkout.folder = checkout.home / "release"
    checkout.ok("up", "prod")
    assert checkout.operator_image("prod") == proven
    leave_prod(checkout, proven)


def leave_prod(checkout: Checkout, proven: str) -> None:
    refused = checkout.infra("destroy", "prod")
    assert refused.returncode == 1
    assert "stack `prod` is protected against destroy" in refused.stderr
    assert checkout.operator_image("prod") == proven
    checkout.change("prod", "  kindling:cluster:", "  kindling:protect: false\n  kindling:cluster:")
    checkout.ok("up", "prod")
    checkout.ok("destroy", "prod")
    assert "nothing to destroy" in checkout.ok("destroy", "prod")


UP = [
    ["stack", "init", "prod"],
    ["up", "--yes", "--skip-preview", "--stack", "prod"],
    ["up", "--yes", "--skip-preview", "--stack", "prod", "--expect-no-changes"],
]
DOWN = [["destroy", "--yes", "--skip-preview", "--stack", "prod"]]


def run_job(checkout: Checkout, name: str, *, image: str, commands: list[list[str]]) -> None:
    """Raises AssertionError with what the Pod printed unless it succeeds."""
    text = program_pod.job(name, image=image, commands=commands)
    apply(checkout, text)
    namespace = f"--namespace={program_pod.NAMESPACE}"
    deadline = time.monotonic() + 600
    while True:
        job = checkout.get("staging", "job", name, namespace)
        if job.get("status", {}).get("succeeded"):
            return
        if job.get("status", {}).get("failed") or time.monotonic() > deadline:
            printed = checkout.infra(
                "exec", "--stack", "staging", "kubectl", "logs", f"job/{name}", namespace
            )
            pods = checkout.kubectl("staging", "describe", "pods", namespace)
            raise AssertionError(f"{name}: {printed.stdout[-6000:]}\n{pods[-3000:]}")
        time.sleep(2)


def apply(checkout: Checkout, text: str) -> None:
    (checkout.home / "manifest.yaml").write_text(text)
    checkout.kubectl("staging", "apply", f"--filename={checkout.home / 'manifest.yaml'}")


def test_the_program_runs_in_a_pod_without_kubectl_and_engine(checkout: Checkout) -> None:
    """After the test before it, which leaves the release and an empty cluster."""
    host = checkout.folder.joinpath("Pulumi.staging.yaml").read_text().split("registry: ")[1].split("/")[0]
    promoted = json.loads((checkout.folder / "releases/prod.json").read_text())["images"]["operator"]
    engine = ContainerEngine.detect()
    tag, image = "localhost/kindling-program:test", f"{host}/kindling/program:test"
    try:
        program_pod.build_image(engine, checkout.folder, stack="prod", tag=tag, folder=checkout.home)
        engine.push(tag, image, insecure=True)
    finally:
        engine.remove_image(tag)
    apply(checkout, program_pod.prepared())
    run_job(checkout, "up", image=image, commands=UP)
    assert checkout.operator_image("staging") == promoted
    run_job(checkout, "down", image=image, commands=DOWN)
    gone = checkout.infra("exec", "--stack", "staging", "kubectl", "get", "namespace", "kindling-system")
    assert "NotFound" in gone.stderr

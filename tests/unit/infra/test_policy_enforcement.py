"""Policies at work, with a real Pulumi: what violates one ends the run, by name, before it is made.

The programs write manifests into a folder in place of a cluster, so what was made can be looked at.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from infra import policies, program, settings
from tests.unit.infra.cli_machine import Machine, machine_with_pulumi
from tests.unit.infra.fakes import declare

HEAD = """\
import os

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes import core, rbac

from infra import policy_enforcement
from infra.made import Made

policy_enforcement.enforce()
made = Made("made")
version = os.environ.get("KINDLING_PROVIDER_VERSION")
options = pulumi.ResourceOptions(version=version)
provider = kubernetes.Provider("none", render_yaml_to_directory="rendered", opts=options)
inside = pulumi.ResourceOptions(provider=provider)


def role(name, verb):
    rules = [rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["pods"], verbs=[verb])]
    rbac.v1.ClusterRole(name, metadata={"name": name}, rules=rules, opts=inside)


def pod(name, **spec):
    core.v1.Pod(name, metadata={"name": name}, spec=spec, opts=inside)


"""
# A verdict that comes late, so that what does not wait for it would be made by then.
SLOW = """\
import asyncio

judge = policy_enforcement._properties


async def slowly(args):
    props = await judge(args)
    await asyncio.sleep(1)
    return props


policy_enforcement._properties = slowly
"""
MADE = """\
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider


class Provider(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        return CreateResult("made", {"verb": "*"})


class Made(Resource, module="made", name="Made"):
    verb: pulumi.Output[str]

    def __init__(self, name):
        super().__init__(Provider(), name, {"verb": None})
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = machine_with_pulumi(tmp_path)
    (machine.checkout / "infra" / "made.py").write_text(MADE)
    return machine


def write_program(machine: Machine, body: str) -> None:
    (machine.checkout / "__main__.py").write_text(HEAD + textwrap.dedent(body))


def rendered(machine: Machine) -> str:
    return " ".join(path.name for path in machine.checkout.glob("rendered/*/*"))


def test_a_preview_reports_all_that_violates_a_policy_and_no_secret(machine: Machine) -> None:
    write_program(
        machine,
        """\
        role("good", "get")
        role("wide", "*")
        role("later", made.verb)
        role("hidden", pulumi.Output.secret("canary*"))
        pod("snake", host_network=True, containers=[])
        pod("camel", hostPID=True, containers=[{"name": "main", "image": made.verb}])
        """,
    )
    done = machine.cli("preview")
    assert done.returncode == 1
    reported = [line for line in done.stdout.splitlines() if "kubernetes:" in line and "`: " in line]
    assert [line.partition("v1:")[2] for line in reported if "containers[main]" not in line] == [
        "Pod `camel`: spec.hostPID cannot be `true`",
        "Pod `camel`: spec.securityContext.runAsNonRoot is not set",
        "Pod `camel`: spec.securityContext.seccompProfile.type is not set",
        "Pod `snake`: spec.hostNetwork cannot be `true`",
        "ClusterRole `hidden`: rules[0].verbs cannot be `[secret]`",
        "ClusterRole `wide`: rules[0].verbs cannot be `*`",
    ]
    assert "remedy: name each that is needed" in done.stdout
    assert "containers[main].image" not in done.stdout
    assert "canary" not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_up_ends_before_it_is_made_and_goes_on_once_it_is_fixed(machine: Machine) -> None:
    write_program(machine, SLOW + 'role("good", "get")\nrole("later", made.verb)\n')
    # Only when the other resource stands is it known what this one would be.
    assert machine.cli("preview").returncode == 0
    done = machine.cli("up")
    assert done.returncode == 1
    assert "ClusterRole `later`: rules[0].verbs cannot be `*`" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "later" not in rendered(machine)

    write_program(machine, 'role("good", "get")\nrole("later", made.verb.apply(lambda _verb: "list"))\n')
    # Pulumi's own: ours looks at the cluster first, and here is none, only files.
    done = machine.cli("exec", "pulumi", "up", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout
    assert "later" in rendered(machine)
    assert "good" in rendered(machine)


WITHOUT_RULES = {
    *("CustomResourceDefinition", "MyCustomResource", "Memcached", "Postgresql", "PulsarConsumer"),
    *("Namespace", "ServiceAccount", "Service", "NetworkPolicy", "PodDisruptionBudget"),
}


@pytest.mark.parametrize("preview", [False, True], ids=["up", "preview"])
def test_every_object_of_a_stack_that_a_rule_is_about_is_judged(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: dict[str, Any] = {}
    monkeypatch.setattr(
        policies, "violations", lambda type, name, props: judged.update({f"{type}/{name}": props}) or []
    )
    graph = declare(lambda: program.build(settings.read("dev")), stack="dev", preview=preview)
    objects = [item for item in graph.resources if item.type.startswith("kubernetes:")]
    kinds = {item.type.rpartition(":")[2] for item in objects}
    assert kinds >= WITHOUT_RULES
    assert sorted(judged) == sorted(
        f"{item.type}/{item.name}" for item in objects if item.type.rpartition(":")[2] not in WITHOUT_RULES
    )
    deployment = judged["kubernetes:apps/v1:Deployment/operator-deployment"]
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["operator", "prober"]
    for container in containers:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["image"].startswith("localhost/kindling-operator:")

"""A stack of some kinds has their definitions, rights, images and samples, and nothing of the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from kindling.kinds import registry
from kindling.kinds.base import Kind
from kindling.kube.resources import EVENT, POD

from infra import image_references, manifests, program, rbac, settings
from infra.components import images
from infra.errors import KindlingError
from infra.settings import BrokerSettings, Settings
from tests.unit.infra.fakes import Graph, Registration, declare

RBAC = "kubernetes:rbac.authorization.k8s.io/v1"
DEV = settings.read("dev")
KINDS = manifests.kinds()
SOME = [()] + [some for count in range(1, len(KINDS)) for some in combinations(KINDS, count)]


def only(*kinds: str) -> Settings:
    return replace(DEV, operator=replace(DEV.operator, kinds=kinds), broker=BrokerSettings(enabled=False))


def graph_of(*kinds: str) -> Graph:
    return declare(lambda: program.build(only(*kinds)), stack="dev", preview=False)


@pytest.fixture(scope="module")
def memcached() -> Graph:
    return graph_of("Memcached")


def names(found: list[Registration]) -> set[str]:
    return {item.inputs["metadata"]["name"] for item in found}


def test_the_operator_and_the_definitions_know_the_same_kinds() -> None:
    assert sorted(registry.NAMES) == list(KINDS) == sorted(rbac.NEEDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rights_of_a_kind_cover_its_children_and_watches(kind: str) -> None:
    """Of an operator that serves no other kind."""
    alone = registry.kinds(dict.fromkeys(image_references.RUN_BY, "image:1"), only=[kind])
    assert alone
    themselves = {(served.type.group, served.type.plural) for served in alone}
    for served in alone:
        wanted = {(type.group, type.plural) for type in (*served.children, *served.optional, *served.watches)}
        if served.__class__.warnings is not Kind.warnings:  # the Events of a Pod in trouble
            wanted.add((EVENT.group, EVENT.plural))
        if served.finalizer:  # which is written into the resource itself
            wanted |= themselves
        granted = {(rule.group, *rule.resources) for rule in rbac.NEEDS[kind]}
        assert granted == wanted
        made = {(type.group, type.plural) for type in (*served.children, *served.optional) if type != POD}
        writable = {(rule.group, *rule.resources) for rule in rbac.NEEDS[kind] if "create" in rule.verbs}
        assert writable - {(EVENT.group, EVENT.plural)} == made


WRITE = {"get", "list", "watch", "create", "patch"}
ON_SECRETS = {
    "Backup": WRITE,
    "BindingImport": WRITE | {"delete"},
    "Postgresql": WRITE,
    "PulsarConsumer": {"get", "list", "watch"},
    "Restore": WRITE,
}


@pytest.mark.parametrize("kinds", SOME, ids=",".join)
def test_kinds_together_have_the_rights_of_each_and_no_others(kinds: tuple[str, ...]) -> None:
    def rights(*chosen: str) -> set[tuple[str, str, str]]:
        return {
            (rule.group, resource, verb)
            for rule in rbac.cluster_rules(chosen)
            for resource in rule.resources
            for verb in rule.verbs
        }

    assert rights(*kinds) == set().union(*(rights(kind) for kind in kinds or KINDS))
    rules = rbac.cluster_rules(kinds)
    said = [(rule.group, rule.resources, verb) for rule in rules for verb in rule.verbs]
    assert len(set(said)) == len(said), "no right is said twice"
    on_secrets = {verb for group, resource, verb in rights(*kinds) if (group, resource) == ("", "secrets")}
    expected: set[str] = set()
    for kind in kinds or KINDS:
        expected |= ON_SECRETS.get(kind, set())
    assert on_secrets == expected


def test_a_kind_without_a_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "NEEDS", {})
    with pytest.raises(KindlingError, match="nothing says what an operator of Memcached may do"):
        rbac.cluster_rules(["Memcached"])


def test_only_its_definition_is_installed(memcached: Graph) -> None:
    found = memcached.of("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")
    assert names(found) == {"memcacheds.cache.example.com"}
    assert len(manifests.definitions(["Postgresql"])) == 2, "of each of its groups"


def test_only_its_rights_are_asked_for(memcached: Graph) -> None:
    """And neither its users' roles nor the policies name another kind."""
    rules = [rule for role in memcached.of(f"{RBAC}:ClusterRole") for rule in role.inputs["rules"]]
    asked = {
        (group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]
    }
    assert asked == {
        ("cache.example.com", "memcacheds"),
        ("cache.example.com", "memcacheds/status"),
        ("cache.example.com", "memcacheds/scale"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("", "services"),
        ("", "configmaps"),
        ("", "pods"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("events.k8s.io", "events"),
    }
    policies = [item for item in memcached.resources if "ValidatingAdmissionPolicy" in item.type]
    assert names(policies) == {"kindling-memcached"}


def test_only_its_images_are_built_and_the_operator_knows_it(memcached: Graph) -> None:
    built = {item.inputs["name"] for item in memcached.of("pulumi-python:dynamic/containers:Image")}
    assert built == {"kindling-operator", "kindling-memcached", "kindling-exporters"}
    spec = memcached.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    reported = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
    assert reported["KINDLING_KINDS"] == "Memcached"
    assert [name for name in reported if "IMAGE" in name] == [
        "KINDLING_IMAGE_EXPORTERS",
        "KINDLING_IMAGE_MEMCACHED",
    ]


def test_only_its_sample_is_applied(memcached: Graph) -> None:
    samples = [item.inputs for item in memcached.resources if item.parent.endswith("::samples")]
    assert [(item["kind"], item["metadata"]["name"]) for item in samples] == [
        ("Memcached", "memcached-sample")
    ]
    assert memcached.exports["samples"] == []
    both: list[dict[str, Any]] = graph_of("Postgresql").exports["samples"]
    assert len(both) == 2


def test_each_image_is_run_by_a_kind() -> None:
    """So that none is built for a stack that does not run it."""
    folders = images.operands()
    assert set(image_references.RUN_BY) == set(folders)
    assert {kind for by in image_references.RUN_BY.values() for kind in by} <= {*KINDS}
    for kind in KINDS:
        ran = {name for name, by in image_references.RUN_BY.items() if kind in by}
        assert set(images.operands([kind])) == ran


def test_the_operator_does_not_ask_for_the_image_of_a_kind_that_it_does_not_serve() -> None:
    given = {"memcached": "m:1", "exporters": "e:1"}
    served = registry.kinds(given, only=("Memcached", "MyCustomResource"))
    assert [kind.type.kind for kind in served] == ["Memcached", "MyCustomResource"]
    with pytest.raises(KeyError):
        registry.kinds(given)


@pytest.mark.parametrize("role", rbac.USER_ROLES)
def test_a_users_role_is_aggregated_and_gives_nothing_but_the_kinds(role: str) -> None:
    (found,) = (item for item in graph_of().of(f"{RBAC}:ClusterRole") if item.name == f"users-{role}")
    metadata = found.inputs["metadata"]
    assert metadata["name"] == f"kindling-{role}"
    assert metadata["labels"] == {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true"}
    groups = {str(crd["spec"]["group"]) for crd in manifests.load("crds")}
    for rule in found.inputs["rules"]:
        assert set(rule["apiGroups"]) <= groups
        writes = set(rule["verbs"]) - {"get", "list", "watch"}
        if role == "view" or rule["resources"][0].endswith("/status"):
            assert not writes

"""The rights in guides/in-a-pod.md are those that `up` asks for, and what lets it grant the operator's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from infra.cli.stacks import preflight
from infra.drivers.cluster_context import IN_CLUSTER
from tests import guides
from tests.unit.docs.pages import text

PAGE = text("guides/in-a-pod.md")
BLOCKS = {name: list(yaml.safe_load_all(body)) for language, name, body in guides.blocks(PAGE) if name}


def only(name: str, kind: str) -> Mapping[str, Any]:
    (found,) = (item for item in BLOCKS[name] if item["kind"] == kind)
    return dict(found)


def test_the_guide_grants_what_up_asks_for_and_no_more() -> None:
    granted = {
        (group, resource, verb)
        for rule in only("pulumi/rights.yaml", "ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {(each.group, each.resource, each.verb) for each in preflight.required_permissions(served=None)}
    # Of a namespaced scope the operator's roles are in the namespaces.
    granting = {
        (preflight.RBAC, role, verb) for role in ("clusterroles", "roles") for verb in ("escalate", "bind")
    }
    assert granted == asked | granting


def test_the_account_is_the_same_in_each_object() -> None:
    account = only("pulumi/rights.yaml", "ServiceAccount")["metadata"]
    for name in BLOCKS:
        (subject,) = only(name, "ClusterRoleBinding")["subjects"]
        assert subject == {"kind": "ServiceAccount", **account}
    stack = only("pulumi/stack.yaml", "Stack")
    assert stack["metadata"]["namespace"] == account["namespace"]
    assert stack["spec"]["serviceAccountName"] == account["name"]


def test_the_setting_is_the_programs() -> None:
    (setting,) = (
        body for language, name, body in guides.blocks(PAGE) if not name and body.startswith("config:")
    )
    assert yaml.safe_load(setting)["config"]["kindling:context"] == IN_CLUSTER

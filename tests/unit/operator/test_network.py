"""Who may connect to a workload: its own namespace, the operator, and those that spec.allowedFrom selects."""

from __future__ import annotations

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.network import OPERATOR_LABELS
from kindling.kinds.registry import kinds
from kindling.kube.resources import NETWORK_POLICY, Object

from infra.components.operator import SELECTOR
from infra.project import OPERATOR_NAMESPACE as NAMESPACE
from tests.unit.operator.networks import DEFAULT_PEERS
from tests.unit.schema.worlds import AnyImage, nothing

SHOPS: Object = {"namespaceSelector": {"matchLabels": {"team": "shop"}}, "podSelector": {"matchLabels": {}}}
EVERYBODY: Object = {"namespaceSelector": {}}
OFFICE: Object = {"ipBlock": {"cidr": "203.0.113.0/24"}}


def servers(operator_namespace: str = NAMESPACE) -> list[Kind]:
    """The kinds whose spec has allowedFrom."""
    found = kinds(AnyImage(), operator_namespace=operator_namespace)
    return [kind for kind in found if kind.type.kind in ("Postgresql", "Memcached")]


def peers(kind: Kind, spec: Object) -> list[Object]:
    meta = {"namespace": "ns", "name": "shop", "uid": "cr-uid", "generation": 1}
    cr: Object = {"metadata": meta, "spec": spec}
    (policy,) = (child for child in kind.desired(cr, nothing()) if child.type == NETWORK_POLICY)
    (rule,) = policy.body["spec"]["ingress"]
    found: list[Object] = rule["from"]
    return found


EACH_SERVER = pytest.mark.parametrize("kind", servers(), ids=lambda kind: kind.type.group_kind)


@EACH_SERVER
@pytest.mark.parametrize("spec", [{}, {"allowedFrom": []}, {"allowedFrom": None}])
def test_own_namespace_and_the_operator_by_default(kind: Kind, spec: Object) -> None:
    assert peers(kind, spec) == DEFAULT_PEERS


@EACH_SERVER
def test_allowed_from_adds_and_takes_nothing_away(kind: Kind) -> None:
    given = [SHOPS, EVERYBODY, OFFICE]
    assert peers(kind, {"allowedFrom": given}) == [*DEFAULT_PEERS, *given]


def test_the_operators_namespace_is_the_configured_one() -> None:
    for kind in servers("elsewhere"):
        (_, operator) = peers(kind, {})
        assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "elsewhere"}


def test_the_operators_pods_bear_the_labels_that_are_let_in() -> None:
    """Or it could not log in, and no Postgresql would ever be Ready."""
    assert OPERATOR_LABELS == SELECTOR

"""spec.allowedFrom: what it admits is what a NetworkPolicy admits, and a mistake is refused at the door."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.engine.compare import satisfies
from kindling.kinds.memcached import Memcached
from kindling.kinds.postgresql import Postgresql
from kindling.kube.resources import NETWORK_POLICY

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import MEMCACHED, POSTGRESQL, Kind
from tests.unit.operator import memcacheds, postgresqls
from tests.unit.schema.drawing import drawn_from

KINDS = pytest.mark.parametrize("kind", [POSTGRESQL, MEMCACHED], ids=["Postgresql", "Memcached"])
EVERYBODY: Json = {"namespaceSelector": {}}
TEAM: Json = {"matchLabels": {"team": "shop"}}

GOOD: list[list[Json]] = [
    [],
    [EVERYBODY],
    [{"namespaceSelector": TEAM, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "web", "a": ""}}}],
    [{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}}],
    [{"namespaceSelector": {"matchExpressions": [{"key": "x.y/team", "operator": "DoesNotExist"}]}}],
    [EVERYBODY] * 16,
    [{"ipBlock": {"cidr": "203.0.113.0/24"}}, {"ipBlock": {"cidr": "2001:db8::/32"}}, EVERYBODY],
    [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "10.1.2.3/8"}}, {"ipBlock": {"cidr": "::/0"}}],
]
BAD: list[tuple[list[Json], list[str]]] = [
    ([{}], ["spec.allowedFrom", "needs a namespaceSelector", "namespaceSelector {} for every namespace"]),
    ([{"podSelector": TEAM}], ["spec.allowedFrom", "needs a namespaceSelector"]),
    ([{"namespaceSelector": {"matchLabels": {"a b": "x"}}}], ["matchLabels", "DOMAIN/NAME"]),
    ([{"namespaceSelector": {"matchLabels": {"a" * 64: "x"}}}], ["matchLabels", "DOMAIN/NAME"]),
    ([{"namespaceSelector": {"matchLabels": {"A.com/a": "x"}}}], ["matchLabels", "DOMAIN/NAME"]),
    ([{"namespaceSelector": {"matchLabels": {"": "x"}}}], ["matchLabels", "DOMAIN/NAME"]),
    ([{"namespaceSelector": {"matchLabels": {"a": "x y"}}}], ["matchLabels.a", '"x y"']),
    (
        [{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In"}]}}],
        ["matchExpressions 'team' In needs values"],
    ),
    (
        [
            {
                **EVERYBODY,
                "podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            }
        ],
        ["matchExpressions 'a' Exists takes no values"],
    ),
    (
        [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}}],
        ["operator", '"Is"', '"NotIn"'],
    ),
    ([EVERYBODY] * 17, ["spec.allowedFrom", "at most 16"]),
    ([{"ipBlock": {}}], ["spec.allowedFrom[0].ipBlock.cidr", "Required"]),
    *(
        (
            [{"ipBlock": {"cidr": block}}],
            ["spec.allowedFrom[0].ipBlock.cidr", f"ipBlock.cidr '{block}' is no block", "use ADDRESS/LENGTH"],
        )
        for block in (
            "203.0.113.7",
            "10.0.0.0/33",
            "256.0.0.0/8",
            "010.0.0.0/8",
            "::/129",
            "1::2::/64",
            "any",
        )
    ),
    (
        [{**EVERYBODY, "ipBlock": {"cidr": "10.0.0.0/8"}}],
        ["spec.allowedFrom", "'10.0.0.0/8' beside a selector", "make two entries"],
    ),
    ([{"podSelector": TEAM, "ipBlock": {"cidr": "10.0.0.0/8"}}], ["spec.allowedFrom", "beside a selector"]),
]


@KINDS
@pytest.mark.parametrize("peers", GOOD, ids=lambda value: str(value)[:60])
def test_good_selectors_are_kept_as_they_are(api: Api, kind: Kind, peers: list[Json]) -> None:
    body = kind.resource("open", {"allowedFrom": peers})
    assert api.create(kind.collection, body, dry_run=True).accepted()["spec"]["allowedFrom"] == peers


@KINDS
@pytest.mark.parametrize(("peers", "said"), BAD, ids=lambda value: str(value)[:60])
def test_bad_selectors_are_refused_by_name(api: Api, kind: Kind, peers: list[Json], said: list[str]) -> None:
    answer = api.create(kind.collection, kind.resource("bad", {"allowedFrom": peers}), dry_run=True)
    assert answer.status == 422, answer.message or "admitted"
    assert "evaluating rule" not in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


def policies(peers: list[Json]) -> list[Json]:
    """The NetworkPolicy of each kind for this list, ready to be created."""
    kinds = (
        Postgresql(group="g", image="i", init_image="i", exporters_image="exporters:1"),
        Memcached(image="i", exporters_image="exporters:1"),
    )
    crs = postgresqls.postgresql(allowedFrom=peers), memcacheds.memcached(allowedFrom=peers)
    seen = postgresqls.observed(postgresqls.running()), memcacheds.observed()
    return [
        {
            "apiVersion": NETWORK_POLICY.api_version,
            "kind": NETWORK_POLICY.kind,
            "metadata": {"name": "drawn"},
            "spec": child.body["spec"],
        }
        for kind, cr, world in zip(kinds, crs, seen, strict=True)
        for child in kind.desired(cr, world)
        if child.type == NETWORK_POLICY
    ]


PEERS = [peer for peers in GOOD for peer in peers]
SCHEMA: Json = MEMCACHED.schema["properties"]["spec"]["properties"]["allowedFrom"]


def test_no_admitted_selector_makes_a_policy_that_the_server_refuses(api: Api) -> None:
    """Or all that is made after the policy would wait for it."""
    admitted = 0

    @settings(max_examples=100, database=None, suppress_health_check=list(HealthCheck))
    @given(peers=drawn_from(SCHEMA) | st.lists(st.sampled_from(PEERS), max_size=16))
    def check(peers: list[Json]) -> None:
        nonlocal admitted
        body = MEMCACHED.resource("drawn", {"allowedFrom": peers})
        if api.create(MEMCACHED.collection, body, dry_run=True).status == 422:
            return
        admitted += 1
        for policy in policies(peers):
            path = NETWORK_POLICY.path(namespace="default")
            made = api.create(path, policy, dry_run=True).accepted()
            assert satisfies(policy["spec"], made["spec"])  # or it would be applied again for ever

    check()
    assert admitted > 10

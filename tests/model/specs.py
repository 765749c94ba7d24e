"""Specs for histories of all kinds: what their CRDs admit and, more often, what meets and changes something.

Beside the histories, which know no kind's fields.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from kindling.kinds.base import ExternalResult, Kind
from kindling.kube.resources import Object

from tests.model.world import KINDS_BY_NAME
from tests.unit.operator import placement
from tests.unit.schema.drawing import drawn_from
from tests.unit.schema.worlds import schema_of

LEAST = {"replicas": 0, "size": 1}


def _few(spec: Object) -> Object:
    """With few replicas, which all behave alike."""
    few = {name: max(least, spec[name] % 4) for name, least in LEAST.items() if name in spec}
    return {**spec, **few}


BY_THE_ADMIN_API = ("replay", "autoscaling")
"""What a PulsarConsumer without adminURL may not ask for."""


def may_follow(spec: Object, known: Object | None) -> Object:
    """The spec with what the CRDs keep from changing, and do not let stand beside each other."""
    if "password" in spec:
        spec = {name: value for name, value in spec.items() if name != "passwordSecretRef"}
    if "adminURL" not in spec:
        spec = {name: value for name, value in spec.items() if name not in BY_THE_ADMIN_API}
    if "planFor" in {*spec, *(known["spec"] if known is not None else ())}:
        spec = {name: value for name, value in spec.items() if name != "planFor"}
        if known is not None and "planFor" in known["spec"]:
            spec |= {"planFor": known["spec"]["planFor"], "mode": "Plan"}
    users = ("defaultUser", "defaultuser")
    if known is not None and any(name in {*spec, *known["spec"]} for name in users):
        spec = {name: value for name, value in spec.items() if name not in users}
        spec |= {name: known["spec"][name] for name in users if name in known["spec"]}
    if known is None or "storage" not in {*spec, *known["spec"]}:
        return spec
    fixed = ("ephemeral", "storageClassName")
    old, new = known["spec"].get("storage") or {}, spec.get("storage") or {}
    storage = {name: value for name, value in new.items() if name not in fixed}
    storage |= {name: old[name] for name in fixed if name in old}
    return {**spec, "storage": storage}


PEERS: st.SearchStrategy[list[Object]] = st.sampled_from(
    [
        [],
        [{"namespaceSelector": {}}],
        [{"namespaceSelector": {}, "podSelector": {}}],
        [{"ipBlock": {"cidr": "203.0.113.0/24"}}],
    ]
)
PLACED: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {"metadata": {"labels": {"team": "shop"}}, "spec": {"topologySpreadConstraints": []}},
        {
            "metadata": {"annotations": {"example.com/owner": "shop"}},
            "spec": {"nodeSelector": {"disk": "ssd"}},
        },
        placement.FULL,
    ]
)
"""What podTemplate says: labels that go again, constraints in the place of the default, all of it."""
SERVED: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {"metadata": placement.SERVED["metadata"]},
        {"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}},
        placement.SERVED,
    ]
)
"""What serviceTemplate says; a Memcached takes the metadata alone."""
AMOUNTS = st.sampled_from([{"limits": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi"}}, {}])


def _optional(required: Object, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    fixed = {name: st.just(value) if isinstance(value, str) else value for name, value in required.items()}
    return st.fixed_dictionaries(fixed, optional=optional)


ROLES: list[Object] = [
    {"name": "r", "login": True},
    {"name": "r", "login": True, "passwordSecretRef": {"name": "ours"}, "reclaimPolicy": "Delete"},
    {"name": "g"},
    {"name": "m", "login": True, "memberOf": ["g"]},
    {"name": "m", "login": True, "clientCertificate": {"enabled": True}},
    {"name": "c", "login": True, "clientCertificate": {"enabled": True, "passwordRequired": True}},
]
DATABASES = _optional(
    {},
    defaultUser=st.sampled_from(["ada", "postgres", 'we"ird', "kindling"]),
    password=st.sampled_from(["canary-one", "canary-two"]),
    passwordSecretRef=st.just({"name": "ours"}),
    image=st.sampled_from(["postgres:16", "postgres:17"]),
    version=st.sampled_from(["16", "17"]),
    deletionPolicy=st.sampled_from(["Retain", "Delete"]),
    storage=st.sampled_from(
        [{"size": "1Gi"}, {"size": "2Gi"}, {"ephemeral": True}, {}, {"autoGrow": {"maxSize": "3Gi"}}]
    ),
    parameters=st.sampled_from([{"work_mem": "8MB"}, {"max_connections": 50}, {"ssl": "on"}, {}]),
    paused=st.booleans(),
    mode=st.sampled_from(["Plan", "Apply"]),
    approval=st.sampled_from([{"above": "Reload"}, {"above": "Restart"}]),
    resources=AMOUNTS,
    podTemplate=PLACED,
    serviceTemplate=SERVED,
    tls=st.sampled_from([{}, {"required": True}, {"enabled": False}, {"secretName": "ours"}]),
    allowedFrom=PEERS,
    initSQL=st.sampled_from(
        [[], [{"configMapRef": {"name": "first", "key": "a"}}, {"secretRef": {"name": "ours", "key": "b"}}]]
    ),
    logging=st.sampled_from([{}, {"format": "Text"}, {"format": "JSON"}]),
    hba=st.sampled_from([["host all bob all reject"], ["host all ada all reject"], []]),
    bindingExports=st.sampled_from([[], *([{"namespace": "ns", "name": name}] for name in "ab")]),
    roles=st.lists(st.sampled_from(ROLES), max_size=3, unique_by=lambda role: str(role["name"])),
    databases=st.sampled_from(
        [[], [{"name": "shop", "owner": "r"}], [{"name": "x", "reclaimPolicy": "Delete"}]]
    ),
)
_ONE_TOPIC = _optional(
    {
        "serverAddress": st.sampled_from(["pulsar://localhost", "pulsar://far:1"]),
        "topic": st.sampled_from(["t", "u"]),
        "subscriptionName": "s",
        "replicas": st.integers(0, 3),
    },
    subscriptionType=st.sampled_from(["Exclusive", "Shared", "Failover"]),
    adminURL=st.just("http://far.invalid:8080"),
    auth=st.sampled_from(
        [
            {"tokenSecretRef": {"name": "ours"}},
            {"basicSecretRef": {"name": "ours"}},
            {"oauth2": {"issuerURL": "https://far.invalid", "credentialsSecretRef": {"name": "ours"}}},
        ]
    ),
    replay=st.sampled_from([{"from": "2026-11-24T07:00:00Z"}, {"from": "2026-11-24T08:00:00Z"}]),
    handler=st.sampled_from(
        [
            {"python": {"configMapRef": {"name": "code"}, "handler": "orders:handle"}},
            {"http": {"url": "http://orders"}},
        ]
    ),
    env=st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from("AB"), "value": st.sampled_from(["hush-1", "hush-2"])}
        ),
        max_size=2,
        unique_by=lambda item: item["name"],
    ),
    resources=AMOUNTS,
    podTemplate=PLACED,
    metrics=st.sampled_from([{"enabled": True}, {"enabled": False}]),
    schema=st.sampled_from([{"type": "JSON"}, {"type": "Avro", "definition": '"string"'}]),
)
_TOPICS: list[Object] = [{}, {}, {"topics": ["t", "u"]}, {"topicsPattern": "persistent://public/default/t.*"}]


def _reading(spec: Object, topics: Object) -> Object:
    """With these topics in place of the one; what a pattern may not be beside is left out."""
    if not topics:
        return spec
    left_out = {"topic", "replay"} if "topicsPattern" in topics else {"topic"}
    return {name: value for name, value in spec.items() if name not in left_out} | topics


CONSUMERS = st.builds(_reading, _ONE_TOPIC, st.sampled_from(_TOPICS))
CACHES = _optional(
    {},
    size=st.integers(1, 3),
    containerPort=st.sampled_from([11211, 80]),
    memoryMB=st.just(128),
    binding=st.just("ConfigMap"),
    statistics=st.booleans(),
    tls=st.sampled_from([{"enabled": True}, {"enabled": False}, {"enabled": True, "secretName": "mine"}]),
    auth=st.sampled_from(
        [{"enabled": True}, {"enabled": False}, {"enabled": True, "passwordSecretRef": {"name": "mine"}}]
    ),
    podTemplate=PLACED,
    serviceTemplate=SERVED,
    allowedFrom=PEERS,
)
IMPORTS = st.fixed_dictionaries(
    {
        "databaseRef": st.fixed_dictionaries(
            {"namespace": st.just("ns"), "name": st.sampled_from("ab")},
            optional={"group": st.just("database.db.example.com")},
        )
    }
)
WATCHERS = _optional({"name": st.sampled_from(["friend", "a-0"])})
TELLING = {
    "Postgresql": DATABASES,
    "Memcached": CACHES,
    "PulsarConsumer": CONSUMERS,
    "MyCustomResource": WATCHERS,
    "BindingImport": IMPORTS,
}


def _specs(kind: Kind) -> st.SearchStrategy[Object]:
    """Of a kind that has no line above, whatever its CRD admits."""
    drawn = drawn_from(schema_of(kind, "spec")).map(_few)
    telling = TELLING.get(kind.type.kind, drawn)
    return st.one_of(telling, telling, drawn)


SPECS: dict[str, st.SearchStrategy[Object]] = {label: _specs(kind) for label, kind in KINDS_BY_NAME.items()}
ANSWERS = st.sampled_from(
    [
        ExternalResult(ok=True),
        ExternalResult(ok=True, facts={"login": True, "version": "17.5"}),
        ExternalResult(ok=True, facts={"get_hits": 2, "get_misses": 1, "curr_items": 123, "bytes": 4567}),
        ExternalResult(ok=False, reason="LoginFailed", message="no"),
        ExternalResult(
            ok=False,
            reason="RestartPending",
            message="It follows.",
            facts={"login": True, "pending_restart": ["max_connections"]},
        ),
    ]
)

"""What happens to a resource of each kind, from a first state on: the scenarios that every fault is tried in.

Each runs in a namespace of its own, about a resource of the same name, so that all runs can be
compared word by word.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from kindling.kinds.base import Kind
from kindling.kube.resources import CONFIG_MAP, POD, SECRET, VOLUME_CLAIM, Ref

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster
from tests.apiserver.support.kinds import (
    BINDING_IMPORT,
    MEMCACHED,
    MINIMAL_SPECS,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    PULSAR_CONSUMER,
)
from tests.convergence import admin_api, backup_scenarios, guide_scenarios
from tests.convergence.scenario import FIRST, SECOND, WORD, Act, Scenario, delete, edit, secret

KEY = "orders.py"


def _delete_children(cluster: Cluster, ref: Ref) -> None:
    """All at once but for the data, and for the password that is in the data."""
    kind = next(kind for kind in KINDS_BY_NAME.values() if kind.type == ref.type)
    for child in cluster.children(kind, ref.namespace, ref.name):
        if child.type != VOLUME_CLAIM and not child.name.endswith("-superuser"):
            cluster.delete(child)


def _change_secret(cluster: Cluster, ref: Ref) -> None:
    cluster.merge(Ref(SECRET, ref.namespace, WORD), {"stringData": {"password": SECOND}})


def _text(text: str) -> Act:
    """The ConfigMap WORD with this under the key KEY."""

    def make(cluster: Cluster, ref: Ref) -> None:
        body = {"metadata": {"name": WORD}, "data": {KEY: text}}
        cluster.api.create(CONFIG_MAP.path(namespace=ref.namespace), body).accepted()

    return make


def _unsubscribed(namespace: str) -> Json:
    policy = {"adminURL": admin_api.url(), "deletionPolicy": "Unsubscribe"}
    return {**MINIMAL_SPECS[PULSAR_CONSUMER.id], "replicas": 2, **policy}


def _of_none(namespace: str) -> Json:
    return {**MINIMAL_SPECS[PULSAR_CONSUMER.id], "replicas": 0}


def _autoscale(cluster: Cluster, ref: Ref) -> None:
    """The broker has no such topic: one consumer is wanted, which makes it."""
    scaling = {"max": 3, "targetBacklog": 10}
    cluster.merge(ref, {"spec": {"adminURL": admin_api.url(), "autoscaling": scaling}})


def _change_code(cluster: Cluster, ref: Ref) -> None:
    cluster.merge(Ref(CONFIG_MAP, ref.namespace, WORD), {"data": {KEY: SECOND}})


def _of_code(namespace: str) -> Json:
    python = {"configMapRef": {"name": WORD}, "handler": "orders:handle"}
    return {**MINIMAL_SPECS[PULSAR_CONSUMER.id], "handler": {"python": python}}


def _held(namespace: str) -> Json:
    return {**_named(namespace), "rollout": {"minHitRatioPercent": 40}}


def _named(namespace: str) -> Json:
    return {"size": 2, "binding": "ConfigMap", "workload": "StatefulSet"}


def _discovered(namespace: str) -> Json:
    return {"size": 2, "discovery": True}


def _friend_comes(cluster: Cluster, ref: Ref) -> None:
    # By the namespace's name: friends are looked for in all namespaces.
    name = ref.namespace
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "one", "image": "image:1"}]}}
    cluster.api.create(POD.path(namespace=ref.namespace), body).accepted()


def _friend_goes(cluster: Cluster, ref: Ref) -> None:
    cluster.delete(Ref(POD, ref.namespace, ref.namespace))


def _postgresql(namespace: str) -> Json:
    # An image of its own, so that the server may be of any version.
    return {"defaultUser": namespace, "image": "kindling.invalid/any:1", "password": FIRST}


def _of_a_secret(namespace: str) -> Json:
    spec = {key: value for key, value in _postgresql(namespace).items() if key != "password"}
    return {**spec, "passwordSecretRef": {"name": WORD}}


def _of_rotation(namespace: str) -> Json:
    spec = {key: value for key, value in _postgresql(namespace).items() if key != "password"}
    return {**spec, "credentials": {"rotation": {}}}


def _of_first_sql(namespace: str) -> Json:
    return {**_postgresql(namespace), "initSQL": [{"configMapRef": {"name": WORD, "key": KEY}}]}


def _create_with_first_sql(cluster: Cluster, ref: Ref) -> None:
    """A second run of this would fail, since the table would be there."""
    _text("CREATE TABLE first_sql AS SELECT 1 AS n")(cluster, ref)
    cluster.create(KINDS_BY_NAME[POSTGRESQL.id], ref.namespace, ref.name, _of_first_sql(ref.namespace))


def _of_approval(namespace: str) -> Json:
    return {**_postgresql(namespace), "approval": {"above": "Reload"}}


def _enlarge(cluster: Cluster, ref: Ref) -> None:
    cluster.merge(ref, {"spec": {"resources": {"limits": {"memory": "640Mi"}}}})


def _rotate(cluster: Cluster, ref: Ref) -> None:
    cluster.merge(ref, {"metadata": {"annotations": {"kindling.dev/rotate": "once"}}})


def _add_database(cluster: Cluster, ref: Ref) -> None:
    """One of its own name, since all share a server."""
    database = {"name": f"{ref.namespace}.more", "schemas": [{"name": "sales"}]}
    cluster.merge(ref, {"spec": {"databases": [database]}})


SHOP = "shop"


def _exported(cluster: Cluster, ref: Ref) -> None:
    """A database that exports its binding to this import."""
    spec = {**_postgresql(ref.namespace), "bindingExports": [{"namespace": ref.namespace, "name": ref.name}]}
    cluster.create(KINDS_BY_NAME[POSTGRESQL.id], ref.namespace, SHOP, spec)


def _import(namespace: str) -> Json:
    return {"databaseRef": {"namespace": namespace, "name": SHOP}}


def _edit_database(cluster: Cluster, ref: Ref, **spec: object) -> None:
    cluster.merge(Ref(KINDS_BY_NAME[POSTGRESQL.id].type, ref.namespace, SHOP), {"spec": spec})


def _of_imports() -> Iterator[Scenario]:
    kind = KINDS_BY_NAME[BINDING_IMPORT.id]

    def create(cluster: Cluster, ref: Ref) -> None:
        cluster.create(kind, ref.namespace, ref.name, _import(ref.namespace))

    acts: Mapping[str, Act] = {
        "created": create,
        "children deleted": _delete_children,
        "follows a new password": lambda cluster, ref: _edit_database(cluster, ref, password=SECOND),
        "taken back": lambda cluster, ref: _edit_database(cluster, ref, bindingExports=None),
        "deleted": delete,
    }
    for what, act in acts.items():
        yield Scenario(
            name=f"BindingImport {what}",
            kind=kind,
            act=act,
            spec=_import,
            before=_exported,
            creates=what == "created",
            beside=((KINDS_BY_NAME[POSTGRESQL.id].type, SHOP),),
        )


def _scenarios() -> Iterator[Scenario]:
    kinds: tuple[tuple[str, Callable[[str], Json], Mapping[str, Json]], ...] = (
        (
            POSTGRESQL.id,
            _postgresql,
            {
                "change": {"resources": {"limits": {"memory": "640Mi"}}},
                "password": {"password": SECOND},
                "hibernate": {"hibernate": True},
                "wake": {"hibernateAfter": "30m", "wakeOnConnection": True},
            },
        ),
        (
            MEMCACHED.id,
            lambda namespace: {"size": 2, "binding": "ConfigMap"},
            {
                "change": {"containerPort": 11311},
                "scale up": {"size": 3},
                "scale down": {"size": 1},
                "named": {"workload": "StatefulSet"},
                "discovered": {"discovery": True},
            },
        ),
        (
            PULSAR_CONSUMER.id,
            lambda namespace: {**MINIMAL_SPECS[PULSAR_CONSUMER.id], "replicas": 2},
            {"change": {"topic": "invoices"}, "scale up": {"replicas": 3}, "scale down": {"replicas": 0}},
        ),
        (
            MY_CUSTOM_RESOURCE.id,
            lambda namespace: {"name": namespace},
            {"change": {"name": "another"}},
        ),
    )
    for crd, first, edits in [*kinds, *guide_scenarios.kinds()]:
        kind, spec = KINDS_BY_NAME[crd], first

        def scenario(
            what: str,
            act: Act,
            *,
            before: Act = lambda cluster, ref: None,
            creates: bool = False,
            password: str = "",
            apart: bool = False,
            spec: Callable[[str], Json] = spec,
            kind: Kind = kind,
        ) -> Scenario:
            return Scenario(
                name=f"{kind.type.kind} {what}",
                kind=kind,
                act=act,
                spec=spec,
                before=before,
                creates=creates,
                password=password,
                apart=apart,
            )

        def create(cluster: Cluster, ref: Ref, kind: Kind = kind, spec: Callable[[str], Json] = spec) -> None:
            cluster.create(kind, ref.namespace, ref.name, spec(ref.namespace))

        database = crd == POSTGRESQL.id
        yield scenario("created", create, creates=True, password=FIRST if database else "")
        for what, change in edits.items():
            password = str(change.get("password", FIRST)) if database else ""
            yield scenario(what, edit(change), password=password)
        if kind.children:
            password = FIRST if database else ""
            yield scenario("children deleted", _delete_children, password=password)
        if database:
            yield scenario(
                "password of a Secret",
                _change_secret,
                before=secret(FIRST),
                password=SECOND,
                spec=_of_a_secret,
            )
            yield scenario("database added", _add_database, password=FIRST)
            yield scenario("rotated", _rotate, spec=_of_rotation)
            yield scenario(
                "created with first SQL", _create_with_first_sql, creates=True, password=FIRST, apart=True
            )
            yield scenario("edit that waits", _enlarge, password=FIRST, spec=_of_approval)
        if crd == PULSAR_CONSUMER.id:
            yield scenario("code changed", _change_code, before=_text(FIRST), spec=_of_code)
            yield scenario("deleted with its subscription", delete, spec=_unsubscribed)
            yield scenario("autoscaled", _autoscale, spec=_of_none)
        if crd == MEMCACHED.id:
            yield scenario("named scale up", edit({"size": 3}), spec=_named)
            yield scenario("named children deleted", _delete_children, spec=_named)
            yield scenario("held and changed", edit({"threads": 2}), spec=_held)
            yield scenario("not named any more", edit({"workload": "Deployment"}), spec=_named)
            yield scenario("not discovered any more", edit({"discovery": None}), spec=_discovered)
            yield scenario("named and smaller", edit({"workload": "StatefulSet", "size": 1}))
        if crd == MY_CUSTOM_RESOURCE.id:
            yield scenario("friend comes", _friend_comes)
            yield scenario("friend goes", _friend_goes, before=_friend_comes)
        yield scenario("deleted", delete)
    yield from _of_imports()
    yield from backup_scenarios.scenarios()


ONLY = os.environ.get("KINDLING_SCENARIOS", "").split(",")
"""Kinds whose scenarios alone are tried; empty for all."""
if unknown := {*ONLY} - {"", *(kind.type.kind for kind in KINDS_BY_NAME.values())}:
    raise ValueError(f"KINDLING_SCENARIOS: {sorted(unknown)} are no kinds; give names of kinds, with commas")
SCENARIOS = tuple(scenario for scenario in _scenarios() if ONLY == [""] or scenario.kind.type.kind in ONLY)
# Between them they make, edit, scale, delete, change a password and look at others.
SAMPLE = tuple(
    scenario
    for scenario in SCENARIOS
    if scenario.name
    in (
        "Postgresql created",
        "Postgresql password of a Secret",
        "Memcached scale down",
        "Memcached deleted",
        "Memcached named",
        "Memcached not named any more",
        "PulsarConsumer children deleted",
        "PulsarConsumer code changed",
        "MyCustomResource friend goes",
        "BindingImport taken back",
        "Errand created",
        "Errand another run",
        "Errand deleted",
        "Ensemble another primary",
        "Ensemble another version",
        "Greeting children deleted",
    )
)

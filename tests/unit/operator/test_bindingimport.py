"""A BindingImport has a copy while both sides say so, of what the operator made, and of nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from kindling.engine.plan import Apply, Delete, plan
from kindling.kinds.base import Observed, Problem, SyncResult
from kindling.kinds.bindingimport import BindingImport, source
from kindling.kinds.certificates import Pair
from kindling.kinds.database_types import DATABASE_TYPES
from kindling.kinds.metadata import secret_data
from kindling.kinds.postgresql import exports, secrets
from kindling.kinds.registry import kinds
from kindling.kube.resources import SECRET, Object, Ref

from tests.unit.schema.worlds import AnyImage

KIND = BindingImport()
GIVER, SOURCE, COPY = (
    Ref(DATABASE_TYPES[0], "db", "shop"),
    Ref(SECRET, "db", "shop-binding"),
    Ref(SECRET, "web", "shop-binding"),
)
EXPORT = {"namespace": "web", "name": "shop"}
VALUES = {"username": "app", "password": "p", "host": "shop.db.svc", "ca.crt": "PEM"}
NOTHING = Observed(objects={}, now=datetime(2026, 1, 1, tzinfo=UTC), entropy=b"")
SETTLED = SyncResult(in_sync=True)


def wanted(**spec: Any) -> Object:
    meta = {"namespace": "web", "name": "shop", "uid": "import-uid", "generation": 1}
    return {
        "apiVersion": "database.technotuesday.io/v1",
        "metadata": meta,
        "spec": {"databaseRef": {"namespace": "db", "name": "shop"}, **spec},
    }


def giver(**spec: Any) -> Object:
    meta = {"namespace": "db", "name": "shop", "uid": "giver-uid", "generation": 1}
    return {
        "apiVersion": "database.technotuesday.io/v1",
        "metadata": meta,
        "spec": {"bindingExports": [EXPORT], **spec},
    }


def secret(ref: Ref, values: dict[str, str], *, owner: str = "giver-uid") -> dict[Ref, Object]:
    meta = {
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": f"{ref.namespace}-uid",
        "resourceVersion": "1",
        "ownerReferences": [{"uid": owner, "controller": True, "kind": "Some", "name": "one"}],
    }
    return {ref: {"metadata": meta, "data": secret_data(values)}}


def world(database: Object | None = None, **objects: Any) -> Observed:
    watched = {GIVER: database} if database is not None else {}
    return replace(NOTHING, watched=watched, objects=objects.get("objects", secret(SOURCE, VALUES)))


def copied(cr: Object, observed: Observed) -> dict[str, str]:
    (child,) = KIND.desired(cr, observed)
    assert child.ref == COPY
    assert child.body["type"] == "servicebinding.io/postgresql"
    return replace(observed, objects={COPY: child.body}).secret(namespace="web", name="shop-binding")


def ready(cr: Object, observed: Observed, sync: SyncResult = SETTLED, kind: BindingImport = KIND) -> Any:
    status = kind.status(cr, observed, sync).status
    assert ("binding" in status) is (status["conditions"][0]["status"] == "True")
    return status["conditions"][0]


def test_the_copy_is_what_the_operator_wrote_into_the_binding() -> None:
    more = {**VALUES, "mine": "canary"}
    assert copied(wanted(), world(giver(), objects=secret(SOURCE, more))) == VALUES
    assert KIND.others_secrets(wanted(), world(giver())) == [SOURCE]
    found = ready(wanted(), world(giver()))
    assert (found["status"], found["reason"]) == ("True", "Imported")


@pytest.mark.parametrize(
    "database",
    [
        None,
        giver(bindingExports=[]),
        giver(bindingExports=None),
        giver(bindingExports=[{"namespace": "web", "name": "other"}]),
        giver(bindingExports=[{"namespace": "other", "name": "shop"}]),
        giver(bindingExports=[{**EXPORT, "role": "report"}], roles=[{"name": "report", "login": True}]),
    ],
)
def test_without_the_givers_consent_nothing_is_read_and_a_copy_is_deleted(database: Object | None) -> None:
    observed = world(database)
    assert KIND.others_secrets(wanted(), observed) == []
    assert KIND.desired(wanted(), observed) == []
    objects = {**secret(SOURCE, VALUES), **secret(COPY, VALUES, owner="import-uid")}
    (action,) = plan(type=KIND.type, cr=wanted(), desired=[], observed=objects).actions
    assert isinstance(action, Delete)
    assert action.ref == COPY, "and never the giver's own"
    assert ready(wanted(), observed)["message"] == ready(wanted(), world(None))["message"], (
        "whether there is such a database is not said"
    )
    assert ready(wanted(), observed)["reason"] == "NotExported"


def test_nothing_that_the_operator_writes_into_a_binding_is_left_out() -> None:
    pair = Pair(certificate="PEM", key="PEM")
    made = secrets.binding(GIVER.type, giver(), user="app", password="p", ca="PEM", certificate=pair)
    assert sorted(made.body["data"]) == sorted(secrets.BINDING_KEYS)


def test_a_secret_that_the_database_does_not_own_is_not_copied() -> None:
    observed = world(giver(), objects=secret(SOURCE, VALUES, owner="another"))
    assert KIND.desired(wanted(), observed) == []
    assert ready(wanted(), observed)["reason"] == "BindingPending"


@pytest.mark.parametrize("there", [{}, secret(SOURCE, {})])
def test_a_copy_stays_while_the_binding_is_not_there_for_a_moment(there: dict[Ref, Object]) -> None:
    objects = {**there, **secret(COPY, VALUES, owner="import-uid")}
    observed = world(giver(), objects=objects)
    desired = KIND.desired(wanted(), observed)
    assert not plan(type=KIND.type, cr=wanted(), desired=desired, observed=objects).actions
    assert ready(wanted(), observed)["reason"] == "BindingPending"


def test_a_secret_of_that_name_that_is_not_the_imports_own_stays() -> None:
    objects = {**secret(SOURCE, VALUES), **secret(COPY, {"password": "mine"}, owner="another")}
    desired = KIND.desired(wanted(), world(giver(), objects=objects))
    found = plan(type=KIND.type, cr=wanted(), desired=desired, observed=objects)
    assert not found.actions
    assert found.problem is not None
    assert found.problem.reason == "NameConflict"


def test_a_changed_binding_is_written_once() -> None:
    objects = {**secret(SOURCE, VALUES), **secret(COPY, {"password": "old"}, owner="import-uid")}
    desired = KIND.desired(wanted(), world(giver(), objects=objects))
    (action,) = plan(type=KIND.type, cr=wanted(), desired=desired, observed=objects).actions
    assert isinstance(action, Apply)
    objects[COPY] = {**action.body, "metadata": {**objects[COPY]["metadata"], **action.body["metadata"]}}
    assert not plan(type=KIND.type, cr=wanted(), desired=desired, observed=objects).actions


def test_a_roles_binding_is_given_and_asked_for_by_name() -> None:
    roles = [{"name": "shop_report", "login": True}]
    database = giver(bindingExports=[{**EXPORT, "role": "shop_report"}], roles=roles)
    ref = Ref(SECRET, "db", "shop-role-shop-report")
    observed = world(database, objects=secret(ref, VALUES))
    assert copied(wanted(role="shop_report"), observed) == VALUES
    assert KIND.desired(wanted(), observed) == [], "not the default user's"
    gone = world(giver(bindingExports=[{**EXPORT, "role": "shop_report"}]), objects=secret(ref, VALUES))
    assert KIND.desired(wanted(role="shop_report"), gone) == [], "the role has left the spec"


def test_a_namespace_that_is_not_served_is_said_on_both_sides() -> None:
    few = BindingImport(namespaces=("web",))
    assert ready(wanted(), NOTHING, kind=few)["reason"] == "NotServed"
    (alone,) = kinds(AnyImage(), only=["BindingImport"])
    assert isinstance(alone, BindingImport)
    assert ready(wanted(), world(giver()), kind=alone)["reason"] == "NotServed"
    for served, namespaces in ((True, ("db",)), (False, ())):
        (item,) = exports.status(giver(), NOTHING, served=served, namespaces=namespaces)["bindingExports"]
        assert (item["ready"], item["reason"]) == (False, "NotServed")


def exported(database: Object, found: Object | None = None) -> Any:
    watched = {Ref(exports.BINDING_IMPORT, "web", "shop"): found} if found is not None else {}
    status = exports.status(database, replace(NOTHING, watched=watched), served=True, namespaces=())
    (item,) = status["bindingExports"]
    return item


def done(cr: Object, reason: str = "") -> Object:
    problem = Problem(reason=reason, message="why") if reason else None
    sync = SyncResult(in_sync=not reason, problem=problem)
    return {**cr, "status": KIND.status(cr, world(giver()), sync).status}


@pytest.mark.parametrize("group", ["database.technotuesday.io", "database.db.example.com"])
def test_the_giver_says_what_is_to_be_applied(group: str) -> None:
    database = {**giver(), "apiVersion": f"{group}/v1"}
    item = exported(database)
    assert (item["ready"], item["reason"]) == (False, "ImportMissing")
    (printed,) = re.findall(r"`echo '(.+)' \| kubectl apply -f -`", item["message"])
    manifest = json.loads(printed)
    assert source.refs(manifest)[0] == Ref(replace(DATABASE_TYPES[0], group=group), "db", "shop")
    meta = {**manifest["metadata"], "uid": "u", "generation": 1}
    assert exported(database, {**manifest, "metadata": meta})["reason"] == "BindingPending"
    assert exported(database, wanted(databaseRef={"namespace": "db", "name": "x"}))["reason"] == (
        "ImportMissing"
    ), "it asks for another database"


def test_the_giver_says_how_the_import_is_and_whether_the_network_is_open() -> None:
    assert "why" in exported(giver(), done(wanted(), "NameConflict"))["message"]
    item = exported(giver(), done(wanted()))
    assert (item["ready"], item["reason"]) == (True, "Imported")
    assert "kubernetes.io/metadata.name: web" in item["message"]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "web"}}
    for admitted in (selector, {}, {"matchLabels": {"team": "a"}}):
        open_ = giver(allowedFrom=[{"namespaceSelector": admitted}])
        assert "message" not in exported(open_, done(wanted()))
        assert "network" not in ready(wanted(), world(open_))["message"]
    other = giver(allowedFrom=[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}])
    assert "message" in exported(other, done(wanted()))
    assert "network is closed" in ready(wanted(), world(other))["message"]


def test_without_exports_a_database_watches_no_import_and_says_nothing() -> None:
    (kind,) = (each for each in kinds(AnyImage()) if each.type == GIVER.type)
    for cr in (
        {**giver(), "spec": {}},
        giver(bindingExports=[]),
        giver(mode="Plan", planFor="another"),
    ):
        assert exports.BINDING_IMPORT not in {look.type for look in kind.watched_objects(cr)}
        assert "bindingExports" not in kind.status(cr, NOTHING, SETTLED).status
    assert Ref(exports.BINDING_IMPORT, "web", "shop") in {
        Ref(look.type, look.namespace or "", look.name) for look in kind.watched_objects(giver())
    }
    alone = next(each for each in kinds(AnyImage(), only=["Postgresql"]) if each.type == GIVER.type)
    assert exports.BINDING_IMPORT not in alone.watches
    assert exports.BINDING_IMPORT not in {look.type for look in alone.watched_objects(giver())}

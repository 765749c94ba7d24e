"""A binding goes to another namespace by consent of both sides, each of which has rights in its own alone.

The giver may write Postgresqls and read Secrets in one namespace, the receiver may write BindingImports and
read Secrets in another. The operator comes with the rights that it is shipped with.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pytest
from kindling.kinds.postgresql.exports import BINDING_IMPORT
from kindling.kube.resources import SECRET, Ref

from tests.apiserver.conftest import Replica
from tests.apiserver.support.accounts import PolicyRule, with_rights
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path
from tests.apiserver.support.kinds import POSTGRESQL

pytestmark = pytest.mark.usefixtures("replica")

SECONDS = 30.0
CONFLICT_SECONDS = 60.0
"""A resource looks after 30 s whether what was in its way has gone: no watch brings it others' objects."""
DATABASE = KINDS_BY_NAME[POSTGRESQL.id].type
GROUP = BINDING_IMPORT.group
NUMBERS = itertools.count(1)


def may(resource: str, *verbs: str, group: str = GROUP) -> PolicyRule:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


@dataclass(frozen=True)
class Sides:
    """A database `shop` in a namespace of its own, and the namespace that may get its binding."""

    cluster: Cluster
    giver: Api
    receiver: Api
    database: Ref
    wanted: Ref

    @property
    def source(self) -> Ref:
        return Ref(SECRET, self.database.namespace, f"{self.database.name}-binding")

    @property
    def copy(self) -> Ref:
        return Ref(SECRET, self.wanted.namespace, f"{self.wanted.name}-binding")

    def makes(self, **spec: object) -> None:
        body = {"metadata": {"name": self.database.name}, "spec": spec}
        head = {"apiVersion": DATABASE.api_version, "kind": DATABASE.kind}
        self.giver.create(DATABASE.path(namespace=self.database.namespace), {**head, **body}).accepted()

    def exports(self, *items: Json) -> None:
        self.giver.merge(path(self.database), {"spec": {"bindingExports": list(items) or None}}).accepted()

    @property
    def item(self) -> Json:
        return {"namespace": self.wanted.namespace, "name": self.wanted.name}

    def imports(self, name: str = "") -> None:
        named = {"namespace": self.database.namespace, "name": name or self.database.name}
        body = {
            "apiVersion": BINDING_IMPORT.api_version,
            "kind": BINDING_IMPORT.kind,
            "metadata": {"name": self.wanted.name},
            "spec": {"databaseRef": named},
        }
        collection = BINDING_IMPORT.path(namespace=self.wanted.namespace)
        self.receiver.create(collection, body).accepted()

    def data(self, ref: Ref) -> dict[str, str]:
        """What a Secret holds, by one who may read all."""
        found = self.cluster.get(ref)
        return {} if found is None else dict(found["data"])

    def until_copied(self) -> None:
        wait_until(
            lambda: bool(self.data(self.copy)) and self.data(self.copy) == self.data(self.source),
            seconds=SECONDS,
            what=lambda: f"the copy: {self.cluster.ready(self.wanted)}",
        )

    def until_gone(self) -> None:
        wait_until(lambda: self.cluster.get(self.copy) is None, seconds=SECONDS, what="no copy")

    def until_exported(self, reason: str) -> Json:
        def said() -> list[Json]:
            status = (self.cluster.get(self.database) or {}).get("status") or {}
            return [item for item in status.get("bindingExports", []) if item["reason"] == reason]

        wait_until(lambda: bool(said()), seconds=SECONDS, what=f"an export with {reason}")
        return said()[0]


@pytest.fixture
def sides(running_cluster: Cluster, replica: Replica) -> Iterator[Sides]:
    number = next(NUMBERS)
    there, here = f"giver-{number}", f"receiver-{number}"
    of_database = [
        may("postgresqls", "get", "create", "patch", "delete"),
        may("secrets", "get", group=""),
    ]
    of_import = [may("bindingimports", "get", "create", "patch", "delete"), may("secrets", "get", group="")]
    ways = [
        with_rights(
            running_cluster.plane,
            running_cluster.api,
            namespace=namespace,
            account=namespace,
            rules=[],
            own_rules=rules,
        )
        for namespace, rules in ((there, of_database), (here, of_import))
    ]
    with closing(Api(ways[0])) as giver, closing(Api(ways[1])) as receiver:
        found = Sides(
            running_cluster,
            giver,
            receiver,
            Ref(DATABASE, there, f"shop-{number}"),
            Ref(BINDING_IMPORT, here, f"import-{number}"),
        )
        for api, ref in ((giver, found.database), (receiver, found.wanted)):
            answers = partial(api.get, path(ref))
            wait_until(lambda ask=answers: ask().status == 404, seconds=SECONDS, what="the rights")  # type: ignore[misc]
        yield found
    for namespace in (there, here):
        running_cluster.api.delete(f"/api/v1/namespaces/{namespace}")


def test_both_sides_have_to_consent_and_either_takes_it_back(sides: Sides) -> None:
    cluster = sides.cluster
    sides.makes(bindingExports=[sides.item])
    item = sides.until_exported("ImportMissing")
    assert item["ready"] is False
    assert "kubectl apply -f -" in item["message"]
    cluster.audit.wait_quiet()
    assert cluster.get(sides.copy) is None, "the receiver has not consented"
    sides.imports()
    sides.until_copied()
    assert sides.until_exported("Imported")["ready"] is True
    found = sides.receiver.get(path(sides.copy)).accepted()
    assert found["type"] == "servicebinding.io/postgresql"
    host = base64.b64decode(found["data"]["host"]).decode()
    assert host == f"{sides.database.name}.{sides.database.namespace}.svc"
    assert sides.receiver.get(path(sides.source)).status == 403, "the receiver has what it was given"
    sides.exports()
    sides.until_gone()
    cluster.wait_ready_reason(sides.wanted, "NotExported")
    sides.exports(sides.item)
    sides.until_copied()
    sides.receiver.delete(path(sides.wanted)).accepted()
    sides.until_gone()
    sides.until_exported("ImportMissing")
    sides.imports()
    sides.until_copied()
    sides.giver.delete(path(sides.database)).accepted()
    sides.until_gone()


def test_the_copy_follows_and_is_set_back(sides: Sides) -> None:
    sides.makes(bindingExports=[sides.item])
    sides.imports()
    sides.until_copied()
    # A password that somebody writes into the binding is the new one.
    encoded = base64.b64encode(b"another").decode()
    sides.cluster.merge(sides.source, {"data": {"password": encoded, "mine": encoded}})
    wait_until(
        lambda: sides.data(sides.copy).get("password") == encoded, seconds=SECONDS, what="the copy following"
    )
    sides.cluster.audit.wait_quiet()
    assert "mine" not in sides.data(sides.copy)
    before = sides.data(sides.copy)
    sides.cluster.merge(sides.copy, {"data": {"host": encoded}})
    wait_until(lambda: sides.data(sides.copy) == before, seconds=SECONDS, what="the copy as it was")
    sides.cluster.delete(sides.copy)
    wait_until(lambda: sides.data(sides.copy) == before, seconds=SECONDS, what="the copy again")


def test_whether_there_is_a_database_is_not_said(sides: Sides) -> None:
    sides.imports("another")
    missing = sides.cluster.wait_ready_reason(sides.wanted, "NotExported")["message"]
    sides.receiver.delete(path(sides.wanted)).accepted()
    sides.makes()
    sides.imports()
    there = sides.cluster.wait_ready_reason(sides.wanted, "NotExported")["message"]
    assert there == missing.replace("/another ", f"/{sides.database.name} ")
    assert sides.cluster.get(sides.copy) is None


def test_no_side_gets_at_what_the_operator_has_not_made(sides: Sides) -> None:
    """Neither a Secret of the receiver's, by a giver who plants one, nor one of the giver's namespace."""
    cluster, mine = sides.cluster, {"stringData": {"password": "mine"}}
    for ref in (sides.copy, sides.source):
        body = {"metadata": {"name": ref.name}, **mine}
        cluster.api.create(SECRET.path(namespace=ref.namespace), body).accepted()
    kept = cluster.get(sides.copy)
    sides.makes(bindingExports=[sides.item])
    sides.imports()
    cluster.wait_ready_reason(sides.database, "NameConflict")
    cluster.wait_ready_reason(sides.wanted, "BindingPending")
    assert cluster.get(sides.copy) == kept
    cluster.delete(sides.source)
    cluster.wait_ready_reason(sides.wanted, "NameConflict", seconds=CONFLICT_SECONDS)
    assert cluster.get(sides.copy) == kept
    sides.exports()
    cluster.wait_ready_reason(sides.wanted, "NotExported")
    cluster.audit.wait_quiet()
    assert cluster.get(sides.copy) == kept, "what is not the import's own is not deleted either"


def test_each_side_has_its_own_rights_alone(sides: Sides) -> None:
    patch = {"spec": {"bindingExports": [sides.item]}}
    sides.makes()
    assert sides.receiver.merge(path(sides.database), patch).status == 403
    body = {
        "apiVersion": BINDING_IMPORT.api_version,
        "kind": BINDING_IMPORT.kind,
        "metadata": {"name": sides.wanted.name},
        "spec": {"databaseRef": {"namespace": sides.database.namespace, "name": sides.database.name}},
    }
    assert sides.giver.create(BINDING_IMPORT.path(namespace=sides.wanted.namespace), body).status == 403

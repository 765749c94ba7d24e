"""A child is created, then applied; what is ours by creation counts as applied before it may have to go; and
what apply cannot set back is written over, once, and leaves no second claim to its fields.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kindling.engine.apply import apply_child
from kindling.engine.compare import LAST_APPLIED_HASH
from kindling.engine.plan import Apply
from kindling.kube.errors import NotFound, Rejected
from kindling.kube.resources import SERVICE, Object, Ref, ResourceType

BODY: Object = {"metadata": {"namespace": "ns", "name": "db"}, "spec": {"ports": [{"port": 5432}]}}
OURS = {"manager": "kindling", "operation": "Apply"}
MAP_LISTS = {"manager": "kindling", "operation": "Update"}
CREATED = {**MAP_LISTS, "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}}
OTHERS = {"manager": "kubectl", "operation": "Update"}


def refusal(status: int) -> Rejected:
    return Rejected(status=status, reason="Invalid", message=f"no, {status}")


class Server:
    """Rejects the first writes, and a merge if `merge` is given; keeps the requests.

    Without `managers` a read finds no object.
    """

    def __init__(
        self,
        *refusals: Rejected,
        merge: Rejected | None = None,
        managers: list[Object] | None = None,
        live: Object | None = None,
    ) -> None:
        self.refusals, self.merge_refusal, self.managers = list(refusals), merge, managers
        self.live: Object = live or {"metadata": {}}
        self.sent: list[tuple[str, Any]] = []

    async def get(self, ref: Ref) -> Object:
        assert ref == Ref(SERVICE, "ns", "db")
        self.sent.append(("get", None))
        if self.managers is None:
            raise NotFound(status=404, reason="NotFound", message="gone")
        metadata = {**self.live["metadata"], "resourceVersion": "6", "managedFields": self.managers}
        return {**self.live, "metadata": metadata}

    async def create(self, type: ResourceType, body: Object) -> Object:
        self.sent.append(("create", body))
        if self.refusals:
            raise self.refusals.pop(0)
        return body

    async def apply(self, type: ResourceType, body: Object) -> Object:
        self.sent.append(("apply", body))
        if self.refusals:
            raise self.refusals.pop(0)
        managers = [OURS, MAP_LISTS, OTHERS]
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "7", "managedFields": managers}}

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        assert (ref, subresource) == (Ref(SERVICE, "ns", "db"), None)
        if self.merge_refusal is not None:
            raise self.merge_refusal
        self.sent.append(("merge", patch))
        return {**BODY, "last": True}

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        raise AssertionError("no write needs them")

    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None:
        raise AssertionError(f"nothing is deleted to be written: {ref}")


def run(server: Server, *, new: bool = False, body: Object = BODY, removes_fields: bool = False) -> Object:
    return asyncio.run(apply_child(server, Apply(SERVICE, body, new=new, removes_fields=removes_fields)))


@pytest.mark.parametrize(("new", "verb"), [(True, "create"), (False, "apply")])
def test_what_the_server_takes_is_written_once(new: bool, verb: str) -> None:
    server = Server()
    run(server, new=new)
    assert server.sent == [(verb, BODY)]


def test_what_was_created_counts_as_applied_before_it_may_have_to_go() -> None:
    """As client-go's csaupgrade has it: one entry, with the fields of both. Others' entries, and those of the
    status, stay as they are.
    """
    status = {**CREATED, "subresource": "status"}
    applied = {**OURS, "fieldsV1": {"f:spec": {".": {}, "f:b": {"f:d": {}}}}}
    server = Server(managers=[CREATED, OTHERS, status, applied])
    run(server, removes_fields=True)
    assert [verb for verb, _ in server.sent] == ["get", "merge", "apply"]
    both: Object = {"f:spec": {".": {}, "f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}}
    managers = [OTHERS, status, {**OURS, "fieldsV1": both}]
    assert server.sent[1][1] == {"metadata": {"resourceVersion": "6", "managedFields": managers}}
    server = Server(managers=[CREATED])
    run(server, removes_fields=True)
    assert server.sent[1][1]["metadata"]["managedFields"] == [{**CREATED, "operation": "Apply"}]


@pytest.mark.parametrize("managers", [None, [OURS, OTHERS]], ids=["gone", "never created"])
def test_nothing_to_count_as_applied_is_only_looked_at(managers: list[Object] | None) -> None:
    server = Server(managers=managers)
    run(server, removes_fields=True)
    assert [verb for verb, _ in server.sent] == ["get", "apply"]


def test_what_others_left_in_the_way_is_written_over_and_claimed_once() -> None:
    server = Server(refusal(422))
    assert run(server)["last"]
    assert [verb for verb, _ in server.sent] == ["apply", "merge", "apply", "merge"]
    assert server.sent[1][1] == {"spec": BODY["spec"]}
    # Only the merge's own claim goes, and only from the version that was looked at.
    assert server.sent[3][1] == {"metadata": {"resourceVersion": "7", "managedFields": [OURS, OTHERS]}}


@pytest.mark.parametrize(
    ("status", "new", "body"),
    [(403, False, BODY), (422, True, BODY), (422, False, {"metadata": BODY["metadata"], "data": {}})],
    ids=["quota", "new", "without-spec"],
)
def test_another_refusal_stands(status: int, new: bool, body: Object) -> None:
    server = Server(refusal(status))
    with pytest.raises(Rejected, match=f"no, {status}"):
        run(server, new=new, body=body)
    assert len(server.sent) == 1


def test_rejected_both_ways_the_first_message_is_raised() -> None:
    server = Server(refusal(422), merge=Rejected(status=422, reason="Invalid", message="immutable"))
    with pytest.raises(Rejected, match="no, 422"):
        run(server)


def hashed(hash_: str, *, port: int = 5432) -> Object:
    metadata = {**BODY["metadata"], "annotations": {LAST_APPLIED_HASH: hash_}}
    return {"metadata": metadata, "spec": {"ports": [{"port": port}]}}


def test_what_is_our_own_last_write_is_not_written_again() -> None:
    """An older view asks for it: of fields that have gone since."""
    server = Server(managers=[CREATED], live=hashed("a.b"))
    found = run(server, body=hashed("a.all"), removes_fields=True)
    assert (server.sent, found["metadata"]["resourceVersion"]) == ([("get", None)], "6")


@pytest.mark.parametrize("live", [hashed("c.b"), hashed("a.b", port=1), BODY])
def test_what_was_written_otherwise_is_written(live: Object) -> None:
    server = Server(managers=[CREATED], live=live)
    run(server, body=hashed("a.all"), removes_fields=True)
    assert [verb for verb, _ in server.sent] == ["get", "merge", "apply"]

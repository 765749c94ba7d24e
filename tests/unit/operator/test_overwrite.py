"""A child that apply cannot set back is written over, once, and leaves no second claim to its fields."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kindling.engine import overwrite
from kindling.engine.plan import Apply
from kindling.kube.errors import Refused
from kindling.kube.resources import SERVICE, Object, Ref, ResourceType

BODY: Object = {"metadata": {"namespace": "ns", "name": "db"}, "spec": {"ports": [{"port": 5432}]}}
OURS = {"manager": "kindling", "operation": "Apply"}
MERGED = {"manager": "kindling", "operation": "Update"}
OTHERS = {"manager": "kubectl", "operation": "Update"}


def refusal(status: int) -> Refused:
    return Refused(status=status, reason="Invalid", message=f"no, {status}")


class Server:
    """Refuses the first apply, and merges if told to; keeps what it was sent."""

    def __init__(self, *refusals: Refused, merge: Refused | None = None) -> None:
        self.refusals, self.merge_refusal = list(refusals), merge
        self.sent: list[tuple[str, Any]] = []

    async def apply(self, type: ResourceType, body: Object, *, new: bool = False) -> Object:
        self.sent.append(("apply", body))
        if self.refusals:
            raise self.refusals.pop(0)
        managers = [OURS, MERGED, OTHERS]
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "7", "managedFields": managers}}

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        assert (ref, subresource) == (Ref(SERVICE, "ns", "db"), None)
        if self.merge_refusal is not None:
            raise self.merge_refusal
        self.sent.append(("merge", patch))
        return {**BODY, "last": True}


def run(server: Server, *, new: bool = False, body: Object = BODY) -> Object:
    return asyncio.run(overwrite.apply(server, Apply(SERVICE, body, new=new)))


def test_what_the_server_takes_is_applied_once() -> None:
    server = Server()
    run(server)
    assert [verb for verb, _ in server.sent] == ["apply"]


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
    with pytest.raises(Refused, match=f"no, {status}"):
        run(server, new=new, body=body)
    assert len(server.sent) == 1


def test_refused_both_ways_the_first_words_are_told() -> None:
    server = Server(refusal(422), merge=Refused(status=422, reason="Invalid", message="immutable"))
    with pytest.raises(Refused, match="no, 422"):
        run(server)

"""`engine.compare` against the API server's own answer: does an apply of what is desired change anything?

The operator compares by itself, because a dry run for each child in each reconciliation costs a request. So
here each edit of a child that the server accepts is judged by both, and they must agree.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kindling.engine.compare import MAP_LISTS, satisfies
from kindling.engine.plan import Apply, Create
from kindling.kinds.base import Kind
from kindling.kube.resources import FIELD_MANAGER, Object, Ref, ref_of

from tests.apiserver.support.apiclient import APPLY_PATCH, Api, Response
from tests.apiserver.support.kinds import MINIMAL_SPECS
from tests.unit.operator.placement import SERVED
from tests.unit.schema.worlds import KINDS, ROUNDS, decide, nothing

EXAMPLES = settings(
    max_examples=80,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SPECS: dict[str, Object] = {
    "Memcached": {"size": 2, "memoryMB": 64},
    "Postgresql": {
        "parameters": {"work_mem": "8MB"},
        "allowedFrom": [{"namespaceSelector": {}}],
        "podTemplate": {"spec": {"serviceAccountName": "shop"}},
        "serviceTemplate": SERVED,
    },
    "PulsarConsumer": {
        "serverAddress": "pulsar://broker:6650",
        "topic": "t",
        "subscriptionName": "s",
        "replicas": 1,
        "env": [{"name": "A", "value": "1"}],
    },
}
"""With more in them than the least, so that there is more to edit."""
MAKERS = [pytest.param(kind, id=label) for label, kind in KINDS.items() if kind.children]
Path = tuple[str | int, ...]
REMOVE = "(removed)"


@pytest.fixture(scope="module", params=MAKERS)
def children(request: pytest.FixtureRequest, api: Api) -> dict[Ref, Object]:
    """Applied as the operator does it, until nothing differs; what is created only once is left out."""
    kind: Kind = request.param
    # Two kinds would have children of one name.
    name = f"compared-{list(KINDS).index(kind.type.group_kind)}"
    spec = SPECS.get(kind.type.kind) or MINIMAL_SPECS[f"{kind.type.plural}.{kind.type.group}"]
    body = {"apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": {"name": name}}
    answer = api.create(kind.type.path(namespace="default"), {**body, "spec": spec})
    cr, made, bodies = answer.accepted(), dict[Ref, Object](), dict[Ref, Object]()
    for _ in range(ROUNDS):
        for action in decide(kind, cr, replace(nothing(), objects=made)).actions:
            assert isinstance(action, (Apply, Create))
            ref = ref_of(action.type, action.body)
            made[ref] = apply(api, ref, action.body).accepted()
            if isinstance(action, Apply):
                bodies[ref] = action.body
    if not bodies:
        pytest.skip("it applies nothing before it has met what it names")
    return bodies


def apply(api: Api, ref: Ref, body: Object, *, dry_run: bool = False) -> Response:
    """As the operator applies it, by force."""
    query = {"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
    full = {"apiVersion": ref.type.api_version, "kind": ref.type.kind, **body}
    return api.request("PATCH", path_of(ref), body=full, query=query, content_type=APPLY_PATCH)


def path_of(ref: Ref) -> str:
    return ref.type.path(namespace=ref.namespace, name=ref.name)


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all fields below spec, data and the labels, the inner ones too."""
    if path and path[0] not in ("spec", "data", "metadata", "type"):
        return
    if len(path) == 2 and path[0] == "metadata" and path[1] not in ("labels", "annotations"):
        return
    if len(path) > (2 if path[:1] == ("metadata",) else 0):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield from leaves(item, (*path, name))


def found(desired: Any, live: Any, path: Path) -> tuple[Any, str | int] | None:
    """Where in the live object the field of that path is: what holds it, and its name or place there."""
    field = ""
    for step in path[:-1]:
        live = _inner(desired, live, step, field)
        desired, field = desired[step], step if isinstance(step, str) else field
        if live is None:
            return None
    if isinstance(path[-1], int):
        place = _place(desired, live, path[-1], field)
        return None if place is None else (live, place)
    return (live, path[-1]) if isinstance(live, dict) and path[-1] in live else None


def _inner(desired: Any, live: Any, step: str | int, field: str) -> Any:
    if isinstance(step, str):
        return live.get(step) if isinstance(live, dict) else None
    place = _place(desired, live, step, field)
    return None if place is None else live[place]


def _place(desired: list[Any], live: Any, index: int, field: str) -> int | None:
    """Elements that are merged by a key are found by what they hold, others by their place."""
    if not isinstance(live, list):
        return None
    if field in MAP_LISTS:
        return next((at for at, item in enumerate(live) if satisfies(desired[index], item)), None)
    return index if index < len(live) else None


def edits(value: Any) -> st.SearchStrategy[Any]:
    """Other values that somebody might write there."""
    if isinstance(value, bool):
        return st.sampled_from([not value, REMOVE])
    if isinstance(value, int):
        return st.sampled_from([value + 1, 0, REMOVE])
    if isinstance(value, str):
        respelled = {"64Mi": "65536Ki", "1Gi": "1024Mi", "50m": "0.05", "10m": "0.010"}.get(
            value, value + "x"
        )
        return st.sampled_from([respelled, "", REMOVE])
    if isinstance(value, list):
        return st.sampled_from([[], [*value, *value[:1]], list(reversed(value)), REMOVE])
    if isinstance(value, dict):
        return st.sampled_from([{}, {**value, "added": "x"}, REMOVE])
    return st.just(REMOVE)


def content(obj: Object) -> Any:
    """All that an apply could change, but the order of elements that are merged by a key."""
    meta = {name: obj["metadata"].get(name) for name in ("labels", "annotations", "ownerReferences")}
    return _unordered({**{name: obj.get(name) for name in ("spec", "data", "type")}, "metadata": meta})


def _unordered(value: Any, field: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _unordered(inner, name) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    items = [_unordered(item, field) for item in value]
    return sorted(items, key=json.dumps) if field in MAP_LISTS else items


@EXAMPLES
@given(data=st.data())
def test_compare_agrees_with_a_dry_run(api: Api, children: dict[Ref, Object], data: st.DataObject) -> None:
    ref, desired = data.draw(st.sampled_from(list(children.items())), "child")
    live = api.get(path_of(ref)).accepted()
    edited = copy.deepcopy(live)
    where = found(desired, edited, data.draw(st.sampled_from(list(leaves(desired))), "path"))
    assume(where is not None)
    assert where is not None
    holder, name = where
    value = data.draw(edits(holder[name]), "value")
    if value == REMOVE:
        del holder[name]
    else:
        holder[name] = value
    try:
        answer = api.request("PUT", path_of(ref), body=edited)
        assume(answer.status == 200)
        after = apply(api, ref, desired, dry_run=True)
        unchanged = after.status == 200 and content(after.body) == content(answer.body)
        assert satisfies(desired, answer.body) == unchanged, value
    finally:
        version = api.get(path_of(ref)).accepted()["metadata"]["resourceVersion"]
        live["metadata"]["resourceVersion"] = version
        api.request("PUT", path_of(ref), body=live).accepted()

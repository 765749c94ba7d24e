"""Whatever a CRD admits leads to children that the API server accepts, and that then need no second write.

The counterpart of the properties in tests/unit/schema on the real API server, which no model replaces:
what it rejects in a child, which defaults it adds, and how it normalizes what was applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import kopf
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kindling.engine.plan import Apply, Create
from kindling.kinds.base import Kind
from kindling.kube.client import Client
from kindling.kube.credentials import Credentials
from kindling.kube.resources import Object, Ref, ref_of

from tests.apiserver.support.admitted import admitted
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import KINDS as DEFINITIONS
from tests.unit.schema.drawing import drawn_from
from tests.unit.schema.worlds import KINDS, ROUNDS, decide, given_for, nothing, schema_of, watched

EXAMPLES = settings(
    max_examples=10,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
SPECS = {label: drawn_from(schema_of(kind, "spec")) for label, kind in KINDS.items()}
MAKERS = [pytest.param(kind, id=label) for label, kind in KINDS.items() if kind.children]


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def client(plane: ControlPlane, runner: asyncio.Runner) -> Iterator[Client]:
    """The operator's own client, as an administrator."""

    async def made() -> Client:
        info = kopf.ConnectionInfo(server=plane.url, ca_path=str(plane.ca), token=plane.token)
        return Client(Credentials(info))

    opened = runner.run(made())
    yield opened
    runner.run(opened.close())


@pytest.mark.parametrize("kind", MAKERS)
@EXAMPLES
@given(data=st.data())
def test_children_are_taken_and_stay_as_they_were_applied(
    api: Api, client: Client, runner: asyncio.Runner, kind: Kind, data: st.DataObject
) -> None:
    body = {"apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": {"name": "drawn"}}
    collection = kind.type.path(namespace="default")
    drawn = data.draw(SPECS[kind.type.group_kind], "spec")
    spec = admitted(api, DEFINITIONS[f"{kind.type.plural}.{kind.type.group}"], drawn).spec
    cr = api.create(collection, {**body, "spec": spec}).accepted()
    made: dict[Ref, Object] = {}
    try:
        seen = data.draw(watched(kind, cr, all=True))
        # This server is the bare one, without cert-manager say.
        observed = replace(nothing(), watched=seen, unserved=frozenset(kind.optional))
        others = data.draw(given_for(kind, cr, st.just("s")), "secrets")
        assume(kind.validate(cr, replace(observed, objects=others)) is None)
        ours = {child.ref for child in kind.desired(cr, replace(observed, objects=others))}
        others = {ref: obj for ref, obj in others.items() if ref not in ours}
        for _ in range(ROUNDS):
            decided = decide(kind, cr, replace(observed, objects={**others, **made}))
            assert decided.problem is None
            for action in decided.actions:
                assert isinstance(action, (Apply, Create))
                write = client.create if isinstance(action, Create) else client.apply
                written = runner.run(write(action.type, action.body))
                made[ref_of(action.type, written)] = written
        assert decide(kind, cr, replace(observed, objects={**others, **made})).actions == []
    finally:
        for ref in made:
            path = ref.type.path(namespace="default", name=ref.name)
            api.merge(path, {"metadata": {"finalizers": None}})  # of a volume, which no controller takes off
            api.delete(path)
        api.delete(f"{collection}/drawn")

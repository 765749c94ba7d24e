"""Resources that a spec gives in part: what is left out is the kind's default, and never contradicts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from kindling.engine.quantity import quantity
from kindling.kinds.amounts import merged
from kindling.kinds.postgresql import spec as postgresql
from kindling.kinds.pulsarconsumer import spec as pulsarconsumer
from kindling.kube.resources import Object

from tests.unit.schema.drawing import drawn_from
from tests.unit.schema.worlds import KINDS, schema_of

DEFAULTS: Object = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
GIVEN = drawn_from(schema_of(KINDS["postgresql.database.db.example.com"], "spec", "resources"))


def made(resources: Object | None) -> Object:
    cr = {"metadata": {"name": "db", "namespace": "ns"}, "spec": {"resources": resources}}
    return postgresql.read(cr, default_image="i").resources


@pytest.mark.parametrize(
    ("resources", "requests", "limits"),
    [
        (None, DEFAULTS["requests"], DEFAULTS["limits"]),
        ({}, DEFAULTS["requests"], DEFAULTS["limits"]),
        ({"limits": {"cpu": 1}}, {"memory": "128Mi"}, {"cpu": 1, "memory": "512Mi"}),
        ({"requests": {"cpu": "2"}}, {"cpu": "2", "memory": "128Mi"}, {"memory": "512Mi"}),
        ({"requests": {"memory": "4Gi"}}, {"cpu": "50m", "memory": "4Gi"}, {"memory": "4Gi"}),
        ({"limits": {"memory": "64Mi"}}, {"cpu": "50m", "memory": "64Mi"}, {"memory": "64Mi"}),
        (
            {"limits": {"ephemeral-storage": "1Gi"}},
            DEFAULTS["requests"],
            {"ephemeral-storage": "1Gi", "memory": "512Mi"},
        ),
    ],
)
def test_what_is_left_out_is_the_default(resources: Object | None, requests: Object, limits: Object) -> None:
    assert made(resources) == {"requests": requests, "limits": limits}


def test_consumers_have_theirs() -> None:
    cr = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"resources": {"limits": {"cpu": 1}}}}
    found = pulsarconsumer.read(cr, default_image="i").resources
    assert found == {"requests": {"memory": "64Mi"}, "limits": {"cpu": 1, "memory": "256Mi"}}


@given(GIVEN)
def test_what_is_given_stays_and_no_default_exceeds_a_limit(resources: Object) -> None:
    found = merged(resources, cpu="50m", memory="128Mi", memory_limit="512Mi")
    for part in ("requests", "limits"):
        given_part = resources.get(part, {})
        assert given_part.items() <= found[part].items()
    for name in found["requests"].keys() & found["limits"].keys():
        both = name in resources.get("requests", {}) and name in resources.get("limits", {})
        assert both or quantity(found["requests"][name]) <= quantity(found["limits"][name])

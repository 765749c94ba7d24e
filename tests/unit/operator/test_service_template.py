"""spec.serviceTemplate on each kind's Service: beside what the operator sets, never in its place."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds import service_template
from kindling.kinds.base import Kind
from kindling.kinds.registry import kinds
from kindling.kube.resources import SERVICE, Object

from tests.unit.operator.placement import SERVED
from tests.unit.schema.worlds import AnyImage, nothing

SERVERS: list[Kind] = [kind for kind in kinds(AnyImage()) if kind.type.kind in ("Postgresql", "Memcached")]
EACH = pytest.mark.parametrize("kind", SERVERS, ids=lambda kind: kind.type.group_kind)
EACH_DATABASE = pytest.mark.parametrize("kind", SERVERS[:2], ids=lambda kind: kind.type.group_kind)


def service(kind: Kind, given: Object | None) -> Any:
    meta = {"namespace": "ns", "name": "shop", "uid": "cr-uid", "generation": 1}
    cr: Object = {"metadata": meta, "spec": {} if given is None else {"serviceTemplate": given}}
    (found,) = (child for child in kind.desired(cr, nothing()) if child.type == SERVICE)
    return found.body


def test_two_kinds_of_database_and_a_cache() -> None:
    assert [kind.type.kind for kind in SERVERS] == ["Postgresql", "Postgresql", "Memcached"]


@EACH
@pytest.mark.parametrize(
    "given",
    [{}, {"metadata": {}, "spec": {}}, {"metadata": None, "spec": None}, {"spec": {"type": "ClusterIP"}}],
    ids=str,
)
def test_what_says_nothing_changes_nothing(kind: Kind, given: Object) -> None:
    assert service(kind, given) == service(kind, None)


@EACH
def test_labels_and_annotations_are_added(kind: Kind) -> None:
    made, plain = service(kind, {"metadata": SERVED["metadata"]}), service(kind, None)
    assert made["spec"] == plain["spec"]
    assert made["metadata"] == {
        **plain["metadata"],
        "labels": {**plain["metadata"]["labels"], **SERVED["metadata"]["labels"]},
        "annotations": SERVED["metadata"]["annotations"],
    }


@EACH
def test_what_the_operator_sets_stays_whatever_is_given(kind: Kind) -> None:
    """The CRD refuses these; here its rules have been taken away."""
    own = service(kind, None)
    reserved = [f"{prefix}any" for prefix in service_template.RESERVED_PREFIXES]
    stolen = {
        "labels": dict.fromkeys([*own["metadata"]["labels"], reserved[0]], "stolen"),
        "annotations": dict.fromkeys(reserved, "stolen"),
    }
    assert service(kind, {"metadata": stolen}) == own


@EACH
def test_a_label_that_the_crd_admits_is_not_dropped(kind: Kind) -> None:
    """Of kubectl's domain only annotations are reserved: it keeps what it applied in one."""
    labels = {"kubectl.kubernetes.io/default": "yes"}
    made = service(kind, {"metadata": {"labels": labels}})["metadata"]["labels"]
    assert labels.items() <= made.items()


@EACH_DATABASE
def test_a_load_balancer_has_all_its_fields(kind: Kind) -> None:
    made, plain = service(kind, SERVED)["spec"], service(kind, None)["spec"]
    assert made == {**plain, **SERVED["spec"]}
    assert (made["selector"], made["ports"]) == (plain["selector"], plain["ports"])


@EACH_DATABASE
@pytest.mark.parametrize(
    ("type", "fields"), [("ClusterIP", set()), ("NodePort", {"externalTrafficPolicy"}), ("", set())], ids=str
)
def test_fields_of_another_type_are_left_out(kind: Kind, type: str, fields: set[str]) -> None:
    """The CRD refuses them, and the API server would refuse the Service, and all that is made after it."""
    made, plain = (
        service(kind, {"spec": {**SERVED["spec"], "type": type}})["spec"],
        service(kind, None)["spec"],
    )
    assert made["type"] == (type or "ClusterIP")
    assert made.keys() - plain.keys() == fields


def test_a_cache_stays_headless() -> None:
    made, plain = service(SERVERS[2], {"spec": SERVED["spec"]}), service(SERVERS[2], None)
    assert made == plain
    assert (made["spec"]["type"], made["spec"]["clusterIP"]) == ("ClusterIP", "None")

"""spec.podTemplate in each kind's Pods: beside what the operator sets, never in its place, else nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from kindling.kinds import pod_template
from kindling.kinds.base import Child
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kinds.pods import pod_problem
from kindling.kube.resources import Object

from tests.unit.operator.memcacheds import memcached
from tests.unit.operator.placement import FULL, HOST, ZONE, workloads

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PLAIN: dict[str, Child] = {child.body["metadata"]["name"]: child for child in workloads(None)}
EACH = pytest.mark.parametrize("name", PLAIN)


def workload(name: str, given: Object) -> Any:
    (found,) = (child for child in workloads(given) if child.body["metadata"]["name"] == name)
    return found.body


def template(name: str, given: Object) -> Any:
    return workload(name, given)["spec"]["template"]


def selector(name: str) -> Object:
    found: Object = PLAIN[name].body["spec"]["selector"]
    assert set(found["matchLabels"]) == {INSTANCE_LABEL, KIND_LABEL}
    return found


def test_each_kind_is_there() -> None:
    assert len(PLAIN) == 3


@EACH
@pytest.mark.parametrize(
    "given", [{}, {"metadata": {}}, {"metadata": None, "spec": {"affinity": {}}}], ids=str
)
def test_what_says_nothing_changes_nothing(name: str, given: Object) -> None:
    assert workload(name, given) == PLAIN[name].body


@EACH
def test_labels_and_annotations_are_added_to_the_pods_alone(name: str) -> None:
    made, plain = workload(name, FULL), PLAIN[name].body
    for field in ("labels", "annotations"):
        before = plain["spec"]["template"]["metadata"].get(field, {})
        assert made["spec"]["template"]["metadata"][field] == {**before, **FULL["metadata"][field]}
    assert made["metadata"]["labels"] == plain["metadata"]["labels"]
    assert made["spec"]["selector"] == plain["spec"]["selector"]


@EACH
def test_what_the_operator_sets_stays_whatever_is_given(name: str) -> None:
    """The CRD refuses these; here its rules have been taken away."""
    own = template(name, {})["metadata"]
    stolen = {
        field: dict.fromkeys([*own.get(field, ()), *reserved], "stolen")
        for field, reserved in (
            ("labels", pod_template.RESERVED_LABELS),
            ("annotations", [f"{prefix}any" for prefix in pod_template.RESERVED_ANNOTATIONS]),
        )
    }
    assert template(name, {"metadata": stolen}) == template(name, {})


@EACH
def test_placement_is_as_given(name: str) -> None:
    made, given = template(name, FULL)["spec"], FULL["spec"]
    for field in ("nodeSelector", "tolerations", "priorityClassName", "serviceAccountName"):
        assert made[field] == given[field]
    assert made.pop("serviceAccount") == given["serviceAccountName"]  # the same, by its old name
    for part in ("nodeAffinity", "podAffinity"):
        assert made["affinity"][part] == given["affinity"][part]
    plain = template(name, {})["spec"]
    rest = {field: value for field, value in made.items() if field not in given}
    assert rest == {field: value for field, value in plain.items() if field not in given}


@EACH
def test_an_account_gives_the_pods_no_token(name: str) -> None:
    made, plain = template(name, {"spec": {"serviceAccountName": "shop"}})["spec"], template(name, {})["spec"]
    assert made == {**plain, "serviceAccountName": "shop", "serviceAccount": "shop"}
    assert made["automountServiceAccountToken"] is False
    assert not {"serviceAccountName", "serviceAccount"} & plain.keys()


@EACH
def test_selectors_that_are_left_out_select_the_resources_own_pods(name: str) -> None:
    other: Object = {"labelSelector": {"matchLabels": {"app": "other"}}}
    every: Object = {"labelSelector": {}}
    given = {
        "spec": {
            "affinity": {
                "podAffinity": {REQUIRED: [{"topologyKey": HOST, **other}, {"topologyKey": ZONE}]},
                "podAntiAffinity": {
                    PREFERRED: [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": HOST}},
                        {"weight": 2, "podAffinityTerm": {"topologyKey": ZONE, **every}},
                    ]
                },
            },
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", **other},
            ],
        }
    }
    own = {"labelSelector": selector(name)}
    made = template(name, given)["spec"]
    assert made["affinity"] == {
        "podAffinity": {REQUIRED: [{"topologyKey": HOST, **other}, {"topologyKey": ZONE, **own}]},
        "podAntiAffinity": {
            PREFERRED: [
                {"weight": 1, "podAffinityTerm": {"topologyKey": HOST, **own}},
                {"weight": 2, "podAffinityTerm": {"topologyKey": ZONE, **every}},
            ]
        },
    }
    assert made["topologySpreadConstraints"] == [
        {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", **own},
        {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", **other},
    ]


@EACH
def test_an_empty_list_of_constraints_takes_the_default_away(name: str) -> None:
    made, plain = template(name, {"spec": {"topologySpreadConstraints": []}}), template(name, {})
    assert "topologySpreadConstraints" not in made["spec"]
    kept = {field: value for field, value in plain["spec"].items() if field != "topologySpreadConstraints"}
    assert made["spec"] == kept
    assert ("topologySpreadConstraints" in plain["spec"]) is (name != "db")  # which is one Pod


@pytest.mark.parametrize(
    ("spec", "said", "fields"),
    [
        ({}, "0/1 nodes are available: 1 Insufficient cpu.", []),
        ({"nodeSelector": {"disk": "ssd"}}, "didn't match Pod's node affinity/selector.", ["nodeSelector"]),
        (
            {name: FULL["spec"][name] for name in ("affinity", "topologySpreadConstraints")},
            "didn't match pod topology spread constraints.",
            ["affinity", "topologySpreadConstraints"],
        ),
        ({}, "1 node(s) had untolerated taint {dedicated: databases}.", ["tolerations"]),
        ({"priorityClassName": "important"}, "0/1 nodes are available.", []),
    ],
    ids=str,
)
def test_a_pod_that_no_node_takes_is_reported_with_the_fields_that_keep_it_away(
    spec: Object, said: str, fields: list[str]
) -> None:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": said,
    }
    pod = {"metadata": {"namespace": "ns", "name": "p"}, "status": {"conditions": [unscheduled]}}
    cr = memcached(podTemplate={"spec": spec})
    problem = pod_problem(pod, now=datetime(2026, 1, 1, 0, 1, tzinfo=UTC), placed_by=cr)
    assert problem is not None
    named = " or ".join(f"spec.podTemplate.spec.{field}" for field in fields)
    remedy = f"request less, or change {named}." if fields else "or request less."
    assert problem.message == f"No node accepts Pod p: {said} Free what it requests, {remedy}"

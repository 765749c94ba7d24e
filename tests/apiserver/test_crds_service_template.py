"""spec.serviceTemplate: what it admits Services admit too, and a mistake is refused by field and remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.engine.compare import satisfies
from kindling.kinds import service_template
from kindling.kinds.memcached import Memcached
from kindling.kinds.postgresql import Postgresql
from kindling.kube.resources import SERVICE

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import KINDS, MEMCACHED, POSTGRESQL, POSTGRESQL_EXAMPLE, Kind
from tests.unit.operator import memcacheds, postgresqls
from tests.unit.operator.placement import SERVED
from tests.unit.schema.drawing import drawn_from

WITH_SERVICES = [
    kind for kind in KINDS.values() if "serviceTemplate" in kind.schema["properties"]["spec"]["properties"]
]
EACH = pytest.mark.parametrize("kind", WITH_SERVICES, ids=lambda kind: kind.id)
DATABASES = pytest.mark.parametrize("kind", [POSTGRESQL, POSTGRESQL_EXAMPLE], ids=lambda kind: kind.id)


def schema(kind: Kind) -> Json:
    found: Json = kind.schema["properties"]["spec"]["properties"]["serviceTemplate"]
    return found


def labelled(**labels: str) -> Json:
    return {"metadata": {"labels": {name.replace("__", "/"): value for name, value in labels.items()}}}


def annotated(**annotations: str) -> Json:
    return {
        "metadata": {"annotations": {name.replace("__", "/"): text for name, text in annotations.items()}}
    }


def balanced(**fields: Any) -> Json:
    return {"spec": {"type": "LoadBalancer", **fields}}


GOOD_METADATA: list[Json] = [
    {},
    {"metadata": {}},
    {"metadata": SERVED["metadata"]},
    labelled(app="", **{"app.kubernetes.io__part-of": "shop"}),
    annotated(**{"service.beta.kubernetes.io__aws-load-balancer-type": "nlb"}),
    {"spec": {}},
    {"spec": {"type": "ClusterIP"}},
]
GOOD: list[Json] = [
    *GOOD_METADATA,
    SERVED,
    {"spec": {"type": "NodePort"}},
    {"spec": {"type": "NodePort", "externalTrafficPolicy": "Cluster"}},
    {"spec": {"type": "ClusterIP", "loadBalancerSourceRanges": []}},
    balanced(),
    balanced(loadBalancerClass="internal"),
    balanced(
        loadBalancerSourceRanges=["0.0.0.0/0", "::/0", "10.1.2.3/32", "1:2:3:4:5:6:7:8/128", "fe80::1/64"]
    ),
]
BAD_METADATA: list[tuple[Json, list[str]]] = [
    *(
        (labelled(**{name: "x"}), [f"labels '{name.replace('__', '/')}'", "use a label of another name"])
        for name in (
            "app.kubernetes.io__name",
            "app.kubernetes.io__instance",
            "app.kubernetes.io__managed-by",
            "kindling.dev__kind",
            "kindling.dev__any",
        )
    ),
    (labelled(**{"a b": "x"}), ["metadata.labels", "cannot be a label's", "DOMAIN/NAME"]),
    (labelled(a="x y"), ["metadata.labels.a", '"x y"']),
    *(
        (annotated(**{name: "x"}), [f"annotations '{name.replace('__', '/')}'", "leave it out"])
        for name in ("kindling.dev__last-applied-hash", "kubectl.kubernetes.io__last-applied-configuration")
    ),
    (annotated(**{"a b": "x"}), ["cannot be an annotation's", "DOMAIN/NAME"]),
    (annotated(**{f"a{number}": "" for number in range(25)}), ["metadata.annotations", "24"]),
    ({"spec": {"type": "ExternalName"}}, ["spec.type", '"ExternalName"', '"NodePort"']),
]
BAD: list[tuple[Json, list[str]]] = [
    *(
        (
            {"spec": {**type, "externalTrafficPolicy": "Local"}},
            ["externalTrafficPolicy 'Local'", "set type to"],
        )
        for type in ({}, {"type": "ClusterIP"})
    ),
    (balanced(externalTrafficPolicy="local"), ["externalTrafficPolicy", '"local"', '"Local"']),
    ({"spec": {"type": "NodePort", "loadBalancerClass": "a"}}, ["loadBalancerClass 'a'", "set type to"]),
    ({"spec": {"loadBalancerClass": "a"}}, ["loadBalancerClass 'a'", "leave it out"]),
    (balanced(loadBalancerClass="a b"), ["loadBalancerClass", '"a b"']),
    (
        {"spec": {"type": "NodePort", "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
        ["loadBalancerSourceRanges '10.0.0.0/8'", "set type to LoadBalancer"],
    ),
    *(
        (
            balanced(loadBalancerSourceRanges=["10.0.0.0/8", block]),
            [f"loadBalancerSourceRanges '{block}'", "use ADDRESS/LENGTH"],
        )
        for block in (
            "10.0.0.0",
            "10.0.0.0/33",
            "256.0.0.0/8",
            "010.0.0.0/8",
            "::/129",
            "1::2::/64",
            "all",
            "",
        )
    ),
    (balanced(loadBalancerSourceRanges=["10.0.0.0/8"] * 17), ["loadBalancerSourceRanges", "at most 16"]),
]
CASES: list[Any] = [
    *(
        pytest.param(kind, *case, id=f"{kind.id}-{case}"[:90])
        for kind in WITH_SERVICES
        for case in BAD_METADATA
    ),
    *(
        pytest.param(kind, *case, id=f"{kind.id}-{case}"[:90])
        for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE)
        for case in BAD
    ),
    *(
        pytest.param(
            MEMCACHED,
            {"spec": {"type": type}},
            [f"spec.serviceTemplate.spec.type '{type}'", "one address for several caches", "leave it out"],
            id=f"headless-{type}",
        )
        for type in ("NodePort", "LoadBalancer")
    ),
]


def test_each_kind_with_a_service_for_clients_has_it() -> None:
    """The files hold copies of one shape; a Memcached's Service has no type to choose."""
    assert {kind.id for kind in WITH_SERVICES} == {POSTGRESQL.id, POSTGRESQL_EXAMPLE.id, MEMCACHED.id}
    assert schema(POSTGRESQL) == schema(POSTGRESQL_EXAMPLE)
    assert schema(MEMCACHED)["properties"]["metadata"] == schema(POSTGRESQL)["properties"]["metadata"]
    assert schema(MEMCACHED)["properties"]["spec"]["properties"].keys() == {"type"}


def test_the_rules_refuse_the_names_that_the_operator_leaves_out() -> None:
    found = schema(POSTGRESQL)["properties"]["metadata"]["properties"]
    for field in ("labels", "annotations"):
        rule = found[field]["x-kubernetes-validations"][1]["rule"]
        names = set(rule.split("'")[1::2])
        if field == "labels":
            assert names == {service_template.RESERVED_PREFIXES[0], *service_template.RESERVED_LABELS}
        else:
            assert names == set(service_template.RESERVED_PREFIXES)


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        pytest.param(kind, template, id=f"{kind.id}-{template}"[:90])
        for kind in WITH_SERVICES
        for template in (GOOD_METADATA if kind is MEMCACHED else GOOD)
    ],
)
def test_good_templates_are_kept_as_they_are(api: Api, kind: Kind, template: Json) -> None:
    body = kind.resource("good", {"serviceTemplate": template})
    assert api.create(kind.collection, body, dry_run=True).accepted()["spec"]["serviceTemplate"] == template


@pytest.mark.parametrize(("kind", "template", "said"), CASES)
def test_bad_templates_are_refused_by_name(api: Api, kind: Kind, template: Json, said: list[str]) -> None:
    answer = api.create(kind.collection, kind.resource("bad", {"serviceTemplate": template}), dry_run=True)
    assert answer.status == 422, answer.message or "admitted"
    assert "evaluating rule" not in answer.message
    assert "serviceTemplate" in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


@EACH
@pytest.mark.parametrize("field", ["clusterIP", "selector", "ports", "externalIPs", "loadBalancerIP"])
def test_what_the_operator_decides_is_no_field_of_it(api: Api, kind: Kind, field: str) -> None:
    body = kind.resource("more", {"serviceTemplate": {"spec": {field: "x"}}})
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = api.request("POST", kind.collection, body=body, query=query)
    assert (answer.status, field in answer.message) == (400, True), answer.message


@DATABASES
def test_the_class_of_a_load_balancer_cannot_change(
    api: Api, kind: Kind, new_name: Callable[[], str]
) -> None:
    """Nor does a Service admit that: the type goes back to ClusterIP first."""
    name = new_name()
    path = f"{kind.collection}/{name}"

    def edit(**spec: Any) -> Any:
        return api.merge(path, {"spec": {"serviceTemplate": {"spec": spec}}})

    api.create(kind.collection, kind.resource(name, {"serviceTemplate": balanced()})).accepted()
    answer = edit(loadBalancerClass="a")
    assert answer.status == 422
    assert "loadBalancerClass 'a' cannot replace ''" in answer.message
    assert "set type to ClusterIP first" in answer.message
    edit(type="NodePort").accepted()
    edit(type="LoadBalancer", loadBalancerClass="a").accepted()
    assert edit(loadBalancerClass="b").status == 422
    assert edit(loadBalancerClass=None).status == 422
    edit(type="ClusterIP", loadBalancerClass=None).accepted()
    edit(type="LoadBalancer", loadBalancerClass="b").accepted()
    api.delete(path)


def services(template: Json) -> list[Json]:
    """The Service of each kind with this template, ready to be created."""
    kinds = (
        Postgresql(group="g", image="i", init_image="i", exporters_image="exporters:1"),
        Memcached(image="i", exporters_image="exporters:1"),
    )
    crs = postgresqls.postgresql(serviceTemplate=template), memcacheds.memcached(serviceTemplate=template)
    seen = postgresqls.observed(postgresqls.running()), memcacheds.observed()
    return [
        {
            "apiVersion": SERVICE.api_version,
            "kind": SERVICE.kind,
            "metadata": {
                "name": "drawn",
                "labels": child.body["metadata"]["labels"],
                "annotations": child.body["metadata"].get("annotations", {}),
            },
            "spec": child.body["spec"],
        }
        for kind, cr, world in zip(kinds, crs, seen, strict=True)
        for child in kind.desired(cr, world)
        if child.type == SERVICE
    ]


def judge(api: Api, template: Json) -> bool:
    """Whether the CRD admits it; then the server takes each Service, and keeps what is in it."""
    body = POSTGRESQL.resource("drawn", {"serviceTemplate": template})
    if api.create(POSTGRESQL.collection, body, dry_run=True).status == 422:
        return False
    for service in services(template):
        made = api.create(SERVICE.path(namespace="default"), service, dry_run=True).accepted()
        for field in ("spec", "metadata"):
            assert satisfies(service[field], made[field])  # or it would be applied again for ever
    return True


@pytest.mark.parametrize("template", GOOD, ids=lambda value: str(value)[:80])
def test_services_with_good_templates_are_taken_and_kept(api: Api, template: Json) -> None:
    assert judge(api, template)


def test_no_admitted_template_makes_a_service_that_the_server_refuses(api: Api) -> None:
    """Or all that is made after the Service would wait for it."""
    admitted = 0

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck))
    @given(
        template=drawn_from(schema(POSTGRESQL))
        | st.builds(lambda one, other: {**one, **other}, st.sampled_from(GOOD), st.sampled_from(GOOD))
    )
    def check(template: Json) -> None:
        nonlocal admitted
        admitted += judge(api, template)

    check()
    assert admitted > 20

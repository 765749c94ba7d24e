"""Memcached at the door: what size and memory may be, and that the server keeps its children as made."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kindling.engine.compare import satisfies
from kindling.kinds.base import CachedResult, ExternalResult, Observed, SyncResult
from kindling.kinds.conditions import with_transition_times
from kindling.kinds.memcached import Memcached
from kindling.kinds.memcached.spec import MADE_SECRETS, needed_mebibytes
from kindling.kinds.memcached.stats import COUNTERS, MOST
from kindling.kube.resources import POD, Ref

from tests.apiserver.support.apiclient import Api, Json, Response
from tests.apiserver.support.kinds import MEMCACHED, POSTGRESQL
from tests.unit.operator.memcacheds import NOW, running

BAD: list[tuple[Json, list[str]]] = [
    ({"size": 101}, ["spec.size", "101", "less than or equal to 100"]),
    ({"memoryMB": 15}, ["spec.memoryMB", "15", "greater than or equal to 16"]),
    ({"memoryMB": 65537}, ["spec.memoryMB", "65537", "less than or equal to 65536"]),
    ({"memoryMB": "64"}, ["spec.memoryMB", "string", "of type integer"]),
    ({"maxConnections": 511}, ["spec.maxConnections", "511", "greater than or equal to 512"]),
    ({"maxConnections": 65537}, ["spec.maxConnections", "65537", "less than or equal to 65536"]),
    ({"threads": 0}, ["spec.threads", "0", "greater than or equal to 1"]),
    ({"binding": "Secret"}, ["spec.binding", '"Secret"', 'supported values: "ConfigMap"']),
    ({"workload": "DaemonSet"}, ["spec.workload", '"DaemonSet"', '"Deployment", "StatefulSet"']),
    (
        {"rollout": {"minHitRatioPercent": 0}},
        ["spec.rollout.minHitRatioPercent", "0", "greater than or equal to 1"],
    ),
    (
        {"size": 3, "rollout": {"minHitRatioPercent": 50}},
        ["spec.rollout.minHitRatioPercent needs spec.workload 'StatefulSet'"],
    ),
    (
        {"size": 3, "workload": "StatefulSet", "rollout": {"minHitRatioPercent": 67}},
        ["spec.rollout.minHitRatioPercent 67 cannot be kept with spec.size 3", "at most 66 of 100 reads"],
    ),
    (
        {"workload": "StatefulSet", "rollout": {"minHitRatioPercent": 1}},
        ["spec.rollout.minHitRatioPercent 1 cannot be kept with spec.size 1", "at most 0 of 100 reads"],
    ),
    ({"discovery": "yes"}, ["spec.discovery", "string", "of type boolean"]),
    ({"statistics": "yes"}, ["spec.statistics", "string", "of type boolean"]),
    ({"threads": 65}, ["spec.threads", "65", "less than or equal to 64"]),
    (
        {"memoryMB": 256, "resources": {"limits": {"memory": "256Mi"}}},
        ["spec.resources.limits.memory '256Mi'", "spec.memoryMB 256", "at least 392Mi"],
    ),
    (
        {"resources": {"limits": {"memory": "100M"}}},
        ["spec.resources.limits.memory '100M'", "spec.memoryMB 64", "at least 152Mi"],
    ),
    (
        {"maxConnections": 12800, "resources": {"limits": {"memory": "200Mi"}}},
        ["spec.resources.limits.memory '200Mi'", "spec.maxConnections 12800", "at least 244Mi"],
    ),
    ({"resources": {"limits": {"memory": 0}}}, ["spec.resources.limits.memory '0'", "at least 152Mi"]),
    (
        {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}},
        ["spec.resources.requests.cpu '2'", "at most '1500m'"],
    ),
    (
        {"tls": {"enabled": True}, "resources": {"limits": {"memory": "183Mi"}}},
        ["spec.memoryMB 64 and spec.maxConnections 1024 with spec.tls: use at least 184Mi"],
    ),
    ({"tls": {}}, ["spec.tls.enabled", "Required"]),
    ({"auth": {}}, ["spec.auth.enabled", "Required"]),
    (
        {"tls": {"enabled": False, "secretName": "mine"}},
        ["spec.tls.enabled 'false'", "spec.tls.secretName 'mine'", "leave that out"],
    ),
    (
        {"auth": {"enabled": False, "passwordSecretRef": {"name": "mine"}}},
        ["spec.auth.enabled 'false'", "spec.auth.passwordSecretRef 'mine'", "leave that out"],
    ),
    ({"tls": {"enabled": True, "secretName": "A b"}}, ["spec.tls.secretName", "A b"]),
    ({"auth": {"enabled": True, "passwordSecretRef": {}}}, ["spec.auth.passwordSecretRef.name", "Required"]),
    *(
        (
            {"tls": {"enabled": True, "secretName": f"bad-{made}"}},
            [f"spec.tls.secretName 'bad-{made}'", "own"],
        )
        for made in MADE_SECRETS
    ),
    *(
        (
            {"auth": {"enabled": True, "passwordSecretRef": {"name": f"bad-{made}"}}},
            [f"spec.auth.passwordSecretRef.name 'bad-{made}'", "name one of your own"],
        )
        for made in MADE_SECRETS
    ),
    ({"exporter": {}}, ["spec.exporter.enabled", "Required"]),
    ({"exporter": {"enabled": "yes"}}, ["spec.exporter.enabled", "string", "of type boolean"]),
    (
        {"containerPort": 9150, "exporter": {"enabled": True}},
        ["spec.containerPort 9150 is the exporter's own", "use another one"],
    ),
    (
        {"exporter": {"enabled": True, "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "500m"}}}},
        ["spec.exporter.resources.requests.cpu '2'", "at most '500m'"],
    ),
    (
        {
            "exporter": {
                "enabled": True,
                "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": 1}},
            }
        },
        ["spec.exporter.resources.requests.memory '2Gi'", "at most '1'"],
    ),
]
GOOD: list[Json] = [
    {"size": 3, "containerPort": 1},
    {"memoryMB": 16, "maxConnections": 512, "threads": 64},
    {"memoryMB": 65536, "maxConnections": 65536},
    {"binding": "ConfigMap", "statistics": True},
    {"binding": None, "statistics": None, "discovery": None},
    {"discovery": True, "workload": "StatefulSet"},
    {"size": 3, "workload": "StatefulSet", "rollout": {"minHitRatioPercent": 66}},
    {"rollout": {}},
    {"rollout": None},
    {"containerPort": 9150, "exporter": {"enabled": False}},
    {"exporter": {"enabled": True, "resources": {"requests": {"memory": "64Mi"}, "limits": {"cpu": 1}}}},
    {"tls": {"enabled": True}, "auth": {"enabled": True}},
    {"tls": {"enabled": False}, "auth": {"enabled": False}},
    {"tls": {"enabled": True, "secretName": "mine"}, "resources": {"limits": {"memory": "184Mi"}}},
    {"auth": {"enabled": True, "passwordSecretRef": {"name": "mine", "key": "word"}}},
    {"resources": {}},
    {"memoryMB": 1024, "resources": {"requests": {"memory": "2Gi", "cpu": "100m"}}},
    {"memoryMB": 1024, "resources": {"limits": {"cpu": 1, "memory": "2Gi"}}},
]


@pytest.fixture
def memcached(api: Api, new_name: Callable[[], str]) -> Callable[[Json], Json]:
    """Make a Memcached of this spec, as the server then has it."""

    def _make(spec: Json) -> Json:
        return api.create(MEMCACHED.collection, MEMCACHED.resource(new_name(), spec)).accepted()

    return _make


def path_of(cr: Json) -> str:
    return f"{MEMCACHED.collection}/{cr['metadata']['name']}"


@pytest.mark.parametrize(("spec", "said"), BAD, ids=str)
def test_bad_spec_is_refused_by_field_value_and_remedy(api: Api, spec: Json, said: list[str]) -> None:
    answer = api.create(MEMCACHED.collection, MEMCACHED.resource("bad", spec), dry_run=True)
    assert answer.status == 422
    assert "evaluating rule" not in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


@pytest.mark.parametrize("spec", GOOD, ids=str)
def test_good_spec_is_admitted(api: Api, spec: Json) -> None:
    api.create(MEMCACHED.collection, MEMCACHED.resource("good", spec), dry_run=True).accepted()


@settings(max_examples=50, database=None)
@given(memory=st.integers(16, 65536), connections=st.integers(512, 65536), tls=st.booleans())
def test_the_rule_and_the_operator_agree_on_what_memcached_needs(
    api: Api, memory: int, connections: int, tls: bool
) -> None:
    needed = needed_mebibytes(memory=memory, connections=connections, tls=tls)

    def answer(limit: int) -> Response:
        spec = {
            "memoryMB": memory,
            "maxConnections": connections,
            "tls": {"enabled": tls},
            "resources": {"limits": {"memory": f"{limit}Mi"}},
        }
        return api.create(MEMCACHED.collection, MEMCACHED.resource("drawn", spec), dry_run=True)

    answer(needed).accepted()
    assert f"at least {needed}Mi" in answer(needed - 1).message


def test_resources_have_the_shape_that_postgresql_gives_them() -> None:
    def shape(schema: Json) -> Json:
        found: Json = copy.deepcopy(schema["properties"]["spec"]["properties"]["resources"])
        return {**found, "description": ""}

    assert shape(MEMCACHED.schema) == shape(POSTGRESQL.schema)


@pytest.mark.parametrize(("version", "most"), [("v1beta1", 100), ("v1alpha1", 3)])
def test_scale_goes_to_the_most_and_no_further(
    api: Api, memcached: Callable[[Json], Json], version: str, most: int
) -> None:
    path = path_of(memcached({})).replace("/v1beta1/", f"/{version}/")
    assert api.merge(f"{path}/scale", {"spec": {"replicas": most}}).accepted()["spec"] == {"replicas": most}
    assert api.get(path).accepted()["spec"]["size"] == most
    refused = api.merge(f"{path}/scale", {"spec": {"replicas": most + 1}})
    assert refused.status == 422
    for word in ("spec.size", str(most + 1), f"equal to {most}"):
        assert word in refused.message


def test_the_first_version_is_as_it_was(api: Api, memcached: Callable[[Json], Json]) -> None:
    """It takes three and refuses four, shows what the other one wrote, and edits it back to three."""
    path = path_of(memcached({"size": 5}))
    first = path.replace("/v1beta1/", "/v1alpha1/")
    shown = api.get(first).accepted()
    assert (shown["apiVersion"], shown["spec"]["size"]) == ("cache.example.com/v1alpha1", 5)
    assert api.merge(first, {"spec": {"size": 4}}).status == 422
    assert api.merge(first, {"spec": {"size": 3}}).accepted()["spec"]["size"] == 3
    assert api.get(path).accepted()["spec"]["size"] == 3
    [newest, oldest] = MEMCACHED.manifest["spec"]["versions"]
    assert (newest["storage"], oldest["storage"]) == (False, True)
    plain = copy.deepcopy(oldest["schema"]["openAPIV3Schema"])
    of_spec = plain["properties"]["spec"]["properties"]["size"]
    assert of_spec["maximum"] == 3
    wanted = newest["schema"]["openAPIV3Schema"]
    of_spec |= {
        key: wanted["properties"]["spec"]["properties"]["size"][key] for key in ("maximum", "description")
    }
    assert {**plain, "description": wanted["description"]} == wanted
    assert {**newest, "name": "", "storage": "", "schema": ""} == {
        **oldest,
        "name": "",
        "storage": "",
        "schema": "",
    }


def test_the_workload_outlives_an_edit_by_either_version(api: Api, memcached: Callable[[Json], Json]) -> None:
    """The first one is the stored one, whose schema is all that is kept."""
    made = memcached({"workload": "StatefulSet"})
    path = path_of(made)
    for version in ("v1alpha1", "v1beta1"):
        of_version = path.replace("/v1beta1/", f"/{version}/")
        assert api.get(of_version).accepted()["spec"]["workload"] == "StatefulSet"
        edited = api.merge(of_version, {"spec": {"memoryMB": 32 if version == "v1alpha1" else 33}}).accepted()
        assert edited["spec"]["workload"] == "StatefulSet"
    assert "workload" not in memcached({})["spec"], "nothing that is there reads otherwise"


def test_the_longest_of_names_is_kept_in_the_status(api: Api, memcached: Callable[[Json], Json]) -> None:
    name, namespace = "n" * 52, "m" * 63
    path = path_of(memcached({"workload": "StatefulSet"}))
    status = {"observedGeneration": 1, "serverList": [f"{name}-99.{name}.{namespace}.svc:65535"]}
    assert api.merge(f"{path}/status", {"status": status}).accepted()["status"] == status


def test_the_status_we_make_is_kept_and_scale_reads_it(api: Api, memcached: Callable[[Json], Json]) -> None:
    cr, kind = memcached({"size": 2, "statistics": True}), Memcached(image="i", exporters_image="exporters:1")
    children = ready_pods(cr)
    seen = Observed(objects=children, now=NOW, entropy=b"")
    most = ExternalResult(ok=True, facts=dict.fromkeys(COUNTERS, MOST))
    failed = ExternalResult(ok=False, reason="NotResponding", message="m" * 5000)
    results = {
        name: CachedResult(cache_key=probe.cache_key, result=most if name.endswith("0") else failed, at=NOW)
        for name, probe in kind.probes(cr, seen).items()
    }
    assert len(results) == 2
    seen = Observed(objects=children, now=NOW, entropy=b"", results=results)
    report = kind.status(cr, seen, SyncResult(in_sync=True))
    assert len(report.status["statistics"]) == 6
    status = with_transition_times(report.status, known={}, now=NOW)
    assert api.merge(f"{path_of(cr)}/status", {"status": status}).accepted()["status"] == status
    scale = api.get(f"{path_of(cr)}/scale").accepted()["status"]
    assert scale == {"replicas": len(status["serverList"]), "selector": status["selector"]}


def ready_pods(cr: Json) -> dict[Ref, Json]:
    """Two of this resource."""
    children = running(["10.0.0.1", "fd00::1"])
    named = {}
    for ref, obj in children.items():
        obj["metadata"].get("labels", {})["app.kubernetes.io/instance"] = cr["metadata"]["name"]
        obj["metadata"]["namespace"] = cr["metadata"]["namespace"]
        name = ref.name if ref.type == POD else cr["metadata"]["name"]
        named[Ref(ref.type, cr["metadata"]["namespace"], name)] = obj
    return named


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"size": 2, "binding": "ConfigMap"},
        {"size": 2, "discovery": True},
        {"size": 2, "containerPort": 80, "memoryMB": 100, "maxConnections": 600, "threads": 2},
        {"size": 3, "resources": {"requests": {"memory": "0.5Gi", "cpu": 1}, "limits": {"cpu": "2000m"}}},
        {"size": 2, "tls": {"enabled": True}, "auth": {"enabled": True}, "exporter": {"enabled": True}},
    ],
    ids=str,
)
def test_children_are_taken_as_made_and_hold_what_was_asked(
    api: Api, memcached: Callable[[Json], Json], spec: Json
) -> None:
    """No field is misspelt, refused, dropped or respelt: or each pass would write it again."""
    cr = memcached(spec)
    seen = Observed(objects=ready_pods(cr), now=NOW, entropy=b"")
    children = Memcached(image="memcached:1.6", exporters_image="exporters:1").desired(cr, seen)
    assert ("ConfigMap" in {child.type.kind for child in children}) == bool(
        {"binding", "discovery"} & set(spec)
    )
    for child in children:
        path = child.type.path(namespace="default", name=child.body["metadata"]["name"])
        body: dict[str, Any] = {
            "apiVersion": child.type.api_version,
            "kind": child.type.kind,
            **child.body,
        }
        api.apply(path, body).accepted()
        assert satisfies(child.body, api.get(path).accepted()), child.type.kind

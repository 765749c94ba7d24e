"""spec.podTemplate: what it admits Pods admit too, and a mistake is refused by field, value and remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.engine.compare import satisfies
from kindling.kinds import pod_template
from kindling.kinds.base import Child
from kindling.kinds.metadata import OWN_DOMAIN

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import (
    KINDS,
    MEMCACHED,
    MINIMAL_SPECS,
    POSTGRESQL,
    PULSAR_CONSUMER,
    REPOSITORY,
    Kind,
)
from tests.unit.operator.placement import FULL, workloads
from tests.unit.schema.drawing import drawn_from

WITH_PODS = [
    kind for kind in KINDS.values() if "podTemplate" in kind.schema["properties"]["spec"]["properties"]
]
EACH = pytest.mark.parametrize("kind", WITH_PODS, ids=lambda kind: kind.id)
SCHEMA: Json = MEMCACHED.schema["properties"]["spec"]["properties"]["podTemplate"]
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
TEAM: Json = {"labelSelector": {"matchLabels": {"team": "shop"}}}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def labels(**given: str) -> Json:
    return {"metadata": {"labels": {name.replace("__", "/"): value for name, value in given.items()}}}


def on_nodes(*requirements: Json, field: str = "matchExpressions") -> Json:
    return {
        "spec": {
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{field: list(requirements)}]}}}
        }
    }


def beside(**term: Any) -> Json:
    return {"spec": {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": HOST, **term}]}}}}


def tolerating(**toleration: Any) -> Json:
    return {"spec": {"tolerations": [toleration]}}


def spreading(**constraint: Any) -> Json:
    given = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **constraint}
    return {"spec": {"topologySpreadConstraints": [given]}}


def annotated(**given: str) -> Json:
    return {"metadata": {"annotations": {name.replace("__", "/"): value for name, value in given.items()}}}


GOOD: list[Json] = [
    {},
    {"metadata": {}, "spec": {}},
    FULL,
    labels(app="", **{"app.kubernetes.io__part-of": "shop", "sidecar.istio.io__inject": "false"}),
    annotated(**{"prometheus.io__scrape": "true"}),
    on_nodes({"key": "cores", "operator": "Gt", "values": ["4"]}, {"key": "gpu", "operator": "DoesNotExist"}),
    on_nodes({"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}, field="matchFields"),
    beside(),
    beside(namespaces=["shop"], namespaceSelector={}, **TEAM),
    {
        "spec": {
            "affinity": {
                "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": ZONE}}]}
            }
        }
    },
    {"spec": {"affinity": {"nodeAffinity": {}, "podAffinity": {PREFERRED: []}}}},
    tolerating(operator="Exists"),
    tolerating(key="spot", value="", effect="NoExecute", tolerationSeconds=0),
    {"spec": {"tolerations": []}},
    {"spec": {"topologySpreadConstraints": []}},
    spreading(
        minDomains=2,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        matchLabelKeys=["pod-template-hash"],
    ),
    spreading(whenUnsatisfiable="ScheduleAnyway", **TEAM),
    {"spec": {"priorityClassName": "system-cluster-critical"}},
    {"spec": {"serviceAccountName": "shop.database"}},
]
BAD: list[tuple[Json, list[str]]] = [
    *(
        (
            labels(**{name: "x"}),
            [f"metadata.labels '{name.replace('__', '/')}'", "use a label of another name"],
        )
        for name in (
            "app.kubernetes.io__name",
            "app.kubernetes.io__instance",
            "app.kubernetes.io__managed-by",
            "kindling.dev__kind",
            "kindling.dev__any",
            "pod-template-hash",
            "controller-revision-hash",
            "statefulset.kubernetes.io__pod-name",
            "apps.kubernetes.io__pod-index",
        )
    ),
    (labels(**{"a b": "x"}), ["spec.podTemplate.metadata.labels", "cannot be a label's", "DOMAIN/NAME"]),
    (labels(a="x y"), ["spec.podTemplate.metadata.labels.a", '"x y"']),
    (labels(**{f"l{number}": "" for number in range(33)}), ["metadata.labels", "32"]),
    *(
        (annotated(**{name: "x"}), [f"metadata.annotations '{name.replace('__', '/')}'", "leave it out"])
        for name in (
            "kindling.dev__port",
            "kubectl.kubernetes.io__restartedAt",
            "container.apparmor.security.beta.kubernetes.io__postgres",
        )
    ),
    (annotated(**{"a b": "x"}), ["cannot be an annotation's", "DOMAIN/NAME"]),
    ({"spec": {"nodeSelector": {"/disk": "ssd"}}}, ["spec.nodeSelector", "cannot be a label's"]),
    ({"spec": {"nodeSelector": {"disk": "s d"}}}, ["spec.podTemplate.spec.nodeSelector.disk", '"s d"']),
    (
        {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}},
        ["nodeSelectorTerms", "at least 1"],
    ),
    (on_nodes({"key": "a", "operator": "In"}), ["nodeAffinity", "'a' In needs values: give at least one"]),
    (on_nodes({"key": "a", "operator": "Exists", "values": ["b"]}), ["'a' Exists takes no values"]),
    (on_nodes({"key": "a", "operator": "Gt", "values": ["b"]}), ["'a' Gt needs values", "one whole number"]),
    (on_nodes({"key": "a", "operator": "Lt", "values": ["1", "2"]}), ["'a' Lt needs values", "one whole"]),
    (on_nodes({"key": "a", "operator": "Is", "values": ["b"]}), ["operator", '"Is"', '"Gt"']),
    (
        on_nodes({"key": "metadata.uid", "operator": "In", "values": ["b"]}, field="matchFields"),
        ["matchFields", '"metadata.uid"', '"metadata.name"'],
    ),
    (
        {"spec": {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}}},
        ["weight", "less than or equal to 100"],
    ),
    ({"spec": {"affinity": {"podAffinity": {REQUIRED: [{}]}}}}, ["topologyKey", "Required"]),
    (beside(topologyKey="a b"), ["topologyKey", '"a b"']),
    (beside(namespaces=["No"]), ["namespaces", '"No"']),
    (beside(labelSelector={"matchLabels": {"a b": "x"}}), ["matchLabels", "cannot be a label's"]),
    (
        beside(labelSelector={"matchExpressions": [{"key": "a", "operator": "NotIn"}]}),
        ["matchExpressions 'a' NotIn needs values"],
    ),
    (tolerating(effect="NoSchedule"), ["tolerations", "without a key", "operator Exists"]),
    (tolerating(key="a", operator="Exists", value="b"), ["tolerations", "value 'b'", "leave out one"]),
    (tolerating(key="a", tolerationSeconds=5), ["tolerationSeconds", "effect NoExecute"]),
    (tolerating(key="a", operator="Gt", value="5"), ["operator", '"Gt"', '"Exists"']),
    (spreading(maxSkew=0), ["maxSkew", "greater than or equal to 1"]),
    (spreading(whenUnsatisfiable="ScheduleAnyway", minDomains=2), ["minDomains", "DoNotSchedule"]),
    (spreading(matchLabelKeys=["team"], **TEAM), ["matchLabelKeys", "selects by already"]),
    (spreading(matchLabelKeys=["kindling.dev/kind"]), ["matchLabelKeys", "selects by already"]),
    (
        {"spec": {"topologySpreadConstraints": spreading()["spec"]["topologySpreadConstraints"] * 2}},
        ["topologySpreadConstraints", "Duplicate"],
    ),
    ({"spec": {"priorityClassName": "No"}}, ["spec.podTemplate.spec.priorityClassName", '"No"']),
    ({"spec": {"serviceAccountName": "No"}}, ["spec.podTemplate.spec.serviceAccountName", '"No"']),
    ({"spec": {"serviceAccountName": ""}}, ["spec.podTemplate.spec.serviceAccountName", "at least 1"]),
]


def test_each_kind_that_runs_pods_has_it_and_all_have_the_same() -> None:
    """The files hold copies of one shape."""
    assert {kind.manifest["spec"]["names"]["kind"] for kind in WITH_PODS} == {
        "Postgresql", "Memcached", "PulsarConsumer",
    }  # fmt: skip
    for kind in WITH_PODS:
        assert kind.schema["properties"]["spec"]["properties"]["podTemplate"] == SCHEMA, kind.id


def test_the_rules_refuse_the_names_that_the_operator_leaves_out() -> None:
    found = SCHEMA["properties"]["metadata"]["properties"]
    of_labels, of_annotations = (
        found[name]["x-kubernetes-validations"][1] for name in ("labels", "annotations")
    )
    for text in (of_labels["rule"], of_labels["messageExpression"]):
        names = pod_template.RESERVED_LABELS - {"kindling.dev/kind"}
        assert sorted(names | {OWN_DOMAIN}) == sorted(quoted(text))
    for text in (of_annotations["rule"], of_annotations["messageExpression"]):
        assert sorted(pod_template.RESERVED_ANNOTATIONS) == sorted(quoted(text))


def quoted(text: str) -> Iterator[str]:
    """The texts in single quotes of an expression."""
    inside = [part.strip() for part in text.split('"')[:: 2 if '"' in text else 1]]
    for part in inside:
        yield from part.split("'")[1::2]


@EACH
@pytest.mark.parametrize("template", GOOD, ids=lambda value: str(value)[:80])
def test_good_templates_are_kept_as_they_are(api: Api, kind: Kind, template: Json) -> None:
    body = kind.resource("good", {**MINIMAL_SPECS[kind.id], "podTemplate": template})
    assert api.create(kind.collection, body, dry_run=True).accepted()["spec"]["podTemplate"] == template


@EACH
@pytest.mark.parametrize(("template", "said"), BAD, ids=lambda value: str(value)[:80])
def test_bad_templates_are_refused_by_name(api: Api, kind: Kind, template: Json, said: list[str]) -> None:
    body = kind.resource("bad", {**MINIMAL_SPECS[kind.id], "podTemplate": template})
    answer = api.create(kind.collection, body, dry_run=True)
    assert answer.status == 422, answer.message or "admitted"
    assert "evaluating rule" not in answer.message
    assert "podTemplate" in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


@pytest.mark.parametrize(
    "field", ["automountServiceAccountToken", "containers", "volumes", "hostNetwork", "securityContext"]
)
def test_what_the_operator_decides_is_no_field_of_it(api: Api, field: str) -> None:
    body = MEMCACHED.resource("more", {"podTemplate": {"spec": {field: "x"}}})
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = api.request("POST", MEMCACHED.collection, body=body, query=query)
    assert (answer.status, field in answer.message) == (400, True), answer.message


def bodies(template: Json) -> Iterator[tuple[Child, Json]]:
    """The workload of each kind with this template, and how it is created."""
    for child in workloads(template):
        yield (
            child,
            {
                "apiVersion": child.type.api_version,
                "kind": child.type.kind,
                "metadata": {"name": "drawn"},
                "spec": child.body["spec"],
            },
        )


def judge(api: Api, template: Json) -> bool:
    """Whether the CRD admits it; then the server takes each workload, and keeps what is in it."""
    body = MEMCACHED.resource("drawn", {"podTemplate": template})
    if api.create(MEMCACHED.collection, body, dry_run=True).status == 422:
        return False
    for child, workload in bodies(template):
        path = child.type.path(namespace="default")
        made = api.create(path, workload, dry_run=True).accepted()
        assert satisfies(child.body["spec"], made["spec"])  # or it would be applied again for ever
    return True


@pytest.mark.parametrize("template", GOOD, ids=lambda value: str(value)[:80])
def test_workloads_with_good_templates_are_taken_and_kept(api: Api, template: Json) -> None:
    assert judge(api, template)


def test_no_admitted_template_makes_a_workload_that_the_server_refuses(api: Api) -> None:
    admitted = 0

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck))
    @given(template=drawn_from(SCHEMA) | st.builds(mixed, st.sampled_from(GOOD), st.sampled_from(GOOD)))
    def check(template: Json) -> None:
        nonlocal admitted
        admitted += judge(api, template)

    check()
    assert admitted > 20


def mixed(one: Json, other: Json) -> Json:
    return {
        part: {**one.get(part, {}), **other.get(part, {})}
        for part in ("metadata", "spec")
        if part in one or part in other
    }


GUIDE = REPOSITORY / "docs" / "guides" / "pod-template.md"
EXAMPLES = [
    yaml.safe_load(block)["spec"]["podTemplate"]
    for block in re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
]


@pytest.mark.parametrize("number", range(3))
def test_the_guides_examples_work(api: Api, number: int) -> None:
    example = EXAMPLES[number]
    for kind in WITH_PODS:
        body = kind.resource("guide", {**MINIMAL_SPECS[kind.id], "podTemplate": example})
        assert api.create(kind.collection, body, dry_run=True).accepted()["spec"]["podTemplate"] == example
    assert judge(api, example)


def test_how_much_of_a_definition_it_is() -> None:
    """Well below what `kubectl apply` can keep in its annotation, 262144 bytes, and what etcd takes."""
    for kind in (POSTGRESQL, MEMCACHED, PULSAR_CONSUMER):
        versions = kind.manifest["spec"]["versions"]
        for version in versions:
            assert len(json.dumps(version, separators=(",", ":"))) < 131072, (kind.id, version["name"])
        assert len(json.dumps(kind.manifest, separators=(",", ":"))) < 196608, kind.id

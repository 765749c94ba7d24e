"""Each policy both ways: what it forbids is named by field and value, what is right or unknown passes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.policies import UNKNOWN, Secret, Violation, violations

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
ROLE = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
DIGEST = "@sha256:" + "0" * 64

CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "registry.example:5000/team/app:1.2",
    "ports": [{"containerPort": 80}],
    "resources": {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"cpu": 1, "memory": "128Mi"},
    },
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
SPEC: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "initContainers": [{**copy.deepcopy(CONTAINER), "name": "first"}],
    "containers": [CONTAINER],
    "volumes": [{"name": "tmp", "emptyDir": {}}],
}


def deployment(spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d"}, "spec": {"replicas": 1, "template": {"spec": spec}}}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good Pod with one value set; None takes it away."""
    spec = copy.deepcopy(SPEC)
    *way, last = path.split(".")
    place: Any = spec
    for key in way:
        place = place[int(key)] if key.isdigit() else place.setdefault(key, {})
    place[last] = value
    return spec


def fields(found: list[Violation]) -> list[str]:
    return [violation.field.removeprefix("spec.template.spec.") for violation in found]


def test_a_restricted_pod_passes() -> None:
    assert violations(DEPLOYMENT, "d", deployment(SPEC)) == []


FORBIDDEN = [
    ("containers.0.image", "app", "containers[main].image"),
    ("containers.0.image", "app:latest", "containers[main].image"),
    ("containers.0.image", "registry.example:5000/app", "containers[main].image"),
    ("containers.0.image", None, "containers[main].image"),
    ("initContainers.0.image", "app:latest", "initContainers[first].image"),
    ("volumes.0.image", {"reference": "data:latest"}, "volumes[tmp].image.reference"),
    ("containers.0.resources.limits.memory", None, "containers[main].resources.limits.memory"),
    ("containers.0.resources.limits.memory", "0", "containers[main].resources.limits.memory"),
    ("containers.0.resources.limits.cpu", 0, "containers[main].resources.limits.cpu"),
    ("containers.0.resources.requests.cpu", None, "containers[main].resources.requests.cpu"),
    ("initContainers.0.resources.requests.memory", None, "initContainers[first].resources.requests.memory"),
    ("hostNetwork", True, "hostNetwork"),
    ("hostPID", True, "hostPID"),
    ("hostIPC", True, "hostIPC"),
    ("volumes.0.hostPath", {"path": "/var/run"}, "volumes[tmp].hostPath"),
    ("containers.0.ports.0.hostPort", 80, "containers[main].ports[0].hostPort"),
    ("containers.0.securityContext.privileged", True, "containers[main].securityContext.privileged"),
    (
        "containers.0.securityContext.allowPrivilegeEscalation",
        None,
        "containers[main].securityContext.allowPrivilegeEscalation",
    ),
    (
        "containers.0.securityContext.capabilities.drop",
        ["NET_RAW"],
        "containers[main].securityContext.capabilities.drop",
    ),
    (
        "containers.0.securityContext.capabilities.add",
        ["SYS_ADMIN"],
        "containers[main].securityContext.capabilities.add",
    ),
    (
        "containers.0.securityContext.runAsNonRoot",
        False,
        "containers[main].securityContext.runAsNonRoot",
    ),
    ("securityContext.runAsUser", 0, "securityContext.runAsUser"),
    ("securityContext.runAsUser", 0.0, "securityContext.runAsUser"),
    (
        "containers.0.securityContext.seccompProfile",
        {"type": "Unconfined"},
        "containers[main].securityContext.seccompProfile.type",
    ),
    ("securityContext.runAsNonRoot", None, "securityContext.runAsNonRoot"),
    ("securityContext.seccompProfile", None, "securityContext.seccompProfile.type"),
]


@pytest.mark.parametrize(("path", "value", "field"), FORBIDDEN)
def test_what_is_forbidden_is_named(path: str, value: Any, field: str) -> None:
    found = violations(DEPLOYMENT, "web", deployment(changed(path, value)))
    assert set(fields(found)) == {field}
    text = str(found[0])
    assert f"{DEPLOYMENT} `web`: spec.template.spec.{field}" in text
    assert "remedy: " in text


ALLOWED = [
    ("containers.0.image", f"app{DIGEST}"),
    ("containers.0.image", f"registry.example:5000/app:latest{DIGEST}"),
    ("containers.0.securityContext.capabilities.add", ["NET_BIND_SERVICE"]),
    ("containers.0.ports.0.hostPort", 0),
    ("hostNetwork", False),
    ("securityContext.runAsUser", 65532),
    ("ephemeralContainers", [{key: value for key, value in CONTAINER.items() if key != "resources"}]),
]


@pytest.mark.parametrize(("path", "value"), ALLOWED)
def test_what_is_not_forbidden_passes(path: str, value: Any) -> None:
    assert violations(DEPLOYMENT, "web", deployment(changed(path, value))) == []


def test_a_container_may_be_restricted_where_its_pod_says_nothing() -> None:
    spec = changed("securityContext", {})
    own = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}}
    for container in (spec["containers"][0], spec["initContainers"][0]):
        container["securityContext"] = {**container["securityContext"], **own}
    assert violations(DEPLOYMENT, "web", deployment(spec)) == []


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("core/v1:Pod", ["spec"]),
        ("core/v1:PodTemplate", ["template", "spec"]),
        ("apps/v1:StatefulSet", ["spec", "template", "spec"]),
        ("apps/v1:DaemonSet", ["spec", "template", "spec"]),
        ("apps/v1:ReplicaSet", ["spec", "template", "spec"]),
        ("core/v1:ReplicationController", ["spec", "template", "spec"]),
        ("batch/v1:Job", ["spec", "template", "spec"]),
        ("batch/v1:CronJob", ["spec", "jobTemplate", "spec", "template", "spec"]),
    ],
)
def test_every_kind_that_makes_pods_is_judged(kind: str, way: list[str]) -> None:
    props: Any = changed("hostNetwork", True)
    for key in reversed(way):
        props = {key: props}
    (found,) = violations(f"kubernetes:{kind}", "x", props)
    assert found.field == ".".join([*way, "hostNetwork"])


@pytest.mark.parametrize("field", ["apiGroups", "resources", "verbs", "nonResourceURLs"])
@pytest.mark.parametrize("entry", ["*", "*/status", "pods/*"])
@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_a_wildcard_grants_nothing(kind: str, field: str, entry: str) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    type = f"kubernetes:rbac.authorization.k8s.io/v1:{kind}"
    assert violations(type, "r", {"rules": [rule, rule]}) == []
    (found,) = violations(type, "r", {"rules": [rule, {**rule, field: ["x", entry]}]})
    assert (found.field, found.value) == (f"rules[1].{field}", entry)


def test_nobody_is_cluster_admin() -> None:
    type = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
    assert violations(type, "b", {"roleRef": {"name": "mine"}}) == []
    assert fields(violations(type, "b", {"roleRef": {"name": "cluster-admin"}})) == ["roleRef.name"]


def test_an_admission_policy_refuses_what_it_cannot_judge() -> None:
    type = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy"
    assert violations(type, "p", {"spec": {"failurePolicy": "Fail"}}) == []
    assert violations(type, "p", {"spec": {}}) == [], "Fail is the default"
    (found,) = violations(type, "p", {"spec": {"failurePolicy": "Ignore"}})
    assert (found.field, found.value) == ("spec.failurePolicy", "Ignore")


@pytest.mark.parametrize("actions", [None, [], ["Warn", "Audit"]])
def test_an_admission_policy_is_enforced(actions: list[str] | None) -> None:
    type = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding"
    for fine in (["Deny"], ["Audit", "Deny"], UNKNOWN, [UNKNOWN]):
        assert violations(type, "b", {"spec": {"validationActions": fine}}) == []
    assert fields(violations(type, "b", {"spec": {"validationActions": actions}})) == [
        "spec.validationActions"
    ]


def test_what_is_not_of_kubernetes_is_none_of_its_business() -> None:
    assert violations("pulumi-python:dynamic/containers:Image", "i", deployment({"hostPID": True})) == []


def test_a_secret_is_judged_and_not_shown() -> None:
    (found,) = violations(DEPLOYMENT, "d", deployment(changed("containers.0.image", Secret("canary"))))
    assert "canary" not in str(found)
    assert "[secret]" in str(found)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*way, key))


GOOD = {
    DEPLOYMENT: deployment(SPEC),
    ROLE: {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
}


@pytest.mark.parametrize(
    ("type", "way"), [(type, way) for type, props in GOOD.items() for way in places(props) if way], ids=str
)
def test_what_is_not_known_yet_is_no_violation(type: str, way: tuple[Any, ...]) -> None:
    props: Any = copy.deepcopy(GOOD[type])
    place = props
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = UNKNOWN
    assert violations(type, "x", props) == []


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.just(UNKNOWN)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@given(data=st.data())
def test_nothing_that_is_in_a_resource_raises(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(sorted(GOOD)))
    props: Any = copy.deepcopy(GOOD[type])
    way = data.draw(st.sampled_from([way for way in places(props) if way]))
    place = props
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = data.draw(values)
    for violation in violations(type, "x", props):
        assert str(violation)

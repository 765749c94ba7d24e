"""What holds for every kind of the registry, over all that its CRD admits and all that it may meet.

The kinds' own tests say what each is for; here is what the engine relies on, and what no kind may do:
raise, decide by chance, write for ever, write outside its own, or carry a secret where none belongs.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kindling.engine.compare import merge_patch
from kindling.kinds.base import ExternalResult, Kind, Observed, Problem, SyncResult
from kindling.kinds.conditions import with_stalled, with_transition_times
from kindling.kinds.metadata import MADE_BY, labels_of, labels_without_owner
from kindling.kinds.planned import Change
from kindling.kinds.postgresql.login import starts
from kindling.kube.resources import (
    CONFIG_MAP,
    NETWORK_POLICY,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    Ref,
)

from tests.unit.schema.drawing import Json, flaws
from tests.unit.schema.worlds import (
    CRDS,
    KINDS,
    NOW,
    SAMPLES,
    applied,
    as_created,
    decide,
    given_for,
    nothing,
    resources,
    schema_of,
    worlds,
)

EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
EXAMPLES = settings(
    max_examples=15,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
CANARY = "canaryInTheCoalMine"

ANSWERS = st.dictionaries(
    st.just("server"),
    st.sampled_from([ExternalResult(ok=True), ExternalResult(ok=False, reason="LoginFailed", message="why")]),
)
PROBLEMS = st.none() | st.builds(
    Problem,
    reason=st.sampled_from(["NameConflict", "Terminating", "ApplyRejected"]),
    message=st.sampled_from(["why", "m" * 5000]),
    transient=st.booleans(),
)
PATHS = st.lists(
    st.sampled_from(
        [
            ("spec", "template", "spec", "containers", "postgres", "image"),
            ("metadata", "annotations", "kindling.dev/asked"),
            ("spec", "replicas"),
            (),
            ("data",),
        ]
    ),
    max_size=3,
)
CHANGES = st.lists(
    st.builds(
        Change,
        action=st.sampled_from(["Create", "Update", "Restore", "Delete"]),
        ref=st.builds(
            Ref,
            st.sampled_from([CONFIG_MAP, NETWORK_POLICY, SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM]),
            st.just("ns"),
            st.sampled_from(["a", "n" * 253]),
        ),
        paths=PATHS,
        left=PATHS,
        drift=st.booleans(),
        held=st.booleans(),
    ),
    max_size=3,
)
FINDINGS = st.builds(
    SyncResult,
    in_sync=st.booleans(),
    problem=PROBLEMS,
    results=ANSWERS,
    paused=st.booleans(),
    changes=CHANGES,
)


def test_each_crd_has_its_kind_and_each_kind_its_crd() -> None:
    assert {label: crd["spec"]["names"]["plural"] for label, crd in CRDS.items()} == {
        label: kind.type.plural for label, kind in KINDS.items()
    }
    for kind in KINDS.values():
        assert schema_of(kind, "spec")  # served in the version that we watch


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_nothing_raises_and_nothing_is_left_to_chance(kind: Kind, data: st.DataObject) -> None:
    cr = data.draw(resources(kind), "resource")
    observed = data.draw(worlds(kind, cr), "world")
    assert isinstance(kind.paused(cr), bool)
    assert kind.watched_objects(cr) == kind.watched_objects(cr)
    assert {look.type for look in kind.watched_objects(cr)} <= set(kind.watches)
    if kind.validate(cr, observed) is None:
        assert kind.desired(cr, observed) == kind.desired(cr, observed)
        assert {child.type for child in kind.desired(cr, observed)} <= {*kind.children, *kind.optional}
        decide(kind, cr, observed)
        kind.external_actions(cr, observed), kind.probes(cr, observed), kind.disruptions(cr, observed)
    sync = data.draw(FINDINGS, "findings")
    assert kind.status(cr, observed, sync) == kind.status(cr, observed, sync)
    for metric in kind.metrics:
        value = metric.read(cr)
        assert value == metric.read(cr)
        assert value is None or (isinstance(value, float) and math.isfinite(value))


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_what_is_decided_and_finished_is_what_the_crd_describes(kind: Kind, data: st.DataObject) -> None:
    cr = data.draw(resources(kind), "resource")
    observed = data.draw(worlds(kind, cr), "world")
    status = schema_of(kind, "status")
    decided = kind.durable_state(cr, observed)
    assert decided == kind.durable_state(cr, observed)
    assert set(decided) <= set(kind.durable) <= set(status["properties"])
    # None removes a field.
    written = {name: value for name, value in decided.items() if value is not None}
    assert list(flaws(status, written, "status")) == []
    assert kind.finalizer or not kind.must_finish(cr)
    finish = kind.finish(cr, observed)
    assert finish == kind.finish(cr, observed)
    assert {child.type for child in finish.children} <= set(kind.children)
    if not finish.done:
        assert kind.must_finish(cr), "nothing can remain to be done without a finalizer"
        known = cr.get("status") or {}
        shown = with_transition_times(with_stalled(finish.report), known=known, now=NOW)
        assert list(flaws(status, shown, "status")) == []


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_the_status_is_what_the_crd_describes_and_comes_to_rest(kind: Kind, data: st.DataObject) -> None:
    """A field that the schema does not know would be dropped by the server, and written again for ever."""
    cr = data.draw(resources(kind), "resource")
    observed = data.draw(worlds(kind, cr), "world")
    sync = data.draw(FINDINGS, "findings")
    for _ in range(2):
        known = cr.get("status") or {}
        status = with_transition_times(with_stalled(kind.status(cr, observed, sync)), known=known, now=NOW)
        # As the engine does: what only `durable_state` sets stays.
        status = {**status, **{name: known[name] for name in kind.durable if name in known}}
        patch = merge_patch(known=known, wanted=status)
        assert list(flaws(schema_of(kind, "status"), status, "status")) == []
        cr = {**cr, "status": status}
    assert patch == {}
    conditions = {item["type"]: item for item in status["conditions"]}
    assert "Ready" in conditions
    generations = {item["observedGeneration"] for item in conditions.values()}
    assert generations == {status["observedGeneration"]} == {cr["metadata"]["generation"]}
    assert all(item["message"] for item in conditions.values())
    if sync.problem is not None:
        # Where nothing is made, nothing can hinder it.
        assert conditions["Ready"]["status"] != "True" or not kind.children


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_applied_once_nothing_is_left_to_write(kind: Kind, data: st.DataObject) -> None:
    cr, done = in_place(kind, data)
    assert decide(kind, cr, done).problem is None
    assert decide(kind, cr, done).actions == []


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_children_are_named_labelled_and_owned(kind: Kind, data: st.DataObject) -> None:
    cr, done = in_place(kind, data)
    uids = {cr["metadata"]["uid"]} | {obj["metadata"]["uid"] for obj in done.objects.values()}
    children = kind.desired(cr, done)
    assert len({child.ref for child in children}) == len(children)
    for child in children:
        meta = child.body["metadata"]
        assert meta["namespace"] == cr["metadata"]["namespace"]
        assert SUBDOMAIN.fullmatch(meta["name"])
        assert len(meta["name"]) <= 253
        if child.handed_over:  # it is another's: neither owned nor labelled as this one's
            assert child.create_only
            assert meta["annotations"][MADE_BY] == cr["metadata"]["uid"]
            assert "ownerReferences" not in meta
            continue
        # What may have no owner must not look like somebody's who goes by the usual labels.
        kept = child.type == VOLUME_CLAIM
        labels = (labels_without_owner if kept else labels_of)(kind.type, cr)
        assert labels.items() <= meta["labels"].items()
        assert ("app.kubernetes.io/instance" in meta["labels"]) is not kept
        owners = meta.get("ownerReferences", [])
        assert {owner["uid"] for owner in owners} <= uids
        # Only a volume may outlive its resource, by the data policy.
        assert owners or child.type == VOLUME_CLAIM
        if child.type == SERVICE:
            assert DNS_LABEL.fullmatch(meta["name"])
        for labels in labels_in(child.body):
            assert all(LABEL_VALUE.fullmatch(value) for value in labels.values()), labels


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_every_pod_is_restricted(kind: Kind, data: st.DataObject) -> None:
    """The restricted pod security standard, and no token of the API server."""
    cr, done = in_place(kind, data)
    for child in kind.desired(cr, done):
        spec = child.body.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        pod = spec.get("template", {}).get("spec")
        if pod is None:
            continue
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
        volumes = {source for volume in pod.get("volumes", ()) for source in volume if source != "name"}
        assert volumes <= {
            "persistentVolumeClaim", "ephemeral", "configMap", "secret", "emptyDir", "projected"
        }  # fmt: skip
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} & container["resources"].keys()


@EACH_KIND
@EXAMPLES
@given(data=st.data())
def test_no_secret_is_anywhere_but_in_secrets(kind: Kind, data: st.DataObject) -> None:
    """Passwords of the spec, and all that is in the Secrets that the kind reads."""
    cr = data.draw(resources(kind), "resource")
    cr = {**cr, "spec": poisoned(schema_of(kind, "spec"), cr["spec"])}
    found = data.draw(given_for(kind, cr, st.just(CANARY)), "secrets")
    observed = replace(nothing(), objects=found)
    sync = data.draw(FINDINGS, "findings")
    problem = kind.validate(cr, observed)
    said: list[Any] = [problem and (problem.reason, problem.message)]
    if problem is None:
        observed = applied(kind, cr, observed)
        said += [child.body for child in kind.desired(cr, observed) if child.type != SECRET]
        said += [child.body["metadata"] for child in kind.desired(cr, observed)]
        actions, probes = kind.external_actions(cr, observed), kind.probes(cr, observed)
        said += [repr(actions), repr(probes)]
        said += [repr([action.cache_key for action in actions])]
        said += [repr([probe.cache_key for probe in probes.values()])]
    said.append(kind.status({**cr, "status": {}}, observed, sync).status)
    text = json.dumps(said, default=repr)
    assert CANARY not in text
    assert base64.b64encode(CANARY.encode()).decode().rstrip("=") not in text


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
def test_what_the_documents_print_is_never_refused(sample: Json) -> None:
    cr = as_created(sample)
    label = f"{sample['kind'].lower()}.{sample['apiVersion'].partition('/')[0]}"
    kind = KINDS[label]
    assert kind.validate(cr, nothing()) is None
    assert kind.paused(cr) is False
    children = kind.desired(cr, nothing())
    assert bool(children) == bool(kind.children)
    assert decide(kind, cr, applied(kind, cr, nothing())).actions == []


def in_place(kind: Kind, data: st.DataObject) -> tuple[Object, Observed]:
    """A resource that is not refused, with all of its children as they should be."""
    cr = data.draw(resources(kind), "resource")
    observed = replace(nothing(), objects=data.draw(given_for(kind, cr, st.just("s")), "secrets"))
    for name in sorted(cr["spec"].keys() - set(schema_of(kind, "spec").get("required", ()))):
        if kind.validate(cr, observed) is not None:  # two spellings of one field, say: with one of them less
            cr = {**cr, "spec": {field: value for field, value in cr["spec"].items() if field != name}}
    assume(kind.validate(cr, observed) is None)
    return cr, applied(kind, cr, observed)


def labels_in(value: Any) -> list[dict[str, str]]:
    """All labels and selectors of an object, those of its Pods too."""
    if isinstance(value, list):
        return [found for item in value for found in labels_in(item)]
    if not isinstance(value, dict):
        return []
    here = [value[name] for name in ("labels", "matchLabels") if isinstance(value.get(name), dict)]
    return here + [found for item in value.values() for found in labels_in(item)]


def poisoned(schema: Json, value: Any) -> Any:
    """The value with the canary in the place of every password."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return {
            name: poisoned(known.get(name, schema.get("additionalProperties", {})), below)
            for name, below in value.items()
        }
    if isinstance(value, list):
        return [poisoned(schema.get("items", {}), below) for below in value]
    return CANARY if schema.get("format") == "password" and value is not None else value


def test_a_pod_without_a_status_is_no_crash_of_a_rotation() -> None:
    """As drawn once in some thousand examples: a Pod that has just been made, beside a rotation on record."""
    assert starts({"metadata": {"uid": "u"}}) == starts({"metadata": {"uid": "u"}, "status": None}) == ()

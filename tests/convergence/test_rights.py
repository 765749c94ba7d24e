"""The operator has the rights that it needs and no others: each is used, and without it something fails.

The process runs under the shipped rules. In one scenario, in which a resource of every kind comes, changes
and is tampered with, all that is granted must be used and nothing denied. Then one verb after the other is
taken away, of which the scenario must show a trace; given back, all comes true without anybody's help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from kindling.kinds.metadata import NAME_LABEL
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    EVENT,
    LEASE,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Ref,
)

from tests.apiserver.support.audit import Request, wait_until
from tests.apiserver.support.cluster import ACCOUNT, KINDS_BY_NAME, NAMESPACE, Cluster, cluster, ref_to
from tests.apiserver.support.kinds import (
    BINDING_IMPORT,
    MEMCACHED,
    MINIMAL_SPECS,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
)
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.convergence.rights import Right, denied, granted, granted_elsewhere, used, without

LEADER = Ref(LEASE, NAMESPACE, ACCOUNT)
# A back-off grows with the failures, so this is for a few of them.
SECONDS = 90.0
REPORTED = "reported on "
MOST, TOO_MUCH = {"cpu": "100"}, {"cpu": "200"}
OWN: dict[str, dict[str, object]] = {
    MEMCACHED.id: {"size": 2, "binding": "ConfigMap"},
    PULSAR_CONSUMER.id: {"adminURL": "http://nobody.invalid:8080", "deletionPolicy": "Unsubscribe"},
    POSTGRESQL.id: {"deletionProtection": True},
    POSTGRESQL_EXAMPLE.id: {"deletionProtection": True},
}
REFUSAL = "maximum cpu usage per Container is 100"
ENVIRONMENT = {"RES_OPTIONS": "timeout:1 attempts:1"}
# For every run: one without which a child is missing, and one without which a watch is.
TELLING = {
    Right("apps", "statefulsets", "create"),
    Right("", "pods", "watch"),
}
EACH_RIGHT = [
    pytest.param(right, id=str(right), marks=() if right in TELLING else pytest.mark.thorough)
    for right in granted()
    if right not in granted_elsewhere()
]


class Scenario:
    """A resource of each kind in a namespace of its own: `begin`, then `change`; `facts` are what is seen."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = cluster.namespace(namespace)
        self._refs = {
            crd: ref_to(kind, self._namespace, f"n{n}") for n, (crd, kind) in enumerate(KINDS_BY_NAME.items())
        }
        self._budget = Ref(DISRUPTION_BUDGET, self._namespace, self._refs[MEMCACHED.id].name)
        self._servers = Ref(CONFIG_MAP, self._namespace, f"{self._refs[MEMCACHED.id].name}-servers")
        self._service = Ref(SERVICE, self._namespace, self._refs[POSTGRESQL_EXAMPLE.id].name)
        self._config = Ref(CONFIG_MAP, self._namespace, f"{self._refs[POSTGRESQL.id].name}-config")
        # Their specs do not change: so what is set right there is damage, before which they are asked for,
        # and so are the names that are free.
        self._damaged = {
            crd: ref_to(kind, self._namespace, f"d{n}")
            for n, (crd, kind) in enumerate(KINDS_BY_NAME.items())
            if NETWORK_POLICY in kind.children
        }
        # Nor does this one's, of which nothing is lost: its children are edited, and those of a database.
        self._whole = {MEMCACHED.id: ref_to(KINDS_BY_NAME[MEMCACHED.id], self._namespace, "whole")}
        # One whose workload changes there and one whose changes back: that before is deleted.
        self._unnamed = {MEMCACHED.id: ref_to(KINDS_BY_NAME[MEMCACHED.id], self._namespace, "unnamed")}
        self._exchanged = (
            Ref(DEPLOYMENT, self._namespace, self._refs[MEMCACHED.id].name),
            Ref(STATEFUL_SET, self._namespace, "unnamed"),
        )
        # One that asks for more than is allowed, so that its Pod is never made.
        self._missing = {POSTGRESQL.id: ref_to(KINDS_BY_NAME[POSTGRESQL.id], self._namespace, "missing")}
        self._copy = Ref(SECRET, self._namespace, f"{self._refs[BINDING_IMPORT.id].name}-binding")
        self._edited: list[Ref] = []
        self._ready: Callable[[], bool] = lambda: False
        self.changed = False

    def watch(self, process: OperatorProcess) -> None:
        """Whose readiness is one of the facts."""
        self._ready = lambda: process.get("/readyz")[0] == 200

    def begin(self) -> None:
        limits = {"metadata": {"name": "most"}, "spec": {"limits": [{"type": "Container", "max": MOST}]}}
        self._cluster.api.create(f"/api/v1/namespaces/{self._namespace}/limitranges", limits).accepted()
        for crd, ref in self._all():
            own = OWN.get(crd, {})
            if ref in self._missing.values():
                own = {"resources": {"limits": TOO_MUCH}, "progressDeadlineSeconds": 10}
            if ref in self._unnamed.values():
                own = {"workload": "StatefulSet"}
            own = {**own, **self._given(ref)}
            self._cluster.create(KINDS_BY_NAME[crd], self._namespace, ref.name, {**MINIMAL_SPECS[crd], **own})

    def _given(self, ref: Ref) -> dict[str, object]:
        """A database that exports its binding, and the import that gets it."""
        database, wanted = self._refs[POSTGRESQL_EXAMPLE.id], self._refs[BINDING_IMPORT.id]
        if ref == database:
            return {"bindingExports": [{"namespace": self._namespace, "name": wanted.name}]}
        named = {"namespace": self._namespace, "name": database.name, "group": database.type.group}
        return {"databaseRef": named} if ref == wanted else {}

    def change(self) -> None:
        """One named cache where there were two, its list not wanted any more; edited children of each type,
        and some that are gone.
        """
        self.changed = True
        for crd, ref in ((POSTGRESQL_EXAMPLE.id, self._refs[POSTGRESQL_EXAMPLE.id]), *self._whole.items()):
            for child in self._cluster.children(KINDS_BY_NAME[crd], ref.namespace, ref.name):
                if child.type != POD:
                    self._cluster.merge(child, {"metadata": {"labels": {NAME_LABEL: "edited"}}})
                    self._edited.append(child)
        less = {"size": 1, "binding": None, "workload": "StatefulSet"}
        self._cluster.merge(self._refs[MEMCACHED.id], {"spec": less})
        self._cluster.merge(self._unnamed[MEMCACHED.id], {"spec": {"workload": "Deployment"}})
        # There is no such database, so nothing is given any more.
        self._cluster.merge(self._refs[BINDING_IMPORT.id], {"spec": {"databaseRef": {"name": "another"}}})
        if self._cluster.get(self._service) is not None:
            self._cluster.merge(self._service, {"spec": {"selector": {"edited": "yes"}}})
        if self._cluster.get(self._config) is not None:
            self._cluster.delete(self._config)
        for crd, ref in self._damaged.items():
            for child in self._cluster.children(KINDS_BY_NAME[crd], ref.namespace, ref.name):
                if child.type in (NETWORK_POLICY, DISRUPTION_BUDGET, DEPLOYMENT):
                    self._cluster.delete(child)

    def facts(self) -> set[str]:
        found = {"it is ready"} if self._ready() else set()
        lease = self._cluster.get(LEADER)
        if lease is not None and lease["spec"].get("holderIdentity"):
            found.add("the lease is held")
        for crd, ref in self._all():
            resource = self._cluster.get(ref) or {}
            status = resource.get("status") or {}
            if status.get("observedGeneration") == resource["metadata"]["generation"]:
                found.add(f"{ref} is {self._cluster.ready(ref).get('reason')}")
            found |= {
                f"{child} is there"
                for child in self._cluster.children(KINDS_BY_NAME[crd], ref.namespace, ref.name)
            }
        for ref in self._missing.values():
            if REFUSAL in self._cluster.ready(ref).get("message", ""):
                found.add(f"{ref} says why")
        for child in (self._budget, self._servers, self._copy, *self._exchanged):
            if self.changed and self._cluster.get(child) is None:
                found.add(f"{child} is gone")
        selector = ((self._cluster.get(self._service) or {}).get("spec") or {}).get("selector") or {}
        if selector and "edited" not in selector:
            found.add(f"{self._service} is as it was made")
        for child in self._edited:
            labels = (self._cluster.get(child) or {}).get("metadata", {}).get("labels", {})
            if labels.get(NAME_LABEL, "edited") != "edited":
                found.add(f"{child} is labelled as it was")
        for event in self._cluster.api.get(EVENT.path(namespace=self._namespace)).accepted()["items"]:
            if event["reportingController"] == "kindling.dev/operator":
                found.add(f"{REPORTED}{event['regarding']['name']}: {event['reason']}")
        return {fact.replace(f" {self._namespace}/", " ") for fact in found}

    def wait_settled(self) -> None:
        self._cluster.wait_settled(*(ref for _, ref in self._all()))

    def end(self) -> None:
        """All but the namespace: in one that ends, nothing may be made, and that is refused in like words."""
        for crd, ref in self._all():
            if KINDS_BY_NAME[crd].finalizer:
                self._cluster.merge(ref, {"metadata": {"finalizers": None}})  # no operator runs any more
            self._cluster.delete(ref)

    def _all(self) -> list[tuple[str, Ref]]:
        rest = (self._damaged, self._whole, self._missing, self._unnamed)
        return [*self._refs.items(), *(item for some in rest for item in some.items())]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose Roles may be changed without harm to other tests."""
    with cluster(directory=tmp_path_factory.mktemp("rights")) as running:
        yield running


@dataclass(frozen=True)
class ReferenceRun:
    """What is seen of the scenario with all rights, at its two points of rest, and what it took."""

    begun: set[str]
    changed: set[str]
    requests: list[Request]


@pytest.fixture(scope="module")
def undisturbed(place: Cluster) -> ReferenceRun:
    mark = place.audit.mark()
    scenario = Scenario(place, "undisturbed")
    with operator(place.operator_plane, env=ENVIRONMENT, kept=True) as process:
        scenario.watch(process)
        scenario.begin()
        scenario.wait_settled()
        begun = scenario.facts()
        scenario.change()
        scenario.wait_settled()
        changed = scenario.facts()
    scenario.end()
    return ReferenceRun(begun, changed, place.audit.requests(mark))


def test_every_right_is_used_and_no_other_is_asked_for(undisturbed: ReferenceRun) -> None:
    assert denied(undisturbed.requests) == set()
    taken = used(undisturbed.requests)
    assert {str(right) for right in set(granted()) - granted_elsewhere()} == {
        str(right) for right in taken - granted_elsewhere()
    }


@pytest.mark.parametrize("right", EACH_RIGHT)
def test_without_it_something_fails_and_with_it_all_comes_true(
    place: Cluster, undisturbed: ReferenceRun, right: Right
) -> None:
    scenario = Scenario(place, f"without-{granted().index(right)}")
    if place.get(LEADER) is not None:
        place.delete(LEADER)
    mark = place.audit.mark()

    def refused() -> set[Right]:
        return denied(place.audit.requests(mark))

    with ExitStack() as stack:
        with without(place, right):
            process = stack.enter_context(operator(place.operator_plane, env=ENVIRONMENT))
            scenario.watch(process)
            scenario.begin()
            _wait(lambda: bool(refused()), scenario, undisturbed.begun)
            if not refused():
                scenario.change()
                _wait(lambda: bool(refused()), scenario, undisturbed.changed)
            assert refused() == {right}
            place.audit.wait_quiet()
            whole = undisturbed.changed if scenario.changed else undisturbed.begun
            # What follows may take its time: a lease that cannot be renewed is lost only then.
            wait_until(lambda: not whole <= scenario.facts(), seconds=SECONDS, what=process.log)
            missing = whole - scenario.facts()
            print(f"without {right}: {len(missing)} of {len(undisturbed.changed)} facts missing")
        if process.process.poll() is not None:  # As the kubelet does with one that has ended.
            scenario.watch(stack.enter_context(operator(place.operator_plane, env=ENVIRONMENT)))
        if not scenario.changed:
            _wait(lambda: False, scenario, _kept(undisturbed.begun, right))
            scenario.change()
        _wait(lambda: False, scenario, _kept(undisturbed.changed, right))
        assert refused() == {right}
    scenario.end()


def _kept(facts: set[str], right: Right) -> set[str]:
    """An Event that could not be written is lost: the status says the same."""
    return {fact for fact in facts if right.resource != "events" or not fact.startswith(REPORTED)}


def _wait(over: Callable[[], bool], scenario: Scenario, wanted: set[str]) -> None:
    """Until all that is wanted is seen, or it is over."""
    wait_until(
        lambda: over() or wanted <= scenario.facts(),
        seconds=SECONDS,
        what=lambda: f"missing: {sorted(wanted - scenario.facts())}",
    )

"""Whatever happens in whatever order: at rest nothing is written, and all is as after a fresh start."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kindling.kinds.conditions import find
from kindling.kube.resources import POD, VOLUME_CLAIM, Object, Ref

from tests.model.world import KINDS, World, postgresql

NAMES = st.sampled_from(["a", "b"])
GROUPS = st.sampled_from(KINDS)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "defaultUser": st.sampled_from(["ada", "postgres", 'we"ird', "kindling"]),
        "password": st.sampled_from(["one", "two"]),
        "image": st.sampled_from(["postgres:16", "postgres:17"]),
        "deletionPolicy": st.sampled_from(["Retain", "Delete"]),
        "storage": st.sampled_from([{"size": "1Gi"}, {"size": "2Gi"}, {}]),
        "resources": st.sampled_from([{"limits": {"cpu": 1}}, {"requests": {"memory": "1024Mi"}}, {}]),
    },
)
SEEDS = st.integers(0, 2**32)


class History(RuleBasedStateMachine):
    """Steps leave the world unsettled; the invariant is asked after a full look at everything."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def resources(self) -> list[Ref]:
        types = [kind.type for kind in KINDS]
        return sorted((ref for ref in self.world.api.objects if ref.type in types), key=str)

    def children(self) -> list[Ref]:
        types = [kind.type for kind in KINDS]
        return sorted((ref for ref in self.world.api.objects if ref.type not in types), key=str)

    @rule(kind=GROUPS, name=NAMES, spec=SPECS)
    def set_resource(self, kind: object, name: str, spec: Object) -> None:
        found = next(known for known in KINDS if known is kind)
        self.world.api.put(found.type, postgresql(found, name, **spec))

    @precondition(lambda self: self.resources())
    @rule(data=st.data())
    def delete_resource(self, data: st.DataObject) -> None:
        self.world.api.remove(data.draw(st.sampled_from(self.resources())))

    @precondition(lambda self: self.children())
    @rule(data=st.data())
    def delete_child(self, data: st.DataObject) -> None:
        self.world.api.remove(data.draw(st.sampled_from(self.children())))

    @precondition(lambda self: self.children())
    @rule(data=st.data(), label=st.sampled_from(["kindling.dev/kind", "app.kubernetes.io/name"]))
    def spoil_child(self, data: st.DataObject, label: str) -> None:
        # A volume without an owner and without its label is nobody's, by design: it is left alone.
        spoilable = [ref for ref in self.children() if ref.type not in (VOLUME_CLAIM, POD)]
        if spoilable:
            ref = data.draw(st.sampled_from(spoilable))
            self.world.api.edit(ref, {"metadata": {"labels": {label: "spoilt"}}})

    @rule()
    def pods_run(self) -> None:
        self.world.api.run_pods()

    @rule(seed=SEEDS)
    def events_come_badly(self, seed: int) -> None:
        self.world.deliver(lose=0.3, double=0.3, seed=seed)

    @rule()
    def workers_work(self) -> None:
        self.world.work()

    @rule()
    def operator_restarts(self) -> None:
        self.world.restart()

    @rule()
    def everything_rests(self) -> None:
        world = self.world
        world.settle()
        world.resync()
        world.settle()
        assert world.writes_at_rest() == 0
        for ref in self.resources():
            obj = world.api.objects[ref]
            ready = find(obj["status"], "Ready")
            assert ready["observedGeneration"] == obj["metadata"]["generation"]
            assert ready["reason"] in {"LoginSucceeded", "InvalidSpec", "NameConflict"}, ready
        state = world.api.state()
        world.restart()
        world.settle()
        assert world.api.state() == state

    @invariant()
    def nothing_is_ever_owned_twice(self) -> None:
        for obj in self.world.api.objects.values():
            owners = obj["metadata"].get("ownerReferences") or []
            assert sum(bool(owner.get("controller")) for owner in owners) <= 1

    def teardown(self) -> None:
        self.everything_rests()


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)

"""Whatever happens in whatever order: once quiet, all is as after a fresh start, and nothing is written.

All kinds at once, since they share names, children's names and one store. What is drawn of specs are the
kinds' CRDs and, more often, a few that meet each other.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import re
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from kindling.kinds.base import ExternalResult, Kind
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import MANAGED_BY_LABEL, MANAGER
from kindling.kube.resources import CONFIG_MAP, POD, SECRET, VOLUME_CLAIM, Ref

from tests.model import drift
from tests.model.faults import Fault, Meanwhile
from tests.model.recorded import as_reported, otherwise
from tests.model.scratch import diff_from_fresh, owner
from tests.model.specs import ANSWERS, SPECS, may_follow
from tests.model.workloads import control, run_pods
from tests.model.world import KINDS, KINDS_BY_NAME, World, resource
from tests.unit.schema.drawing import OF_THE_SEED
from tests.unit.schema.statuses import POD_STATUS

CANARY = re.compile("canary|" + base64.b64encode(b"canary").decode().rstrip("="))
NAMES = st.sampled_from(["a", "b"])
ON_THE_WAY = {
    "Reconciling", "Running", "MinimumReplicasUnavailable", "RestartPending", "Terminating", "ApplyRejected",
}  # fmt: skip


class History(RuleBasedStateMachine):
    """Rules leave the world unsettled; what is promised is asked of it once it is quiet."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.read = 0
        self.born = 0
        self.log: list[str] = []
        self._handler = logging.Handler()
        self._handler.emit = lambda record: self.log.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("kindling").addHandler(self._handler)

    def resources(self) -> list[Ref]:
        return sorted(
            (ref for ref in self.world.api.objects if ref.type.group_kind in KINDS_BY_NAME), key=str
        )

    def children(self) -> list[Ref]:
        """What the operator made, or what was made of that."""
        return sorted(
            (
                ref
                for ref, obj in self.world.api.objects.items()
                if (obj["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER
            ),
            key=str,
        )

    @rule(kind=st.sampled_from(KINDS), name=NAMES, data=st.data())
    def set_resource(self, kind: Kind, name: str, data: st.DataObject) -> None:
        spec = data.draw(SPECS[kind.type.group_kind], "spec")
        known = self.world.api.objects.get(Ref(kind.type, "ns", name))
        self.world.api.put(kind.type, resource(kind, name, **may_follow(spec, known)))

    @precondition(lambda self: self.resources())
    @rule(data=st.data(), collect=st.booleans())
    def delete_resource(self, data: st.DataObject, collect: bool) -> None:
        self.world.api.remove(data.draw(st.sampled_from(self.resources()), "resource"), collect=collect)

    @precondition(lambda self: self.children())
    @rule(data=st.data())
    def delete_child(self, data: st.DataObject) -> None:
        self.world.api.remove(data.draw(st.sampled_from(self.children()), "child"))

    @precondition(lambda self: self.children())
    @rule(data=st.data())
    def edit_child(self, data: st.DataObject) -> None:
        """Take a field that was applied away, or give it another value; the server may refuse that."""
        ref = data.draw(st.sampled_from(self.children()), "child")
        paths = drift.fields(self.world.api, ref)
        if paths:
            path = data.draw(st.sampled_from(paths), "field")
            drift.edit(self.world.api, ref, path, gone=data.draw(st.booleans(), "gone"))

    @precondition(lambda self: self.children())
    @rule(data=st.data())
    def add_to_child(self, data: st.DataObject) -> None:
        """What nobody asked us to undo."""
        ref = data.draw(st.sampled_from(self.children()), "child")
        self.world.api.edit(ref, {"metadata": {"labels": {"somebody": "else"}}})

    @rule(content=st.sampled_from(["canary-a", "canary-b", "", None]))
    def users_secret(self, content: str | None) -> None:
        ref = Ref(SECRET, "ns", "ours")
        if content is not None:
            data = dict.fromkeys(("password", "token"), base64.b64encode(content.encode()).decode())
            self.world.api.put(SECRET, {"metadata": {"namespace": "ns", "name": "ours"}, "data": data})
        elif ref in self.world.api.objects:
            self.world.api.remove(ref)

    @rule(content=st.sampled_from(["def handle(message): ...", "syntax error", None]))
    def users_code(self, content: str | None) -> None:
        ref = Ref(CONFIG_MAP, "ns", "code")
        if content is not None:
            body = {"metadata": {"namespace": "ns", "name": "code"}, "data": {"orders.py": content}}
            self.world.api.put(CONFIG_MAP, body)
        elif ref in self.world.api.objects:
            self.world.api.remove(ref)

    @rule(name=st.sampled_from(["friend", "a-0"]))
    def friend_comes_or_goes(self, name: str) -> None:
        ref = Ref(POD, "far", name)
        if ref in self.world.api.objects:
            self.world.api.remove(ref)
        else:
            self.world.api.put(POD, {"metadata": {"namespace": "far", "name": name}})

    @rule(ready=st.booleans())
    def pods_come(self, ready: bool) -> None:
        (run_pods if ready else control)(self.world.api)

    @rule(data=st.data())
    def pod_suffers(self, data: st.DataObject) -> None:
        pods = [ref for ref in self.children() if ref.type == POD]
        if pods:
            pod, status = data.draw(st.sampled_from(pods), "pod"), data.draw(POD_STATUS, "status")
            self.world.api.set_status(pod, status)

    @rule(answer=ANSWERS)
    def server_says(self, answer: ExternalResult) -> None:
        self.world.answer = answer

    @rule(fates=st.lists(st.none() | st.sampled_from(Fault), min_size=1, max_size=12), reads=st.booleans())
    def requests_fail(self, fates: list[Fault | None], reads: bool) -> None:
        (self.world.faulty.reads if reads else self.world.faulty.writes).extend(fates)

    @rule(after=st.integers(0, 8), data=st.data())
    def another_writer_during_a_reconciliation(self, after: int, data: st.DataObject) -> None:
        """Another writer changes something just before one of the next writes."""
        what = data.draw(st.sampled_from(["events", "child gone", "resource gone", "edited"]), "what")
        ours = data.draw(st.randoms(use_true_random=False))
        self.world.faulty.writes.extend([None] * after)
        self.world.faulty.writes.append(self._interference(what, ours))

    @rule(dice=st.randoms(use_true_random=False))
    def events_come_badly(self, dice: random.Random) -> None:
        self.world.deliver_badly(dice)

    @rule()
    def workers_work(self) -> None:
        self.world.work()

    @rule()
    def operator_restarts(self) -> None:
        self.world.restart()

    @rule()
    def resync(self) -> None:
        self.world.resync()

    @rule(kind=st.sampled_from(KINDS), data=st.data())
    def new_resource_in_quiet(self, kind: Kind, data: st.DataObject) -> None:
        """Beside all the others, it costs its children, two writes of its status, and what must last.

        That is a finalizer, and each decision when it is taken and when it is carried out; and a third status
        where a list is served, because what serves it starts once there is one.
        """
        self._rest()
        self.born += 1
        world, before = self.world, self.world.api.writes.total()
        ref = Ref(kind.type, "ns", f"new-{self.born}")
        spec = data.draw(SPECS[kind.type.group_kind], "spec")
        world.api.put(kind.type, resource(kind, ref.name, **spec))
        world.settle()
        written = world.api.writes.total() - before
        own = [child for child in self.children() if child.type != POD and owner(world, child) == ref]
        lasting = bool(kind.finalizer) + 2 * len(kind.durable) + (spec.get("discovery") is True)
        assert written <= len(own) + 2 + lasting, f"{written} writes for {own}"
        world.api.remove(ref)

    @rule()
    def all_is_quiet(self) -> None:
        self._rest()
        assert self.world.writes_at_rest() == 0
        self._check_claims()
        self._check_owners()
        state = self.world.api.state()
        self.world.restart()
        self.world.settle()
        assert self.world.api.state() == state
        assert list(diff_from_fresh(self.world)) == []

    @invariant()
    def secrets_are_in_secrets_alone(self) -> None:
        world = self.world
        said: list[Any] = [*self.log, *world.status_changes, repr(world.logins)]
        for _, type, obj in world.api.events[self.read :]:
            said.append(
                {k: v for k, v in obj.items() if not (type.group_kind in KINDS_BY_NAME and k == "spec")}
            )
            if type == SECRET:
                said[-1] = obj["metadata"]
        self.read = len(world.api.events)
        self.log.clear()
        found = CANARY.search(json.dumps(said))
        assert found is None, said

    @invariant()
    def nobody_speaks_of_what_is_not_yet(self) -> None:
        for ref in self.resources():
            obj = self.world.api.objects[ref]
            status = obj.get("status") or {}
            generations = {item["observedGeneration"] for item in status.get("conditions") or ()}
            assert generations <= {status.get("observedGeneration")}
            assert (status.get("observedGeneration") or 0) <= obj["metadata"]["generation"]

    def teardown(self) -> None:
        try:
            self.all_is_quiet()
            self.secrets_are_in_secrets_alone()
            self.decisions_come_out_again()
        finally:
            logging.getLogger("kindling").removeHandler(self._handler)

    def decisions_come_out_again(self) -> None:
        """Each that was recorded, from its record alone, which has no secret in it, nor a user's variable."""
        for key in self.world.recorder.resources():
            record = as_reported(self.world, key)
            found = re.search(f"{CANARY.pattern}|hush", json.dumps(record))
            assert found is None, json.dumps(record)[max(0, found.start() - 500) : found.end() + 100]
            assert otherwise(record) == []

    def _rest(self) -> None:
        """No more faults; a resync, if the watches have kept anything back."""
        world = self.world
        world.faulty.reads.clear()
        world.faulty.writes.clear()
        world.answer = ExternalResult(ok=True)
        world.api.collect()
        if world.lost:
            world.deliver()
            world.resync()
        world.settle()
        world.api.collect()
        world.settle()
        world.wait_long()

    def _check_claims(self) -> None:
        for ref in self.resources():
            obj = self.world.api.objects[ref]
            ready = find_condition(obj["status"], "Ready")
            assert ready["observedGeneration"] == obj["metadata"]["generation"]
            assert ready["reason"] not in ON_THE_WAY, f"{ref}: {ready}"

    def _check_owners(self) -> None:
        uids = {obj["metadata"]["uid"] for obj in self.world.api.objects.values()}
        for ref in self.children():
            owners = self.world.api.objects[ref]["metadata"].get("ownerReferences") or ()
            assert {item["uid"] for item in owners} & uids or ref.type == VOLUME_CLAIM, f"{ref} is left over"

    def _interference(self, what: str, dice: random.Random) -> Meanwhile:
        def happen() -> None:
            self.world.interfered = True
            if what == "events":
                self.world.deliver()
            elif what == "child gone" and (children := self.children()):
                self.world.api.remove(dice.choice(children))
            elif what == "resource gone" and (resources := self.resources()):
                self.world.api.remove(dice.choice(resources), collect=dice.random() < 0.5)
            elif what == "edited" and (children := self.children()):
                ref = dice.choice(children)
                if paths := drift.fields(self.world.api, ref):
                    drift.edit(self.world.api, ref, dice.choice(paths), gone=dice.random() < 0.5)

        return happen


def test_any_history(thorough: bool) -> None:
    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=3000 if thorough else 100,
            stateful_step_count=50 if thorough else 30,
            derandomize=not thorough,
            backend="hypothesis" if thorough else OF_THE_SEED,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )

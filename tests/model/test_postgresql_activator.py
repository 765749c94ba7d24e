"""A server that nobody used starts for the next connection, and its Service leads to who takes that."""

from __future__ import annotations

import pytest
from kindling.engine.store import key_of
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kube.resources import DEPLOYMENT, NETWORK_POLICY, POD, SERVICE, STATEFUL_SET, Object, Ref

from tests.model.backup_world import EACH_FAULT
from tests.model.faults import Fault
from tests.model.idle_world import CR, DB_POD, KIND, pass_time, phase, record, wake, with_database
from tests.model.world import World

DEPLOYED = Ref(DEPLOYMENT, "ns", "db-activator")
ADDRESS = Ref(SERVICE, "ns", "db")
MADE = (DEPLOYED, Ref(SERVICE, "ns", "db-server"), Ref(NETWORK_POLICY, "ns", "db-activator"))
ACTIVATOR = "app.kubernetes.io/component"


def asleep() -> World:
    world, server = with_database(hibernateAfter="5m", wakeOnConnection=True)
    pass_time(world, minutes=6)
    assert DB_POD not in world.api.objects
    server.used = world.now  # as it is, once it lets them in
    return world


def connect(world: World) -> None:
    """Somebody connects, and waits for the server."""
    world.api.called.add(DEPLOYED.name)
    world.settle()


def let_in(world: World) -> None:
    """The server has taken all that waited."""
    world.api.called.clear()
    world.settle()


def leads_to_activator(world: World) -> bool:
    spec = world.api.objects[ADDRESS]["spec"]
    assert spec["publishNotReadyAddresses"] is (ACTIVATOR in spec["selector"])
    return ACTIVATOR in spec["selector"]


def selected(world: World, service: Ref) -> list[str]:
    """The Pods that a Service leads to."""
    selector = world.api.objects[service]["spec"]["selector"].items()
    return [
        ref.name
        for ref, obj in world.api.objects.items()
        if ref.type == POD and selector <= obj["metadata"]["labels"].items()
    ]


def said(world: World) -> str:
    found: str = find_condition(world.status(KIND, "db"), "Ready")["message"]
    return found


def test_a_connection_starts_the_server_and_then_the_service_leads_to_it() -> None:
    world, server = with_database(hibernateAfter="5m", wakeOnConnection=True)
    assert not leads_to_activator(world)
    assert selected(world, ADDRESS) == ["db-0"] == selected(world, MADE[1])
    pass_time(world, minutes=6)
    assert phase(world) == "hibernated"
    assert leads_to_activator(world)
    (taking,) = selected(world, ADDRESS)
    assert taking.startswith("db-activator-")
    assert selected(world, MADE[1]) == []
    assert "The next connection starts it, or `kubectl annotate" in said(world)
    assert world.writes_at_rest() == 0
    world.restart()
    world.settle()
    assert phase(world) == "hibernated"

    world.api.called.add(DEPLOYED.name)
    world.deliver()
    world.settle()
    assert DB_POD in world.api.objects
    assert not leads_to_activator(world), "its Pod is ready"
    world.repeat_probes()
    world.settle()
    assert phase(world) == "up"
    assert record(world) == {}
    assert world.writes_at_rest() == 0
    server.used = world.now
    let_in(world)
    pass_time(world, minutes=4)
    assert phase(world) == "up"
    pass_time(world, minutes=2)
    assert phase(world) == "hibernated"


@pytest.mark.parametrize(("field", "value"), [("paused", True), ("mode", "Plan")])
def test_nobody_wakes_what_is_only_observed_and_that_is_said(field: str, value: object) -> None:
    world = asleep()
    world.api.edit(CR, {"spec": {field: value}})
    connect(world)
    pass_time(world, minutes=1)
    assert DB_POD not in world.api.objects
    assert f" Nothing does while spec.{field} keeps it as it is: set spec.{field} to " in said(world)
    world.api.edit(CR, {"spec": {field: None}})
    world.settle()
    assert DB_POD in world.api.objects, "the connection waits still"


def test_until_the_server_is_ready_others_wait_with_the_first() -> None:
    world = asleep()
    world.api.called.add(DEPLOYED.name)
    world.api.starting.add("db-0")
    world.settle()
    assert "wakingSince" in record(world)
    assert "stoppedAt" not in record(world)
    assert leads_to_activator(world)
    world.restart()
    pass_time(world, minutes=1)
    assert leads_to_activator(world)
    assert world.writes_at_rest() == 0
    world.api.starting.clear()
    world.settle()
    assert not leads_to_activator(world)
    assert record(world) == {}


def test_the_annotation_wakes_it_as_well() -> None:
    world = asleep()
    wake(world, "now")
    assert record(world) == {"wake": "now"}
    assert not leads_to_activator(world)
    assert phase(world) == "up"


@pytest.mark.parametrize(
    "spec",
    [{"hibernate": True}, {"hibernateWindow": {"schedule": "* * * * *", "duration": "1h"}}],
    ids=["hibernate", "window"],
)
def test_nobody_wakes_what_is_stopped_for_another_reason(spec: Object) -> None:
    world = asleep()
    world.api.edit(CR, {"spec": spec})
    world.settle()
    assert not leads_to_activator(world), "a client is refused at once"
    connect(world)
    pass_time(world, minutes=2)
    assert DB_POD not in world.api.objects
    assert "next connection" not in said(world)


def test_a_pod_that_starts_or_whose_node_is_away_calls_nobody() -> None:
    world = asleep()
    (name,) = selected(world, ADDRESS)
    pod, status = Ref(POD, "ns", name), world.api.objects[Ref(POD, "ns", name)]["status"]
    starting = {**status["containerStatuses"][0], "ready": False}
    since = starting["state"]["running"]["startedAt"]
    for containers, conditions in (
        ([starting], [("Ready", "False", since), ("ContainersReady", "False", since)]),
        (
            status["containerStatuses"],
            [("Ready", "False", rfc3339(world.now)), ("ContainersReady", "True", since)],
        ),
        ([{**starting, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], []),
    ):
        shown = [{"type": type, "status": value, "lastTransitionTime": at} for type, value, at in conditions]
        world.api.set_status(pod, {**status, "containerStatuses": containers, "conditions": shown})
        world.settle(pods=False)
        assert world.api.objects[Ref(STATEFUL_SET, "ns", "db")]["spec"]["replicas"] == 0
        assert "stoppedAt" in record(world)
    assert "No connection starts it now, because Deployment db-activator has no Pod that is ready; " in said(
        world
    )


def test_a_connection_while_the_server_goes_starts_it_again() -> None:
    world, server = with_database(hibernateAfter="5m", wakeOnConnection=True)
    pass_time(world, minutes=4, seconds=50)
    connect(world)
    server.used = world.now
    pass_time(world, seconds=20)
    assert DB_POD in world.api.objects
    assert not leads_to_activator(world)
    assert "stoppedAt" not in record(world)


def test_without_the_field_what_was_made_for_it_has_no_pod_and_needs_no_right_to_go() -> None:
    world, _ = with_database(hibernateAfter="5m")
    assert not any(ref in world.api.objects for ref in MADE)
    assert "publishNotReadyAddresses" not in world.api.objects[ADDRESS]["spec"]
    world.api.edit(CR, {"spec": {"wakeOnConnection": True}})
    world.settle()
    pass_time(world, minutes=6)
    assert leads_to_activator(world)
    world.api.edit(CR, {"spec": {"wakeOnConnection": None}})
    world.settle()
    assert phase(world) == "hibernated", "as it was"
    assert selected(world, ADDRESS) == []
    assert all(ref in world.api.objects for ref in MADE)
    assert world.api.objects[DEPLOYED]["spec"]["replicas"] == 0
    assert world.writes_at_rest() == 0
    wake(world, "now")
    assert phase(world) == "up"


@EACH_FAULT
def test_a_write_that_fails_changes_nothing_of_the_end(fault: Fault) -> None:
    for number in range(5):
        world = asleep()
        world.faulty.writes.extend([*[None] * number, fault])
        connect(world)
        world.queue.add(key_of(CR))
        world.settle()
        world.repeat_probes()
        world.queue.add(key_of(CR))
        world.settle()
        assert DB_POD in world.api.objects, number
        assert not leads_to_activator(world), number
        assert record(world) == {}, number


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"wakeOnConnection": True},
            "spec.wakeOnConnection has nothing to wake without spec.hibernateAfter: set that too, or",
        ),
        (
            {
                "wakeOnConnection": True,
                "hibernateAfter": "5m",
                "hba": ["host all all all reject", "host db reporting 10.0.0.0/8 reject"],
            },
            "spec.wakeOnConnection cannot be used with spec.hba[1] 'host db reporting 10.0.0.0/8 reject'",
        ),
    ],
)
def test_what_cannot_be_is_refused(spec: Object, message: str) -> None:
    world, _ = with_database()
    world.api.edit(CR, {"spec": spec})
    world.settle()
    assert said(world).startswith(message)


def test_its_pod_reaches_the_server_alone_and_is_reached_as_the_server_is() -> None:
    world, _ = with_database(hibernateAfter="5m", wakeOnConnection=True, allowedFrom=[{"podSelector": {}}])
    policy, server = (world.api.objects[ref]["spec"] for ref in (MADE[2], Ref(NETWORK_POLICY, "ns", "db")))
    assert policy["ingress"] == server["ingress"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    to, names = policy["egress"]
    assert to["to"] == [{"podSelector": server["podSelector"]}]
    assert to["ports"] == [{"port": 5432, "protocol": "TCP"}]
    assert {item["port"] for item in names["ports"]} == {53}
    (name,) = (
        ref.name for ref in world.api.objects if ref.type == POD and ref.name.startswith("db-activator")
    )
    labels = world.api.objects[Ref(POD, "ns", name)]["metadata"]["labels"].items()
    assert policy["podSelector"]["matchLabels"].items() <= labels
    assert not server["podSelector"]["matchLabels"].items() <= labels

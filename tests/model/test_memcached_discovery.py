"""`spec.discovery`: what gives the list is there from the first list on, and goes where nobody asks."""

from __future__ import annotations

import random

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import CONFIG_MAP, DEPLOYMENT, NETWORK_POLICY, POD, SERVICE, Object, Ref

from tests.model.faults import Fault
from tests.model.test_memcached_lists import CR, KIND, SERVERS, go_on, made
from tests.model.world import World

DEPLOYED, ADDRESS = Ref(DEPLOYMENT, "ns", "m-discovery"), Ref(SERVICE, "ns", "m-discovery")
POLICY, CACHES = Ref(NETWORK_POLICY, "ns", "m-discovery"), Ref(SERVICE, "ns", "m")
ENDPOINT = "m-discovery.ns.svc:11211"


def ready(world: World) -> Object:
    return find_condition(world.status(KIND, "m"), "Ready")


def selected(world: World, selector: Object) -> list[str]:
    """The Pods with these labels."""
    return sorted(
        ref.name
        for ref, obj in world.api.objects.items()
        if ref.type == POD and selector.items() <= obj["metadata"]["labels"].items()
    )


def test_the_list_is_served_and_its_pod_is_no_cache() -> None:
    world = made(discovery=True, size=2)
    status = world.status(KIND, "m")
    assert ready(world)["status"] == "True"
    assert status["discovery"] == {"endpoint": ENDPOINT}
    assert world.api.objects[SERVERS]["data"]["discovery"] == ENDPOINT
    (pod,) = selected(world, world.api.objects[ADDRESS]["spec"]["selector"])
    assert pod.startswith("m-discovery-")
    assert selected(world, world.api.objects[POLICY]["spec"]["podSelector"]["matchLabels"]) == [pod]
    assert pod not in selected(world, world.api.objects[CACHES]["spec"]["selector"])
    assert len(status["serverList"]) == status["replicas"] == 2
    assert world.writes_at_rest() == 0


def test_it_reaches_the_caches_and_the_names_alone() -> None:
    world = made(discovery=True, containerPort=4000)
    spec = world.api.objects[POLICY]["spec"]
    caches, names = spec["egress"]
    (peer,) = caches["to"]
    assert selected(world, peer["podSelector"]["matchLabels"]) == selected(
        world, world.api.objects[CACHES]["spec"]["selector"]
    )
    assert caches["ports"] == [{"port": 4000, "protocol": "TCP"}]
    assert {port["port"] for port in names["ports"]} == {53}
    assert spec["ingress"] == world.api.objects[Ref(NETWORK_POLICY, "ns", "m")]["spec"]["ingress"]


def test_a_list_comes_first() -> None:
    """A Pod that mounts a ConfigMap which is not there is retried later and later."""
    world = World()
    world.api.put(KIND.type, {"metadata": {"namespace": "ns", "name": "m"}, "spec": {"discovery": True}})
    world.settle(pods=False)
    assert ADDRESS in world.api.objects
    assert DEPLOYED not in world.api.objects
    world.settle()
    assert DEPLOYED in world.api.objects


def test_ready_waits_for_it_and_names_it() -> None:
    world = made(discovery=True)
    (pod,) = selected(world, world.api.objects[ADDRESS]["spec"]["selector"])
    world.api.set_status(DEPLOYED, {"availableReplicas": 0})
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    world.api.set_status(
        Ref(POD, "ns", pod),
        {"conditions": [], "containerStatuses": [{"name": "discovery", "state": {"waiting": waiting}}]},
    )
    world.settle(pods=False)
    status = world.status(KIND, "m")
    assert ready(world)["status"] == "False"
    assert ready(world)["reason"] == "ImagePullFailed"
    assert pod in ready(world)["message"]
    assert find_condition(status, "Available")["status"] == "True", "the caches serve"
    assert "discovery" not in status


def test_while_it_starts_the_message_leads_to_its_pods() -> None:
    world = made(discovery=True)
    (pod,) = selected(world, world.api.objects[ADDRESS]["spec"]["selector"])
    world.api.set_status(DEPLOYED, {"availableReplicas": 0})
    world.settle(pods=False)
    message = ready(world)["message"]
    assert message.startswith("Deployment m-discovery, which gives the list, does not answer yet. ")
    labels = message.partition("-l ")[2].partition("`")[0]
    assert selected(world, dict(word.split("=") for word in labels.split(","))) == [pod]


def test_who_no_longer_asks_has_no_pod_of_it() -> None:
    world = made(discovery=True)
    world.api.edit(CR, {"spec": {"discovery": None}})
    world.settle()
    assert DEPLOYED not in world.api.objects
    assert SERVERS not in world.api.objects
    assert {ADDRESS, POLICY} <= set(world.api.objects), "there is no right to delete them"
    assert "discovery" not in world.status(KIND, "m")
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0
    world.api.edit(CR, {"spec": {"binding": "ConfigMap"}})
    world.settle()
    assert "discovery" not in world.api.objects[SERVERS]["data"]


@pytest.mark.parametrize("field", ["tls", "auth"])
def test_not_with_tls_or_a_login(field: str) -> None:
    world = made(discovery=True, **{field: {"enabled": True}})
    assert ready(world)["reason"] == "InvalidSpec"
    assert f"spec.discovery cannot be used with spec.{field}" in ready(world)["message"]
    world.api.edit(CR, {"spec": {"discovery": False}})
    world.settle()
    assert ready(world)["reason"] != "InvalidSpec"


@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_lost_it_ends_as_it_is_asked(seed: int) -> None:
    dice, world = random.Random(seed), made(discovery=True, size=2)
    asked = True
    for _ in range(8):
        act = dice.randrange(4)
        if act == 0:
            asked = dice.random() < 0.5
            world.api.edit(CR, {"spec": {"discovery": asked}})
        elif act == 1:
            world.api.edit(CR, {"spec": {"size": dice.randrange(1, 4)}})
        elif act == 2:
            world.faulty.writes.append(dice.choice([Fault.CONFLICT, Fault.LOST, Fault.CRASH_AFTER]))
        else:
            world.restart()
        go_on(world, dice)
    world.resync()
    world.wait_long()
    assert (DEPLOYED in world.api.objects) == asked
    assert (Ref(CONFIG_MAP, "ns", "m-servers") in world.api.objects) == asked
    assert world.status(KIND, "m").get("discovery") == ({"endpoint": ENDPOINT} if asked else None)
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0

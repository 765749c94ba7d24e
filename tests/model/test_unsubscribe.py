"""What a deleted PulsarConsumer does before it goes, with `deletionPolicy: Unsubscribe`."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import ExternalResult, Observed
from kindling.kinds.conditions import find_condition
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.kube.errors import Rejected
from kindling.kube.resources import NETWORK_POLICY, POD, Object, Ref

from tests.model import consumer_world
from tests.model.backup_world import EACH_FAULT
from tests.model.consumer_world import CONSUMER, KIND, WORKLOAD, AdminApi
from tests.model.faults import Fault
from tests.model.world import World


class Broker(AdminApi):
    """Has a subscription while it was consumed and not deleted."""

    request_type = UnsubscribeRequest

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.deleted: list[tuple[str, str]] = []
        self.pods: list[int] = []

    def done(self, request: UnsubscribeRequest) -> None:
        self.pods.append(len(pods(self.world)))
        self.deleted.append((request.topic, request.subscription))


def pods(world: World) -> list[Ref]:
    return [ref for ref in world.api.objects if ref.type == POD]


def made(**spec: Any) -> tuple[World, Broker]:
    return consumer_world.made(Broker, **{"deletionPolicy": "Unsubscribe", **spec})


def deleted(world: World) -> None:
    world.api.remove(CONSUMER)
    world.settle()
    world.wait_long()


def said(world: World) -> Object:
    return find_condition(world.api.objects[CONSUMER]["status"], "Ready")


def test_the_consumers_stop_then_the_subscription_is_deleted_once() -> None:
    world, broker = made()
    assert len(pods(world)) == 2
    assert world.status(KIND, "c")["subscriptions"] == [{"topic": "t", "subscription": "s"}]
    assert world.api.objects[CONSUMER]["metadata"]["finalizers"] == ["kindling.dev/subscriptions"]
    assert world.writes_at_rest() == 0
    deleted(world)
    assert CONSUMER not in world.api.objects
    assert broker.deleted == [("t", "s")]
    assert broker.pods == [0]


def test_what_is_retained_is_not_recorded_and_stays() -> None:
    world, broker = made(deletionPolicy="Retain")
    assert "finalizers" not in world.api.objects[CONSUMER]["metadata"]
    assert "subscriptions" not in world.status(KIND, "c")
    deleted(world)
    assert CONSUMER not in world.api.objects
    assert broker.deleted == []


def test_a_policy_that_is_taken_back_takes_its_traces_along() -> None:
    world, broker = made()
    world.api.edit(CONSUMER, {"spec": {"deletionPolicy": "Retain"}})
    world.settle()
    assert world.api.objects[CONSUMER]["metadata"]["finalizers"] == []
    assert "subscriptions" not in world.status(KIND, "c")
    deleted(world)
    assert broker.deleted == []


def test_each_subscription_that_it_had_is_deleted_and_no_other() -> None:
    """One that a wrong spec names never had a consumer of this resource."""
    world, broker = made()
    world.api.edit(CONSUMER, {"spec": {"subscriptionName": "second"}})
    world.settle()
    wrong = {"subscriptionName": "another team's", "auth": {"tokenSecretRef": {"name": "none"}}}
    world.api.edit(CONSUMER, {"spec": wrong})
    world.settle()
    assert said(world)["reason"] == "SecretNotFound"
    world.api.remove(CONSUMER)
    world.settle()
    message = said(world)["message"]
    assert message.startswith("Secret 'none' of spec.auth.tokenSecretRef, which is needed to delete the sub")
    world.api.edit(CONSUMER, {"spec": {"auth": None}})
    world.settle()
    assert CONSUMER not in world.api.objects
    assert broker.deleted == [("t", "second"), ("t", "s")]


def test_what_the_broker_refuses_is_said_and_repeated() -> None:
    world, broker = made()
    broker.failing = ExternalResult(ok=False, reason="SubscriptionBusy", message="It has others.")
    deleted(world)
    assert said(world)["reason"] == "SubscriptionBusy"
    assert said(world)["message"] == (
        "It has others. To keep the subscription and let this resource go, set spec.deletionPolicy to Retain."
    )
    assert pods(world) == []
    broker.failing = None
    world.wait_long()
    assert CONSUMER not in world.api.objects
    assert broker.deleted == [("t", "s")]


def test_one_that_is_to_keep_it_after_all_goes_at_once() -> None:
    world, broker = made()
    broker.failing = ExternalResult(ok=False, reason="AdminUnreachable", message="No.")
    deleted(world)
    world.api.edit(CONSUMER, {"spec": {"deletionPolicy": "Retain"}})
    world.settle()
    assert CONSUMER not in world.api.objects
    assert broker.deleted == []


@EACH_FAULT
@pytest.mark.parametrize("far", range(8))
def test_whatever_fails_it_is_deleted_and_never_beside_a_consumer(far: int, fault: Fault) -> None:
    world, broker = made()
    world.faulty.writes.extend([*[None] * far, fault])
    deleted(world)
    world.wait_long()
    assert CONSUMER not in world.api.objects
    assert set(broker.deleted) == {("t", "s")}
    assert set(broker.pods) == {0}


def test_a_consumer_on_its_way_out_is_waited_for() -> None:
    """It is connected until it is gone, and its Deployment does not count it any more."""
    world, broker = made()
    first = pods(world)[0]
    world.api.edit(first, {"metadata": {"finalizers": ["test/slow"]}})
    world.api.remove(CONSUMER)
    world.settle()
    assert "deletionTimestamp" in world.api.objects[first]["metadata"]
    observed = Observed(objects=world.api.objects, now=world.now, entropy=b"")
    counted = {**world.api.objects[WORKLOAD]["status"], "replicas": 0}
    counted["observedGeneration"] = world.api.objects[WORKLOAD]["metadata"]["generation"]
    world.api.objects[WORKLOAD]["status"] = counted
    assert KIND.finish(world.api.objects[CONSUMER], observed).actions == []
    assert broker.deleted == []
    assert said(world)["reason"] == "Unsubscribing"
    world.api.edit(first, {"metadata": {"finalizers": []}})
    world.settle()
    world.wait_long()
    assert broker.deleted == [("t", "s")]
    assert CONSUMER not in world.api.objects


def test_in_a_namespace_that_is_deleted_it_goes_too() -> None:
    """Its children go at any time there, and cannot be made again, so the subscription may stay."""
    world, broker = made()
    broker.failing = ExternalResult(ok=False, reason="AdminUnreachable", message="No.")

    def refuse() -> None:
        message = "forbidden: unable to create new content in namespace ns because it is being terminated"
        raise Rejected(status=403, reason="Forbidden", message=message)

    world.faulty.refuse_new = refuse
    deleted(world)
    assert CONSUMER in world.api.objects
    world.api.remove(Ref(NETWORK_POLICY, "ns", "c-deployment"))
    world.settle()
    world.wait_long()
    assert CONSUMER not in world.api.objects

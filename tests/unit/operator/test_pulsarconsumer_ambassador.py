"""Which addresses are the Pod itself, and what listens there when there is a local broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from kindling.kinds.pulsarconsumer import PulsarConsumer
from kindling.kinds.pulsarconsumer.ambassador import containers, loopbacks
from kindling.kube.resources import Object

from tests.unit.operator.pulsarconsumers import ADDRESSES, BROKER, IMAGE, KIND, LOCAL, consumer, observed


def listening(server: str, *, local_broker: str = BROKER) -> list[str]:
    made = containers(server, local_broker=local_broker, image=IMAGE)
    return [container["command"][1] for container in made]


@pytest.mark.parametrize(
    ("server", "at"),
    [
        ("pulsar://localhost:6650", ["TCP4-LISTEN:6650,bind=127.0.0.1,fork,reuseaddr"]),
        ("pulsar://LocalHost.:6650/", ["TCP4-LISTEN:6650,bind=127.0.0.1,fork,reuseaddr"]),
        ("pulsar://localhost", ["TCP4-LISTEN:6650,bind=127.0.0.1,fork,reuseaddr"]),
        ("pulsar://127.0.0.1:16650", ["TCP4-LISTEN:16650,bind=127.0.0.1,fork,reuseaddr"]),
        ("pulsar://127.1.2.3:6650", ["TCP4-LISTEN:6650,bind=127.1.2.3,fork,reuseaddr"]),
        ("pulsar://[::1]:6650", ["TCP6-LISTEN:6650,bind=[::1],fork,reuseaddr"]),
        ("pulsar://[::1]", ["TCP6-LISTEN:6650,bind=[::1],fork,reuseaddr"]),
        ("pulsar://broker:6650,localhost:6651", ["TCP4-LISTEN:6651,bind=127.0.0.1,fork,reuseaddr"]),
        ("pulsar://localhost:6650,127.0.0.1:6650", ["TCP4-LISTEN:6650,bind=127.0.0.1,fork,reuseaddr"]),
        ("pulsar+ssl://localhost:6651", []),
        ("pulsar://broker:6650", []),
        ("pulsar://localhost.example.com:6650", []),
        ("pulsar://10.0.0.1:6650", []),
        ("pulsar://[fe80::1]:6650", []),
        ("", []),
    ],
)
def test_listens_where_the_spec_says_localhost(server: str, at: list[str]) -> None:
    assert listening(server) == at
    assert listening(server, local_broker="") == []


def test_leads_to_the_local_broker_as_a_sidecar_of_our_own_image() -> None:
    pod = pod_of(LOCAL, serverAddress="pulsar://localhost:6650,localhost:6651", image="mine:1")
    first, second = pod["initContainers"]
    assert (first["name"], second["name"]) == ("local-broker", "local-broker-2")
    for sidecar in (first, second):
        assert sidecar["command"][0] == "socat"
        assert sidecar["command"][-1] == f"TCP:{BROKER}"
        assert sidecar["image"] == IMAGE
        assert sidecar["restartPolicy"] == "Always"


def test_consumers_are_the_same_with_and_without_it() -> None:
    server = "pulsar://localhost:6650"
    with_one, without = pod_of(LOCAL, serverAddress=server), pod_of(KIND, serverAddress=server)
    assert with_one["containers"] == without["containers"]
    assert without["initContainers"] == []
    assert pod_of(LOCAL) == pod_of(KIND)


@given(ADDRESSES)
def test_total_and_no_two_listen_at_one_place(server: str) -> None:
    found = loopbacks(server)
    assert len(set(found)) == len(found)
    assert all(1 <= listen.port <= 65535 for listen in found)
    assert bool(found) == any(word in server.lower() for word in ("localhost", "127.", "::1"))


def pod_of(kind: PulsarConsumer, **spec: Any) -> Object:
    found: Object = kind.desired(consumer(**spec), observed())[1].body["spec"]["template"]["spec"]
    return found

"""What spec.metrics adds to the consumers' children, and that without it nothing is added."""

from __future__ import annotations

import pytest
from kindling.kinds.base import Child
from kindling.kube.resources import DEPLOYMENT, NETWORK_POLICY, Object

from tests.unit.operator.pulsarconsumers import KIND, consumer, observed

ENABLED: Object = {"enabled": True}


def child(type: object, cr: Object) -> Child:
    (found,) = (each for each in KIND.desired(cr, observed()) if each.type == type)
    return found


def container(cr: Object) -> Object:
    (found,) = child(DEPLOYMENT, cr).body["spec"]["template"]["spec"]["containers"]
    return dict(found)


def ingress(cr: Object) -> list[Object]:
    rules: list[Object] = child(NETWORK_POLICY, cr).body["spec"]["ingress"]
    return rules


@pytest.mark.parametrize("off", [None, {}, {"enabled": False}])
def test_without_it_the_children_are_as_they_were(off: Object | None) -> None:
    """Or every consumer would be replaced by an upgrade."""
    assert KIND.desired(consumer(metrics=off), observed()) == KIND.desired(consumer(), observed())


def test_a_variable_has_the_port_and_the_pod_has_it_by_that_name() -> None:
    plain, with_it = container(consumer()), container(consumer(metrics=ENABLED))
    added = [item for item in with_it["env"] if item not in plain["env"]]
    assert added == [{"name": "PULSAR_METRICS_PORT", "value": "9151"}]
    assert with_it["ports"] == [
        *plain["ports"],
        {"name": "metrics", "containerPort": 9151, "protocol": "TCP"},
    ]


def test_the_network_lets_the_whole_cluster_to_the_metrics_and_to_nothing_else() -> None:
    plain = ingress(consumer())
    *before, opened = ingress(consumer(metrics=ENABLED))
    assert before == plain
    assert opened == {
        "from": [{"namespaceSelector": {}}],
        "ports": [{"port": "metrics", "protocol": "TCP"}],
    }

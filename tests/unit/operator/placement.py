"""A podTemplate and a serviceTemplate with all fields, and the workloads of one; for several tiers."""

from __future__ import annotations

from typing import Any

from kindling.kinds.base import Child
from kindling.kinds.memcached import Memcached
from kindling.kinds.postgresql import Postgresql
from kindling.kinds.pulsarconsumer import PulsarConsumer
from kindling.kube.resources import DEPLOYMENT, STATEFUL_SET, Object

from tests.unit.operator import memcacheds, postgresqls, pulsarconsumers

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
FULL: Object = {
    "metadata": {
        "labels": {"team": "shop", "app.kubernetes.io/part-of": "orders"},
        "annotations": {"example.com/owner": "shop@example.com"},
    },
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 10,
                        "preference": {"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]},
                    }
                ],
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 50,
                        "podAffinityTerm": {
                            "topologyKey": ZONE,
                            "labelSelector": {"matchLabels": {"app": "shop"}},
                            "namespaceSelector": {},
                        },
                    }
                ]
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST}]},
        },
        "tolerations": [
            {"key": "dedicated", "value": "databases", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "priorityClassName": "important",
        "serviceAccountName": "shop",
    },
}
SERVED: Object = {
    "metadata": {
        "labels": {"team": "shop", "app.kubernetes.io/part-of": "orders"},
        "annotations": {"external-dns.alpha.kubernetes.io/hostname": "shop.example.com"},
    },
    "spec": {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "loadBalancerClass": "example.com/internal",
        "loadBalancerSourceRanges": ["203.0.113.0/24", "2001:db8::/32"],
    },
}
"""A serviceTemplate of a Postgresql with all of its fields; a Memcached has its metadata alone."""


def workloads(template: Object | None) -> list[Child]:
    """The Deployment or StatefulSet of each kind with this podTemplate, none where it is None."""
    given: dict[str, Any] = {} if template is None else {"podTemplate": template}
    postgresql = Postgresql(
        group="database.technotuesday.io",
        image="postgres:17",
        init_image="init:1",
        exporters_image="exporters:1",
    )
    memcached, consumer = (
        Memcached(image="memcached:1", exporters_image="exporters:1"),
        PulsarConsumer(image="consumer:1"),
    )
    made = [
        *postgresql.desired(postgresqls.postgresql(**given), postgresqls.observed(postgresqls.running())),
        *memcached.desired(memcacheds.memcached(**given), memcacheds.observed()),
        *consumer.desired(pulsarconsumers.consumer(**given), pulsarconsumers.observed()),
    ]
    return [child for child in made if child.type in (DEPLOYMENT, STATEFUL_SET)]

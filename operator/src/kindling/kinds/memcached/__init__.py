"""Memcached: one to three caches of their own per resource, and a list of where they are.

This file only strings the room together: `spec` reads the resource, `service`, `disruption_budget`
and `workload` each build one child, `observation` reads Pods, `status` tells.
"""

from __future__ import annotations

from kindling.kinds.contract import Child, Findings, Kind, Observed, Report
from kindling.kinds.memcached import disruption_budget, service, spec, status, workload
from kindling.kinds.network import policy
from kindling.kube.resources import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SERVICE,
    Object,
    ResourceType,
)


class Memcached(Kind):
    """`image` is what runs: it has memcached on its PATH, and needs no more."""

    type = ResourceType("cache.example.com", "v1alpha1", "Memcached", "memcacheds")
    children = (NETWORK_POLICY, SERVICE, DISRUPTION_BUDGET, DEPLOYMENT, POD)

    def __init__(self, *, image: str) -> None:
        self._image = image

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr)
        return [
            # By the port's name: while a changed port rolls out, each Pod has its own.
            policy(self.type, cr, name=cr["metadata"]["name"], port=service.PORT_NAME),
            service.build(self.type, cr, wanted),
            # One that stands alone would block every drain of its node, or protect nothing.
            *([disruption_budget.build(self.type, cr)] if wanted.size > 1 else []),
            workload.build(self.type, cr, wanted, image=self._image),
        ]

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        return status.report(self.type, cr, observed, findings)

"""Memcached: one to three caches of their own per resource, and a list of where they are.

This file connects the modules of the package: `spec` reads the resource, `service`, `disruption_budget`,
`workload` and `servers` each build one child, `observation` reads Pods, `stats` asks them, `status` reports;
`kinds.exporter` has what `spec.exporter` adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kindling.kinds import exporter, progress
from kindling.kinds.base import Child, Kind, Observed, Probe, StatusReport, SyncResult
from kindling.kinds.memcached import (
    disruption_budget,
    observation,
    servers,
    service,
    spec,
    stats,
    status,
    workload,
)
from kindling.kinds.network import policy
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SERVICE,
    Object,
    Ref,
    ResourceType,
)


class Memcached(Kind):
    """`image` is what runs: it has memcached on its PATH, and needs no more. `exporters_image` has the
    exporter.

    `operator_namespace` is where the operator's Pods are; with `pull_secrets` nodes pull the images.
    """

    type = ResourceType("cache.example.com", "v1alpha1", "Memcached", "memcacheds")
    children = (NETWORK_POLICY, SERVICE, DISRUPTION_BUDGET, DEPLOYMENT, POD, CONFIG_MAP)

    def __init__(
        self,
        *,
        image: str,
        exporters_image: str,
        operator_namespace: str = "kindling-system",
        pull_secrets: Sequence[str] = (),
    ) -> None:
        self._image, self._exporters_image = image, exporters_image
        self._pull_secrets = pull_secrets
        self._operator_namespace = operator_namespace

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr)
        # By the port's name: while a changed port rolls out, each Pod has its own.
        network = policy(
            self.type,
            cr,
            name=cr["metadata"]["name"],
            port=service.PORT_NAME,
            operator_namespace=self._operator_namespace,
        )
        return [
            exporter.network(network) if exporter.is_enabled(cr) else network,
            service.build(self.type, cr, wanted),
            # One that stands alone would block every drain of its node, or protect nothing.
            *([disruption_budget.build(self.type, cr)] if wanted.size > 1 else []),
            workload.build(
                self.type,
                cr,
                wanted,
                image=self._image,
                exporters_image=self._exporters_image,
                pull_secrets=self._pull_secrets,
            ),
            *(self._servers(cr, wanted, observed) if wanted.binding else ()),
        ]

    def _servers(self, cr: Object, wanted: spec.Spec, observed: Observed) -> Sequence[Child]:
        endpoints = observation.endpoints(self.type, cr, observed)
        return servers.build(self.type, cr, wanted, endpoints, observed)

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        return stats.probes(self.type, cr, spec.read(cr), observed)

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        if observation.replica_problem(self.type, cr, observed) is not None:
            return ()
        return progress.warnings_needed(cr, observation.pod_progress(self.type, cr, observed), observed)

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        return status.report(self.type, cr, observed, sync)

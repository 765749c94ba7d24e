"""Memcached: one to a hundred caches of their own per resource, and a list of where they are.

This file connects the modules of the package: `spec` reads the resource, `service`, `disruption_budget`,
`workload` and `servers` each build one child, `discovery` those that give the list as ElastiCache does,
`workloads` has one workload take the other's place, `warm_rollout` holds a roll-out for the hit ratio,
`observation` reads Pods, `stats` asks them, `status` reports; `kinds.exporter` has what `spec.exporter` adds.
`tls` has the certificate, `auth` the login, `access` sees that clients get in by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from kindling.kinds import exporter, incidents, pods, progress, server_tls
from kindling.kinds.base import (
    Child,
    Kind,
    Notice,
    Observed,
    Probe,
    Problem,
    StatusReport,
    SyncResult,
    WatchedObject,
)
from kindling.kinds.memcached import (
    access,
    auth,
    discovery,
    disruption_budget,
    observation,
    servers,
    service,
    spec,
    stats,
    status,
    tls,
    warm_rollout,
    workload,
    workloads,
)
from kindling.kinds.metrics import ResourceMetric, status_time
from kindling.kinds.network import policy
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Object,
    Ref,
    ResourceType,
)


class Memcached(Kind):
    """`image` is what runs: it has memcached on its PATH, and needs no more. `exporters_image` has the
    exporter.

    `operator_namespace` is where the operator's Pods are; with `pull_secrets` nodes pull the images. A
    certificate that is made is valid for `certificate_life`. Without `may_keep_secrets` the operator has no
    right on Secrets, and none has TLS or a login.
    """

    type = ResourceType("cache.example.com", "v1beta1", "Memcached", "memcacheds")
    children: tuple[ResourceType, ...] = (
        SECRET,
        NETWORK_POLICY,
        SERVICE,
        DISRUPTION_BUDGET,
        DEPLOYMENT,
        STATEFUL_SET,
        POD,
        CONFIG_MAP,
    )
    watches: tuple[ResourceType, ...] = (SECRET,)
    metrics = (
        ResourceMetric(
            "kindling_memcached_certificate_expiration_timestamp_seconds",
            "when the first certificate ends of those that the caches serve (`tls.notAfter`); no series "
            "without TLS",
            "nearer than a quarter of `KINDLING_CERTIFICATE_SECONDS`: the certificate is not renewed",
            status_time("tls", "notAfter"),
        ),
    )

    def __init__(
        self,
        *,
        image: str,
        exporters_image: str,
        operator_namespace: str = "kindling-system",
        pull_secrets: Sequence[str] = (),
        certificate_life: timedelta = server_tls.DEFAULT_LIFE,
        may_keep_secrets: bool = True,
    ) -> None:
        self._may_keep_secrets = may_keep_secrets
        if not may_keep_secrets:
            self.children = tuple(type for type in self.children if type != SECRET)
            self.watches = ()
        self._image, self._exporters_image = image, exporters_image
        self._pull_secrets = pull_secrets
        self._operator_namespace = operator_namespace
        self._certificate_life = certificate_life

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        if not self._may_keep_secrets:
            return ()
        password = auth.reference(cr)
        names = [tls.reference(cr), password.name if password is not None else None]
        return [
            WatchedObject(SECRET, name, cr["metadata"]["namespace"])
            for name in dict.fromkeys(names)
            if name is not None
        ]

    def secrets(self, cr: Object) -> Sequence[str]:
        if not access.is_secured(cr) or not self._may_keep_secrets:
            return ()
        password = auth.reference(cr)
        named = (password.name,) if password is not None else ()
        ours = auth.binding_name(cr), *((auth.secret_name(cr),) if auth.is_enabled(cr) else ())
        return list(dict.fromkeys([*ours, *named, *tls.secret_names(cr)]))

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        if not self._may_keep_secrets and (problem := access.without_secrets(cr)) is not None:
            return problem
        problem = spec.validate(cr) or discovery.validate(cr)
        return problem or auth.validate(cr, observed) or tls.validate(cr, observed)

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
            *self._secrets(cr, wanted, observed),
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
                partition=warm_rollout.partition(self.type, cr, wanted, observed),
            ),
            *workloads.kept(self.type, cr, observed),
            *(listed := self._servers(cr, wanted, observed) if wanted.binding else []),
            *discovery.children(
                self.type,
                cr,
                observed,
                port=wanted.port,
                listed=bool(listed),
                image=self._exporters_image,
                operator_namespace=self._operator_namespace,
                pull_secrets=self._pull_secrets,
            ),
        ]

    def _secrets(self, cr: Object, wanted: spec.Spec, observed: Observed) -> Sequence[Child]:
        found = access.verdict(self.type, cr, observed)
        material, authority = tls.decide(cr, observed, life=self._certificate_life)
        logins = auth.decide(cr, observed, accepted=found.accepted) if wanted.auth else None
        return [
            *server_tls.children(self.type, cr, observed, material=material, authority=authority),
            *auth.children(self.type, cr, observed, logins),
            *access.binding(
                self.type,
                cr,
                wanted,
                observed,
                material=material,
                password=logins.bound if logins is not None else None,
                served=found.served,
            ),
        ]

    def _servers(self, cr: Object, wanted: spec.Spec, observed: Observed) -> Sequence[Child]:
        endpoints = observation.endpoints(self.type, cr, observed)
        where = discovery.endpoint(cr) if discovery.is_enabled(cr) else ""
        return servers.build(self.type, cr, wanted, endpoints, observed, discovery=where)

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        return {
            **access.probes(self.type, cr, observed),
            **stats.probes(self.type, cr, spec.read(cr), observed),
            **warm_rollout.probes(self.type, cr, spec.read(cr), observed),
        }

    def incidents(self, cr: Object, observed: Observed) -> Sequence[Notice]:
        return incidents.terminated(pods.pods_of(self.type, cr, observed), now=observed.now)

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        if observation.replica_problem(self.type, cr, observed) is not None:
            return ()
        return progress.warnings_needed(cr, observation.pod_progress(self.type, cr, observed), observed)

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        return status.report(self.type, cr, observed, sync)

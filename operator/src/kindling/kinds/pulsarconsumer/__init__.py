"""PulsarConsumer: so many consumers of one topic, each handling or printing, and acknowledging, what comes.

This file connects the modules of the package: `spec` reads the resource, `access` what lets it in at the
broker, `workload` builds the Deployment, `handler` brings users' code or service into it, `metrics` what
Prometheus reads of it, `ambassador` the local broker, `backlog` asks the broker, `backlog_metrics` has that
for Prometheus, `calls` asks the consumers how their handler does, `autoscaling` follows what the broker says,
`replay` sets the subscription to another moment, `deletion` unsubscribes, `status` reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kindling.kinds import incidents, pods
from kindling.kinds.base import (
    Child,
    ExternalAction,
    Finish,
    Kind,
    Notice,
    Observed,
    Probe,
    Problem,
    RequeueAfter,
    StatusReport,
    SyncResult,
    WatchedObject,
)
from kindling.kinds.pulsarconsumer import (
    access,
    autoscaling,
    backlog,
    backlog_metrics,
    calls,
    deletion,
    handler,
    metrics,
    replay,
    spec,
    status,
    workload,
)
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    NETWORK_POLICY,
    POD,
    SECRET,
    Object,
    Ref,
    ResourceType,
)


class PulsarConsumer(Kind):
    """`image` is what runs where a resource names none. `local_broker`, HOST:PORT or empty, is where a
    resource that names localhost finds its broker. With `pull_secrets` nodes pull the image.
    `operator_namespace` is where the operator's Pods are.
    """

    type = ResourceType("pulsar.pulsarconsumer.krvarma.com", "v1", "PulsarConsumer", "pulsarconsumers")
    children = (NETWORK_POLICY, DEPLOYMENT, POD)
    watches = (SECRET, CONFIG_MAP)
    metrics = backlog_metrics.METRICS
    durable = (*deletion.DURABLE, autoscaling.FIELD, replay.FIELD)
    finalizer = deletion.FINALIZER

    def __init__(
        self,
        *,
        image: str,
        local_broker: str = "",
        pull_secrets: Sequence[str] = (),
        operator_namespace: str = "kindling-system",
    ) -> None:
        self._image = image
        self._operator_namespace = operator_namespace
        self._pull_secrets = pull_secrets
        self._local_broker = local_broker

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        namespace = cr["metadata"]["namespace"]
        return [
            *(WatchedObject(SECRET, name, namespace) for name in self.secrets(cr)),
            *(WatchedObject(CONFIG_MAP, name, namespace) for name in self.config_maps(cr)),
        ]

    def secrets(self, cr: Object) -> Sequence[str]:
        return [use.secret for use in access.uses(cr)]

    def config_maps(self, cr: Object) -> Sequence[str]:
        code = handler.code_of(cr)
        return [code.config_map] if code is not None else []

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        return {**backlog.probes(cr, observed), **calls.probes(self.type, cr, observed)}

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        return access.validate(cr, observed) or handler.validate(cr, observed) or replay.validate(cr)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        return self._children(cr, observed, self._read(cr))

    def durable_state(self, cr: Object, observed: Observed) -> Mapping[str, Any]:
        return {
            **deletion.record(cr),
            **autoscaling.decide(cr, observed),
            **replay.decide(cr, observed),
        }

    def external_actions(self, cr: Object, observed: Observed) -> Sequence[ExternalAction]:
        return replay.external_actions(cr, observed)

    def must_finish(self, cr: Object) -> bool:
        return deletion.is_wanted(cr)

    def finish(self, cr: Object, observed: Observed) -> Finish:
        problem = deletion.problem(self.type, cr, observed)
        report = self.status(cr, observed, SyncResult(in_sync=False, problem=problem))
        if deletion.is_done(cr, observed):
            return Finish(done=True, report=report)
        return Finish(
            done=False,
            report=replace(report, result=RequeueAfter(deletion.EVERY_SECONDS)),
            # In a namespace that is being deleted, one of them cannot be made again: so it is let go there.
            children=self._children(cr, observed, replace(self._read(cr), replicas=0)),
            actions=deletion.actions(self.type, cr, observed),
        )

    def _read(self, cr: Object) -> spec.Spec:
        read = spec.read(cr, default_image=self._image, pull_secrets=self._pull_secrets)
        return replace(read, replicas=autoscaling.replicas(cr))

    def _children(self, cr: Object, observed: Observed, wanted: spec.Spec) -> list[Child]:
        network = calls.network(self.type, cr, operator_namespace=self._operator_namespace)
        return [
            metrics.network(cr, network),
            workload.build(
                self.type, cr, wanted, observed, own_image=self._image, local_broker=self._local_broker
            ),
        ]

    def incidents(self, cr: Object, observed: Observed) -> Sequence[Notice]:
        return incidents.terminated(pods.pods_of(self.type, cr, observed), now=observed.now)

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        return status.warnings(self.type, cr, observed, local_broker=self._local_broker)

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        return status.report(self.type, cr, observed, sync, local_broker=self._local_broker)

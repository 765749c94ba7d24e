"""PulsarConsumer: so many consumers of one topic, each handling or printing, and acknowledging, what comes.

This file connects the modules of the package: `spec` reads the resource, `workload` builds the
Deployment, `handler` brings users' code or service into it, `ambassador` the local broker, `backlog`
asks the broker, `status` reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kindling.kinds.base import (
    Child,
    Kind,
    Observed,
    Probe,
    Problem,
    StatusReport,
    SyncResult,
    WatchedObject,
)
from kindling.kinds.network import policy
from kindling.kinds.pulsarconsumer import backlog, handler, spec, status, workload
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
    """

    type = ResourceType("pulsar.pulsarconsumer.krvarma.com", "v1", "PulsarConsumer", "pulsarconsumers")
    children = (NETWORK_POLICY, DEPLOYMENT, POD)
    watches = (SECRET, CONFIG_MAP)
    metrics = backlog.METRICS

    def __init__(self, *, image: str, local_broker: str = "", pull_secrets: Sequence[str] = ()) -> None:
        self._image = image
        self._pull_secrets = pull_secrets
        self._local_broker = local_broker

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        namespace = cr["metadata"]["namespace"]
        return [
            *(WatchedObject(SECRET, name, namespace) for name in self.secrets(cr)),
            *(WatchedObject(CONFIG_MAP, name, namespace) for name in self.config_maps(cr)),
        ]

    def secrets(self, cr: Object) -> Sequence[str]:
        token = spec.token_of(cr)
        return [token.secret] if token is not None else []

    def config_maps(self, cr: Object) -> Sequence[str]:
        code = handler.code_of(cr)
        return [code.config_map] if code is not None else []

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        return backlog.probes(cr, observed)

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        return spec.validate(cr, observed) or handler.validate(cr, observed)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr, default_image=self._image, pull_secrets=self._pull_secrets)
        return [
            # Outwards all is open: a broker sends its clients on to addresses not known beforehand.
            policy(self.type, cr, name=workload.workload_name(cr), allow_egress=True),
            workload.build(
                self.type, cr, wanted, observed, own_image=self._image, local_broker=self._local_broker
            ),
        ]

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        return status.warnings(self.type, cr, observed, local_broker=self._local_broker)

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        return status.report(self.type, cr, observed, sync, local_broker=self._local_broker)

"""PulsarConsumer: so many consumers of one topic, each printing and acknowledging what comes.

This file only strings the room together: `spec` reads the resource, `workload` builds the
Deployment, `ambassador` brings the local broker into a Pod, `status` tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds.contract import Child, Findings, Kind, Observed, Problem, Report, Sought
from kindling.kinds.network import policy
from kindling.kinds.pulsarconsumer import spec, status, workload
from kindling.kube.resources import DEPLOYMENT, NETWORK_POLICY, POD, SECRET, Object, Ref, ResourceType


class PulsarConsumer(Kind):
    """`image` is what runs where a resource names none. `local_broker`, HOST:PORT or empty, is where a
    resource that names localhost finds its broker.
    """

    type = ResourceType("pulsar.pulsarconsumer.krvarma.com", "v1", "PulsarConsumer", "pulsarconsumers")
    children = (NETWORK_POLICY, DEPLOYMENT, POD)
    sights = (SECRET,)

    def __init__(self, *, image: str, local_broker: str = "") -> None:
        self._image = image
        self._local_broker = local_broker

    def seeks(self, cr: Object) -> Sequence[Sought]:
        return [Sought(SECRET, name, cr["metadata"]["namespace"]) for name in self.secrets(cr)]

    def secrets(self, cr: Object) -> Sequence[str]:
        token = spec.token_of(cr)
        return [token.secret] if token is not None else []

    def refuse(self, cr: Object, observed: Observed) -> Problem | None:
        return spec.refuse(cr, observed)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr, default_image=self._image)
        return [
            # Outwards all is open: a broker sends its clients on to addresses not known beforehand.
            policy(self.type, cr, name=workload.workload_name(cr), outwards=True),
            workload.build(
                self.type, cr, wanted, observed, own_image=self._image, local_broker=self._local_broker
            ),
        ]

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        return status.warnings(self.type, cr, observed, local_broker=self._local_broker)

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        return status.report(self.type, cr, observed, findings, local_broker=self._local_broker)

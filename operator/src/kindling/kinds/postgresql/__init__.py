"""Postgresql: one PostgreSQL server per resource, in two groups of one schema.

This file only strings the room together: `spec`, `password`, `parameters` and `version` read the
resource; `volume`, `secrets`, `config`, `service` and `workload` each build one child
(`initdb` is what the Pod does first, `restart` when it is replaced); `login` asks, `status` tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds.contract import Child, Findings, Kind, Observed, Problem, Report, Sought
from kindling.kinds.network import policy
from kindling.kinds.postgresql import (
    config,
    login,
    parameters,
    password,
    restart,
    secrets,
    service,
    spec,
    status,
    version,
    volume,
    workload,
)
from kindling.kube.resources import (
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    ResourceType,
)


class Postgresql(Kind):
    """The kind in one of its groups; `image` is what runs where a resource names none."""

    children = (VOLUME_CLAIM, SECRET, CONFIG_MAP, SERVICE, NETWORK_POLICY, STATEFUL_SET, POD)
    sights = (SECRET,)

    def __init__(self, *, group: str, image: str) -> None:
        self.type = ResourceType(group, "v1", "Postgresql", "postgresqls")
        self._image = image

    def seeks(self, cr: Object) -> Sequence[Sought]:
        named = password.reference(cr)
        return [Sought(SECRET, named.name, cr["metadata"]["namespace"])] if named else []

    def secrets(self, cr: Object) -> Sequence[str]:
        named = password.reference(cr)
        return (secrets.superuser_name(cr), secrets.binding_name(cr), *((named.name,) if named else ()))

    def refuse(self, cr: Object, observed: Observed) -> Problem | None:
        wanted = spec.read(cr, default_image=self._image)
        return (
            spec.refuse(cr)
            or parameters.refuse(wanted.parameters, resources=wanted.resources)
            or version.refuse(cr, observed)
            or password.refuse(cr, observed)
        )

    def paused(self, cr: Object) -> bool:
        return spec.is_paused(cr)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr, default_image=self._image)
        word = password.password_of(cr, observed) or observed.password("binding")
        claim = volume.build(self.type, cr, wanted, observed, version=version.of_volume(cr, observed))
        return [
            *(() if wanted.ephemeral else (claim,)),
            secrets.superuser(self.type, cr, observed),
            secrets.binding(self.type, cr, password=word),
            config.build(self.type, cr, wanted.parameters),
            service.build(self.type, cr),
            policy(self.type, cr, name=cr["metadata"]["name"], port=service.PORT),
            workload.build(self.type, cr, wanted, mark=restart.mark(cr, observed, wanted.parameters)),
        ]

    def inquire(self, cr: Object, observed: Observed) -> login.Login | None:
        return login.inquire(cr, observed)

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        return status.report(self.type, cr, observed, findings)

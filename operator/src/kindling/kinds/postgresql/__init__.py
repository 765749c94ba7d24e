"""Postgresql: one PostgreSQL server per resource, in two groups of one schema.

This file only strings the room together: `spec` reads the resource, `volume`, `secrets`, `config`,
`service` and `workload` each build one child, `login` asks, `status` tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds.contract import Child, Findings, Kind, Observed, Problem, Report
from kindling.kinds.postgresql import config, login, secrets, service, spec, status, volume, workload
from kindling.kube.resources import (
    CONFIG_MAP,
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

    children = (VOLUME_CLAIM, SECRET, CONFIG_MAP, SERVICE, STATEFUL_SET, POD)

    def __init__(self, *, group: str, image: str) -> None:
        self.type = ResourceType(group, "v1", "Postgresql", "postgresqls")
        self._image = image

    def refuse(self, cr: Object, observed: Observed) -> Problem | None:
        return spec.refuse(cr)

    def secrets(self, cr: Object) -> Sequence[str]:
        return secrets.superuser_name(cr), secrets.binding_name(cr)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr, default_image=self._image)
        settings = config.build(self.type, cr)
        return [
            volume.build(self.type, cr, wanted, observed),
            secrets.superuser(self.type, cr, observed),
            secrets.binding(self.type, cr, wanted, observed),
            settings,
            service.build(self.type, cr),
            workload.build(self.type, cr, wanted, settings=settings.body["data"]),
        ]

    def inquire(self, cr: Object, observed: Observed) -> login.Login | None:
        return login.inquire(cr, observed)

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        return status.report(self.type, cr, observed, findings)

"""Postgresql: one PostgreSQL server per resource, in two groups of one schema.

This file only strings the room together: `spec`, `password`, `parameters` and `version` read the
resource, `defaults` what follows from volume and memory; `volume`, `secrets`, `config`, `service` and
`workload` each build one child (`initdb` and `started` are what the Pod does first, `restart` when it is
replaced for its parameters, `updates` when for a later operator's sake); `identity` knows whose data it is,
`deletion` that it is about to go; `login` asks, `status` tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kindling.kinds.contract import Child, Findings, Kind, Observed, Problem, Report, Sought
from kindling.kinds.network import policy
from kindling.kinds.postgresql import (
    config,
    defaults,
    deletion,
    identity,
    login,
    parameters,
    password,
    restart,
    secrets,
    service,
    spec,
    status,
    updates,
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
    Ref,
    ResourceType,
)


class Postgresql(Kind):
    """The kind in one of its groups; `image` is what runs where a resource names none.

    `operator_namespace` is where the operator's Pods are, which log in to the server.
    """

    children = (VOLUME_CLAIM, SECRET, CONFIG_MAP, SERVICE, NETWORK_POLICY, STATEFUL_SET, POD)
    sights = (SECRET,)

    def __init__(self, *, group: str, image: str, operator_namespace: str = "kindling-system") -> None:
        self.type = ResourceType(group, "v1", "Postgresql", "postgresqls")
        self._image = image
        self._operator_namespace = operator_namespace

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
            or updates.refuse(cr)
            or version.refuse(cr, observed)
            or volume.refuse(cr, observed)
            or password.refuse(cr, observed)
        )

    def paused(self, cr: Object) -> bool:
        return spec.is_paused(cr)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = spec.read(cr, default_image=self._image)
        logs_in = spec.user_of(cr), password.password_of(cr, observed) or observed.password("binding")
        if not login.lets_in(login.heard(cr, observed)):
            # The server is told first: until it lets them in, applications go on with what they have.
            logs_in = secrets.bound(cr, observed) or logs_in
        identifier, going = identity.present(cr, observed), deletion.going(cr, observed)
        claim = volume.build(
            self.type, cr, wanted, observed, version=version.of_volume(cr, observed), identifier=identifier
        )
        return [
            *(() if wanted.ephemeral else (replace(claim, held=going),)),
            secrets.superuser(self.type, cr, observed),
            secrets.binding(self.type, cr, user=logs_in[0], password=logs_in[1]),
            config.build(
                self.type, cr, {**defaults.of(cr, observed), **wanted.parameters}, identifier=identifier
            ),
            service.build(self.type, cr),
            policy(
                self.type,
                cr,
                name=cr["metadata"]["name"],
                port=service.PORT,
                operator_namespace=self._operator_namespace,
            ),
            replace(self._workload(cr, observed, wanted), held=going),
        ]

    def wants_turn(self, cr: Object, observed: Observed) -> bool | None:
        if updates.policy(cr) != updates.AUTO:
            return None
        update = self._update(cr, observed, spec.read(cr, default_image=self._image))[1]
        return update.waits and updates.opens(cr, observed.now) is None

    def _workload(self, cr: Object, observed: Observed, wanted: spec.Spec) -> Child:
        template, update = self._update(cr, observed, wanted)
        return workload.build(self.type, cr, template=template, update=update)

    def _update(self, cr: Object, observed: Observed, wanted: spec.Spec) -> tuple[Object, updates.Update]:
        """The Pod's template, and how the StatefulSet gets it."""
        mark = restart.mark(cr, observed, wanted.parameters)
        template = workload.template(self.type, cr, wanted, mark=mark)
        return template, updates.decide(cr, observed, template=template, mark=mark)

    def inquire(self, cr: Object, observed: Observed) -> login.Login | None:
        return login.inquire(cr, observed, identifier=identity.expected(cr, observed))

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        return status.warnings(cr, observed)

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        return status.report(self.type, cr, observed, findings)

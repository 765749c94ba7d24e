"""Postgresql: one PostgreSQL server per resource, in two groups of one schema.

This file connects the modules of the package: `spec`, `password`, `parameters` and `version` read the
resource, `defaults` what follows from volume and memory; `volume`, `secrets`, `config`, `service` and
`workload` each build one child, `archiver` what a Backup adds to them (`initdb` and `started` are what the
Pod does first, and `serve` is what runs the server there; `server_restart` is when that is restarted within
the Pod, `restart` when the Pod is replaced for its parameters, `updates` when for a later operator's sake);
`tls` has the server's certificate, `client_certificates` those of roles, `hba` its rules of login, `reload`
has a running server read its files again; `identity` knows whose data it is, `deletion` that it is about to
go, `protection` that it must not; `login` is what is asked and wanted of the server, `objects` what of its
`roles` and `databases`, `usage` what its data takes, `growth` when the volume grows for that; `init_sql` is
what a new database begins with; `credentials` is who logs in, `rotation` when that changes, `logins` who used
it before; `hibernation` and `in_place` have the server stopped, and with `activator` a connection starts it;
`postgres_exporter` is the exporter beside it; `exports` has what other namespaces get of its bindings;
`status` reports, from `state`, with what `faults` finds wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kindling.kinds import cert_manager, exporter, incidents, pods, server_tls
from kindling.kinds.base import (
    Child,
    ExternalAction,
    ExternalResult,
    Finish,
    Kind,
    Notice,
    Observed,
    Probe,
    Problem,
    StatusReport,
    SyncResult,
    WatchedObject,
)
from kindling.kinds.database_types import database_type
from kindling.kinds.metrics import ResourceMetric, status_quantity, status_time
from kindling.kinds.network import policy
from kindling.kinds.planned import Change, Disruption
from kindling.kinds.postgresql import (
    activator,
    archiver,
    client_certificates,
    config,
    credentials,
    databases,
    deletion,
    exports,
    growth,
    hba,
    hibernation,
    identity,
    idle,
    in_place,
    init_sql,
    login,
    logins,
    maintenance_window,
    objects,
    observation,
    parameters,
    password,
    planned,
    protection,
    reload,
    restart,
    roles,
    rotation,
    secrets,
    server_log,
    server_restart,
    service,
    spec,
    status,
    tls,
    updates,
    usage,
    version,
    volume,
    workload,
)
from kindling.kube.resources import (
    CERTIFICATE,
    CONFIG_MAP,
    DEPLOYMENT,
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
    """The kind in one of its groups; `image` is what runs where a resource names none, `init_image` has the
    program that prepares each start (`initdb`), `exporters_image` the exporter.

    `operator_namespace` is where the operator's Pods are, which log in to the server; with `pull_secrets`
    nodes pull these images. A certificate that is made is valid for `certificate_life`. `imports_served`: the
    operator serves BindingImports; in these `namespaces` alone, if any are named.
    """

    children = (
        VOLUME_CLAIM, SECRET, CONFIG_MAP, SERVICE, NETWORK_POLICY, DEPLOYMENT, STATEFUL_SET, POD,
    )  # fmt: skip
    optional = (CERTIFICATE,)
    watches: tuple[ResourceType, ...] = (SECRET, CONFIG_MAP, exports.BINDING_IMPORT)
    finalizer = protection.FINALIZER
    durable = (credentials.FIELD, idle.FIELD)
    metrics = (
        ResourceMetric(
            "kindling_postgresql_certificate_expiration_timestamp_seconds",
            "when the certificate ends that the server serves (`tls.notAfter`); no series without TLS",
            "nearer than a quarter of `KINDLING_CERTIFICATE_SECONDS`: the certificate is not renewed",
            status_time("tls", "notAfter"),
        ),
        ResourceMetric(
            "kindling_postgresql_role_certificate_expiration_timestamp_seconds",
            "when the first certificate ends of those by which roles log in "
            "(`roles[].clientCertificate.notAfter`); no series without one",
            "nearer than a quarter of `KINDLING_CERTIFICATE_SECONDS`: the certificate is not renewed",
            client_certificates.first_end,
        ),
        ResourceMetric(
            "kindling_postgresql_credentials_rotated_timestamp_seconds",
            "when the last rotation of the login began (`credentials.rotatedAt`); no series before the first",
            "older than the schedule's interval: a rotation waits for sessions of the login before",
            status_time("credentials", "rotatedAt"),
        ),
        ResourceMetric(
            "kindling_postgresql_credentials_previous_valid_until_timestamp_seconds",
            "until when the login before is valid in any case (`credentials.previous.validUntil`); no series "
            "without one",
            "in the past for a day: sessions use that login, and a rotation that is due waits for them",
            status_time("credentials", "previous", "validUntil"),
        ),
        ResourceMetric(
            "kindling_postgresql_volume_capacity_bytes",
            "what the volume has (`storage.capacity`); no series without a volume",
            "below what the claim asks for: the volume has not grown",
            status_quantity("storage", "capacity"),
        ),
        ResourceMetric(
            "kindling_postgresql_volume_used_bytes",
            "what the data takes at least (`storage.usedBytes`), to a hundredth of the capacity",
            "above 90 % of `kindling_postgresql_volume_capacity_bytes`: the volume is nearly full",
            status_quantity("storage", "usedBytes"),
        ),
        ResourceMetric(
            "kindling_postgresql_volume_full_timestamp_seconds",
            "when the volume is full if its data grows on (`storage.fullAt`); no series without growth",
            "nearer than a day: the volume will be full",
            status_time("storage", "fullAt"),
        ),
    )

    def __init__(
        self,
        *,
        group: str,
        image: str,
        init_image: str,
        exporters_image: str,
        operator_namespace: str = "kindling-system",
        pull_secrets: Sequence[str] = (),
        certificate_life: timedelta = server_tls.DEFAULT_LIFE,
        imports_served: bool = True,
        namespaces: Collection[str] = (),
    ) -> None:
        self.type = database_type(group)
        self._image, self._init_image, self._exporters_image = image, init_image, exporters_image
        self._pull_secrets = pull_secrets
        self._operator_namespace = operator_namespace
        self._certificate_life = certificate_life
        self._imports_served, self._namespaces = imports_served, namespaces
        if not imports_served:
            # Their definition need not be there.
            self.watches = (SECRET, CONFIG_MAP)

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        if self.plan_for(cr):
            return ()
        named = [password.reference(cr), *(role.reference for role in roles.read(cr))]
        names = [archiver.secret_name(cr), in_place.secret_name(cr["metadata"]["name"])]
        names += [reference.name for reference in named if reference is not None]
        if (certificate := tls.reference(cr)) is not None:
            names.append(certificate)
        names += init_sql.secrets(cr)
        namespace, config_maps = cr["metadata"]["namespace"], dict.fromkeys(self.config_maps(cr))
        imports = [export.ref for export in exports.read(cr)] if self._imports_served else []
        return [
            *(WatchedObject(SECRET, name, namespace) for name in dict.fromkeys(names)),
            *(WatchedObject(CONFIG_MAP, name, namespace) for name in config_maps),
            *(WatchedObject(ref.type, ref.name, ref.namespace) for ref in imports),
        ]

    def secrets(self, cr: Object) -> Sequence[str]:
        named = password.reference(cr)
        ours = secrets.superuser_name(cr), secrets.binding_name(cr)
        others = *((named.name,) if named else ()), *roles.secret_names(cr), *tls.secret_names(cr)
        return list(dict.fromkeys([*ours, *others, *init_sql.secrets(cr)]))

    def config_maps(self, cr: Object) -> Sequence[str]:
        return init_sql.config_maps(cr)

    def needs(self, cr: Object) -> Sequence[ResourceType]:
        return self.optional if tls.needs_cert_manager(cr) else ()

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        wanted = self._read(cr)
        return (
            spec.validate(cr)
            or roles.validate(cr)
            or databases.validate(cr)
            or parameters.validate(wanted.parameters, resources=wanted.resources)
            or maintenance_window.validate(cr)
            or server_log.validate(cr, wanted.parameters)
            or client_certificates.validate(cr)
            or hba.validate(cr)
            or init_sql.validate(cr)
            or hibernation.validate(cr)
            or idle.validate(cr)
            or activator.validate(cr)
            or version.validate(cr, observed)
            or volume.validate(cr, observed)
            or growth.validate(cr)
            or rotation.validate(cr)
            or password.validate(cr, observed)
            or tls.validate(cr, observed)
        )

    def paused(self, cr: Object) -> bool:
        return spec.is_paused(cr)

    def plan_for(self, cr: Object) -> str:
        return spec.plan_for(cr)

    def proposed(self, cr: Object, other: Object | None) -> Object:
        return planned.proposed(cr, other)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        wanted = self._read(cr)
        logs_in = credentials.login_of(cr), password.password_of(cr, observed) or observed.password("binding")
        if not login.lets_in(login.last_result(cr, observed)):
            # The server gets it first: until it accepts the login, applications go on with what they have.
            logs_in = secrets.bound(cr, observed) or logs_in
        identifier, frozen = identity.to_record(cr, observed), deletion.is_deleting(cr, observed)
        material, authority = tls.decide(cr, observed, life=self._certificate_life)
        served = login.served(cr, observed).get("fingerprint")
        known = secrets.trusted(cr, observed)
        ca = server_tls.trusted(cr, observed, material, served=served, known=known)
        issued = (
            cert_manager.children(self.type, cr, observed, hosts=server_tls.hosts(cr))
            if tls.needs_cert_manager(cr)
            else []
        )
        issuer = client_certificates.issuer(material, authority, served=served, life=self._certificate_life)
        archives, admitted = archiver.find(cr, observed), archiver.to_admit(cr, observed)
        address = activator.service(self.type, cr, service.build(self.type, cr), now=observed.now)
        network = policy(
            self.type,
            cr,
            name=cr["metadata"]["name"],
            port=service.PORT,
            operator_namespace=self._operator_namespace,
        )
        network = exporter.network(network) if exporter.is_enabled(cr) else network
        return [
            *(() if wanted.ephemeral else (replace(self._claim(cr, observed, wanted), frozen=frozen),)),
            secrets.superuser(self.type, cr, observed),
            *issued,
            *server_tls.children(self.type, cr, observed, material=material, authority=authority),
            secrets.binding(
                self.type, cr, user=logs_in[0], password=logs_in[1], database=spec.user_of(cr), ca=ca
            ),
            *roles.children(
                self.type, cr, observed, applied=self._applied_roles(cr, observed), ca=ca, issuer=issuer
            ),
            config.build(
                self.type,
                cr,
                config.values(cr, observed),
                identifier=identifier,
                keeps_previous=in_place.find(cr, observed) is not None,
            ),
            *activator.children(
                self.type,
                cr,
                observed,
                wanted,
                image=self._init_image,
                operator_namespace=self._operator_namespace,
            ),
            address if archives is None else archiver.service(address),
            network if admitted is None else archiver.network(network, admitted),
            # Without a certificate, a server would not start.
            replace(
                self._workload(cr, observed, wanted),
                frozen=frozen,
                blocked=tls.waiting(cr, observed) is not None,
            ),
        ]

    def _claim(self, cr: Object, observed: Observed, wanted: spec.Spec) -> Child:
        size = growth.size(cr, observed)
        grown = growth.note(cr, observed, asked=size)
        return volume.build(
            self.type,
            cr,
            wanted,
            observed,
            version=version.version_to_record(cr, observed),
            identifier=identity.to_record(cr, observed),
            size=size,
            notes={growth.GROWN: grown} if grown else None,
        )

    def must_finish(self, cr: Object) -> bool:
        return protection.must_finish(cr)

    def finish(self, cr: Object, observed: Observed) -> Finish:
        remains = protection.is_to_end(cr, observed)
        problem = protection.problem(cr) if remains else None
        return Finish(
            done=not remains,
            report=self.status(cr, observed, SyncResult(in_sync=False, problem=problem)),
            children=[self._claim(cr, observed, self._read(cr))] if remains else [],
        )

    def durable_state(self, cr: Object, observed: Observed) -> Mapping[str, Any]:
        pod = observation.find_pod(cr, observed)
        return {
            **rotation.decide(cr, observed),
            **idle.decide(
                cr,
                observed.now,
                answer=login.health(cr, observed),
                workload=observation.find_workload(cr, observed),
                called=activator.is_called(self.type, cr, observed),
                ready=pod is not None and pods.pod_ready(pod),
            ),
        }

    def disruptions(self, cr: Object, observed: Observed) -> Sequence[str] | None:
        if updates.policy(cr) != updates.AUTO:
            return None
        update = self._update(cr, observed, self._read(cr))[1]
        opens = maintenance_window.opens(cr, observed.now)
        return [login.SERVER] if update.wants_restart and opens is None else []

    def disruption_of(self, cr: Object, observed: Observed, change: Change) -> Disruption:
        return planned.disruption_of(cr, observed, change)

    def _read(self, cr: Object) -> spec.Spec:
        return spec.read(cr, default_image=self._image, pull_secrets=self._pull_secrets)

    def _workload(self, cr: Object, observed: Observed, wanted: spec.Spec) -> Child:
        template, update = self._update(cr, observed, wanted)
        stopped = hibernation.is_to_stop(cr, observed)
        return workload.build(self.type, cr, template=template, update=update, stopped=stopped)

    def _update(self, cr: Object, observed: Observed, wanted: spec.Spec) -> tuple[Object, updates.Update]:
        """The Pod's template, and how the StatefulSet gets it."""
        restart_token = restart.restart_token(cr, observed, wanted.parameters)
        template = workload.template(
            self.type,
            cr,
            wanted,
            init_image=self._init_image,
            exporters_image=self._exporters_image,
            restart_token=restart_token,
        )
        archives = archiver.find(cr, observed)
        if archives is not None:
            template = {**template, "spec": archiver.pod(template["spec"], cr, claim=archives.claim)}
        decided = updates.decide(
            cr,
            observed,
            template=template,
            restart_token=restart_token,
            archives=archives.asked if archives is not None else False,
        )
        return template, decided

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        server = self._login(cr, observed)
        found = login.probes(server, observed) | reload.probes(reload.desired(cr, observed, server), observed)
        found |= usage.probes(cr, server, observed) | logins.probes(cr, server, observed)
        return found | objects.probes(self._objects(cr, observed), observed)

    def external_actions(self, cr: Object, observed: Observed) -> Sequence[ExternalAction]:
        server = self._login(cr, observed)
        first = login.external_actions(server, observed, restart=server_restart.is_due(cr, observed, server))
        then = objects.external_actions(self._objects(cr, observed), observed)
        then += logins.external_actions(cr, server, observed, over=rotation.is_over(cr, observed.now))
        files = reload.external_actions(reload.desired(cr, observed, server), server, cr, observed)
        if login.is_untrusted(login.last_result(cr, observed)):
            return [*files, *first, *then]  # until it serves another certificate, nobody logs in
        return [*first, *files, *then]

    def notice(self, action: str, member: str, result: ExternalResult) -> Notice | None:
        return server_restart.notice(result) if member == login.SERVER else None

    def _login(self, cr: Object, observed: Observed) -> login.Login | None:
        return login.desired(cr, observed, identifier=identity.expected(cr, observed))

    def _objects(self, cr: Object, observed: Observed) -> objects.Objects | None:
        return objects.desired(cr, observed, self._login(cr, observed))

    def _applied_roles(self, cr: Object, observed: Observed) -> set[str]:
        if objects.OBJECTS not in observed.results:
            return set()
        return objects.applied_roles(self._objects(cr, observed), observed)

    def incidents(self, cr: Object, observed: Observed) -> Sequence[Notice]:
        found = [pod] if (pod := observation.find_pod(cr, observed)) is not None else []
        return [*incidents.terminated(found, now=observed.now), *usage.incidents(cr, observed)]

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        return status.warnings(cr, observed)

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        report = status.report(self.type, cr, observed, sync)
        if self.plan_for(cr):
            return report  # It exports nothing itself.
        served, namespaces = self._imports_served, self._namespaces
        exported = exports.status(cr, observed, served=served, namespaces=namespaces)
        return replace(report, status={**report.status, **exported}) if exported else report

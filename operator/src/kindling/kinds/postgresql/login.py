"""What makes a Postgresql Ready: the default user can log in, and the parameters are in effect.

Only what is asked and wanted of the server: `kindling.prober` carries it out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kindling.kinds import reasons, server_tls
from kindling.kinds.base import CachedResult, ExternalAction, ExternalResult, Observed, Probe
from kindling.kinds.passwords import fingerprint
from kindling.kinds.pods import pod_ready
from kindling.kinds.postgresql import (
    archiver,
    client_certificates,
    credentials,
    defaults,
    hba,
    idle,
    init_sql,
    parameters,
    secrets,
    tls,
)
from kindling.kinds.postgresql.observation import current_pod, find_pod
from kindling.kinds.postgresql.password import password_of
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import PAUSED, SUPERUSER, paused_by, user_of
from kindling.kinds.service_template import host_of
from kindling.kube.resources import Object

SERVER = "server"
"""The one member."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """Log in as `user` to the database of that name; if that fails, make both so, as `superuser`. With
    `owner`, the database is that role's, and the user becomes it by logging in.

    Then see that the server runs with `parameters`, with `defaults` where they need no restart, and with
    no others of ours. In a database that is made, `init_sql` is run first, each an `init_sql.Script`; with
    `init_problem`, why that is not possible, none is made. With `restart`, it is restarted within its Pod
    where a parameter needs that. Data of another system identifier than
    `identifier` is left as it is. Without `provision` nothing is made so, only looked at, because of the
    field `paused_by`; with `check`, only the user's login, and with
    `looks` whether anybody else is connected. With `ca`, in PEM, only a server is spoken to that proves with
    a certificate of it to be `host`; `tls_required` is whether it should refuse everybody without
    TLS, `hba` the pg_hba.conf that it should have read; None is not asked for. `cache_key` changes with the
    resource's generation, the password, the defaults, the authorities, the Pod and each of its restarts, and
    with `init_sql` until that is known to be done.
    """

    host: str
    port: int
    namespace: str
    pod: str
    user: str
    password: str = field(repr=False)
    owner: str = ""
    superuser: str
    superuser_password: str | None = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    identifier: str | None = None
    ca: str | None = None
    tls_required: bool | None = None
    hba: str | None = None
    init_sql: Sequence[tuple[str, str, bool]] | None = field(default=None, repr=False)
    init_problem: str = ""
    restart: bool = False
    provision: bool = True
    paused_by: str = PAUSED
    check: bool = False
    looks: bool = False
    cache_key: Hashable

    @property
    def database(self) -> str:
        """The database of the default user, which bears its name."""
        return self.owner or self.user

    def health_check(self) -> Login:
        """The same login, without what only provisioning needs."""
        return replace(
            self,
            superuser_password=None,
            parameters={},
            defaults={},
            tls_required=None,
            hba=None,
            init_sql=None,
            init_problem="",
            check=True,
        )


@dataclass(frozen=True, kw_only=True)
class SuperuserRequest:
    """What any question needs that is asked as the superuser; `ca` as in a `Login`."""

    namespace: str
    host: str
    port: int
    pod: str
    user: str
    password: str = field(repr=False)
    ca: str | None = None


def superuser(login: Login | None, observed: Observed) -> SuperuserRequest | None:
    """The superuser's login to a server that lets the user in; None while it does not."""
    if login is None or not login.superuser_password:
        return None
    known = observed.result(SERVER, login.cache_key)
    if known is None or not (known.ok or known.reason == reasons.DISK_FULL):
        return None
    return SuperuserRequest(
        namespace=login.namespace,
        host=login.host,
        port=login.port,
        pod=login.pod,
        user=login.superuser,
        password=login.superuser_password,
        ca=login.ca,
    )


def probes(login: Login | None, observed: Observed) -> dict[str, Probe]:
    """Health checks of a server that was as wanted, or of a paused one whether it is."""
    if login is None:
        return {}
    if _is_provisioned(login, observed):
        return {SERVER: Probe(cache_key=login.cache_key, request=login.health_check())}
    if login.provision:
        return {}
    # It has the superuser's password, which is not kept.
    return {SERVER: Probe(cache_key=login.cache_key, request=login, once=True)}


def external_actions(login: Login | None, observed: Observed, *, restart: bool) -> list[ExternalAction]:
    """`provision`, until the server is as wanted, and again once it is not; `restart`: by a restart of it."""
    if login is None or not login.provision or _is_provisioned(login, observed):
        return []
    name, request = ("restart", replace(login, restart=True)) if restart else ("provision", login)
    return [ExternalAction(name=name, member=SERVER, cache_key=login.cache_key, request=request)]


def _is_provisioned(login: Login, observed: Observed) -> bool:
    known = observed.result(SERVER, login.cache_key)
    return known is not None and known.ok


def desired(cr: Object, observed: Observed, *, identifier: str | None = None) -> Login | None:
    """None while there is no ready Pod of the current revision, or no password yet; and for a server that is
    to stop until somebody connects, which this would be.
    """
    pod = current_pod(cr, observed)
    password = password_of(cr, observed)
    if pod is None or not pod_ready(pod) or password is None:
        return None
    if idle.wakes_on_connection(cr) and idle.is_stopped(cr, observed.now):
        return None
    meta = cr["metadata"]
    superuser = observed.secret(namespace=meta["namespace"], name=secrets.superuser_name(cr))
    user, owner = credentials.login_of(cr), user_of(cr)
    derived = defaults.of(cr, observed)
    settled = client_certificates.parameters(cr) | archiver.parameters(archiver.find(cr, observed))
    follows = (*derived.items(), *settled.items())
    ca, required = None, None
    scripts, problem = init_sql.wanted(cr, observed)
    if server_tls.is_active(pod):
        required = tls.is_required(cr)
        ca = server_tls.trusted(
            cr,
            observed,
            server_tls.present(cr, observed),
            served=served(cr, observed).get("fingerprint"),
            known=secrets.trusted(cr, observed),
        )
        if not ca:
            return None  # somebody deleted the Secret, which is made again
    return Login(
        host=host_of(cr),
        port=PORT,
        namespace=meta["namespace"],
        pod=pod["metadata"]["name"],
        user=user,
        password=password,
        owner="" if user == owner else owner,
        superuser=SUPERUSER,
        superuser_password=superuser.get("password") or None,
        parameters={**parameters.read(cr), **settled},
        defaults=derived,
        identifier=identifier,
        ca=ca,
        tls_required=required,
        hba=hba.wanted(cr),
        init_sql=None if scripts is None else [(each.where, each.text, each.secret) for each in scripts],
        init_problem=problem,
        provision=not paused_by(cr),
        paused_by=paused_by(cr),
        looks=idle.is_watched(cr),
        cache_key=(
            meta["uid"],
            meta.get("generation"),
            user,
            pod["metadata"]["uid"],
            starts(pod),
            fingerprint(password),
            follows,
            required,
            ca,
            fingerprint(init_sql.to_run(cr, observed)),
        ),
    )


def served(cr: Object, observed: Observed) -> Mapping[str, Any]:
    """The certificate that the server of this Pod showed last: `fingerprint`, `not_after`, `issuer`."""
    known = health(cr, observed)
    return {} if known is None else known.result.facts.get("certificate") or {}


def health(cr: Object, observed: Observed) -> CachedResult | None:
    """The last answer of the server in this Pod, with its time."""
    pod, known = find_pod(cr, observed), observed.results.get(SERVER)
    if pod is None or known is None or not isinstance(known.cache_key, tuple):
        return None
    return known if pod["metadata"]["uid"] in known.cache_key else None


def is_untrusted(answer: ExternalResult | None) -> bool:
    """Whether the server had no certificate that proves it to be ours."""
    return answer is not None and answer.reason == reasons.CERTIFICATE_REJECTED


def starts(pod: Object) -> tuple[Hashable, ...]:
    """Changes with each start of one of the Pod's containers."""
    return tuple(
        (item.get("name"), item.get("restartCount"), item.get("containerID"))
        for item in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def last_result(cr: Object, observed: Observed) -> ExternalResult | None:
    """The server's answer to what would be asked now; None if it has none."""
    wanted = desired(cr, observed) if SERVER in observed.results else None
    return observed.result(SERVER, wanted.cache_key) if wanted is not None else None


def lets_in(external: ExternalResult | None) -> bool:
    """Whether the user gets in, whatever else may be wrong."""
    return external is not None and (external.ok or bool(external.facts.get("login")))

"""Reading a Postgresql's spec: defaults, and what only we can refuse.

The CRD refuses all of it at the door as well; this holds where its rules were taken away, and for
what was stored before they were there. What concerns one part alone stands with that part:
`parameters`, `version`, `password`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kindling.engine.quantity import quantity
from kindling.kinds import cert_manager, reasons
from kindling.kinds.amounts import merged
from kindling.kinds.base import Problem
from kindling.kinds.postgresql import parameters
from kindling.kube.resources import Object

DEFAULT_USER = "postgres"
DEFAULT_SIZE = "1Gi"
LEAST_SHUTDOWN_SECONDS, MOST_SHUTDOWN_SECONDS = 60, 1800
MEMORY_PER_SECOND = 64 * 2**20
"""Bytes of limited memory, a quarter of which is shared_buffers: 16 MiB a second reach a slow volume."""
SUPERUSER = "kindling"
RESERVED = frozenset({SUPERUSER, "public", "none", "template0", "template1"})
# The Pod's label controller-revision-hash is NAME-<10 characters>, and labels end at 63.
NAME = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")
PAUSED, MODE, PLAN = "spec.paused", "spec.mode", "Plan"
HIBERNATED = "hibernated"
"""The phase in the status of one whose server is stopped as the spec says."""
DEFAULT_CPU = "50m"
DEFAULT_MEMORY = "128Mi"
DEFAULT_MEMORY_LIMIT = "512Mi"


MADE_SECRETS = ("binding", "superuser", "superuser-ephemeral", "server-tls", "server-ca", cert_manager.SUFFIX)
"""What comes after NAME- in the names of Secrets that are made from the resource; the CRD has the same."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec with its defaults; the password is not part of it (see `password`)."""

    user: str
    image: str
    pull_secrets: tuple[str, ...]
    size: str
    storage_class: str | None
    ephemeral: bool
    resources: Object
    parameters: Mapping[str, str]
    retain: bool
    protected: bool
    shutdown_seconds: int


def read(cr: Object, *, default_image: str, pull_secrets: Sequence[str] = ()) -> Spec:
    """Total over what the CRD admits, an empty spec and nulls included."""
    spec = cr.get("spec") or {}
    storage = spec.get("storage") or {}
    return Spec(
        user=user_of(cr),
        image=spec.get("image") or default_image,
        pull_secrets=tuple(pull_secrets),
        size=size_of(cr),
        storage_class=storage.get("storageClassName"),
        ephemeral=is_ephemeral(cr),
        resources=resources_of(cr),
        parameters=parameters.read(cr),
        retain=spec.get("deletionPolicy") != "Delete",
        protected=is_protected(cr),
        shutdown_seconds=int(spec.get("shutdownSeconds") or shutdown_seconds(cr)),
    )


def user_of(cr: Object) -> str:
    spec = cr.get("spec") or {}
    return str(spec.get("defaultUser") or spec.get("defaultuser") or DEFAULT_USER)


def role_names(cr: Object) -> set[str]:
    """Of `spec.roles`: a role that is made beside them may have none of these."""
    return {str(role.get("name")) for role in (cr.get("spec") or {}).get("roles") or ()}


def size_of(cr: Object) -> str:
    """How large the volume is to be, as far as the spec says."""
    return str(((cr.get("spec") or {}).get("storage") or {}).get("size") or DEFAULT_SIZE)


def pod_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-0"


def resources_of(cr: Object) -> Object:
    """The server's requests and limits: the spec's, each amount left out by its default."""
    return merged(
        (cr.get("spec") or {}).get("resources"),
        cpu=DEFAULT_CPU,
        memory=DEFAULT_MEMORY,
        memory_limit=DEFAULT_MEMORY_LIMIT,
    )


def shutdown_seconds(cr: Object) -> int:
    """How long a server may take to stop whose spec does not say it: its last checkpoint's time.

    No longer than it needs: a namespace that is deleted waits for half of its Pods' grace periods, whether
    they are gone or not (Kubernetes' namespace controller).
    """
    flush = quantity(resources_of(cr)["limits"]["memory"]) / MEMORY_PER_SECOND
    return min(LEAST_SHUTDOWN_SECONDS + int(flush), MOST_SHUTDOWN_SECONDS)


def access_mode_of(cr: Object) -> str:
    """Who may mount a new volume: the Pods of one node, or one Pod."""
    return str(((cr.get("spec") or {}).get("storage") or {}).get("accessMode") or "ReadWriteOnce")


def is_ephemeral(cr: Object) -> bool:
    """Whether the data lives and dies with the Pod."""
    return ((cr.get("spec") or {}).get("storage") or {}).get("ephemeral") is True


def is_protected(cr: Object) -> bool:
    return (cr.get("spec") or {}).get("deletionProtection") is True


def is_paused(cr: Object) -> bool:
    """Whether the resource is only observed: by `spec.paused`, or to read first what would be done."""
    return paused_by(cr) != ""


def is_planned(cr: Object) -> bool:
    """Whether the status is to have a plan."""
    return (cr.get("spec") or {}).get("mode") == PLAN


def plan_for(cr: Object) -> str:
    """The Postgresql that this one is a plan for; empty if it is one of its own."""
    return str((cr.get("spec") or {}).get("planFor") or "") if is_planned(cr) else ""


def paused_by(cr: Object) -> str:
    """The field that pauses the resource; empty if none does."""
    if (cr.get("spec") or {}).get("paused") is True:
        return PAUSED
    return MODE if is_planned(cr) else ""


def resumed(field: str) -> str:
    """What to set where this field pauses."""
    return f"set {field} to Apply" if field == MODE else f"set {field} to false"


def validate(cr: Object) -> Problem | None:
    """The first thing that cannot work, with field, value and remedy; never the password itself."""
    name, spec = cr["metadata"]["name"], cr.get("spec") or {}
    user, password = user_of(cr), spec.get("password")
    reference = (spec.get("passwordSecretRef") or {}).get("name")
    tls = spec.get("tls") or {}
    certificate, made = tls.get("secretName"), {f"{name}-{suffix}" for suffix in MADE_SECRETS}
    message = None
    if NAME.fullmatch(name) is None:
        message = (
            f"metadata.name {name!r} must be at most 52 of a-z, 0-9 and '-', starting with a letter: "
            "Service and Pod bear it. Create the resource under another name."
        )
    elif spec.get("defaultUser") and spec.get("defaultuser"):
        message = "spec.defaultUser and spec.defaultuser are both set: keep one of them."
    elif user in RESERVED or user.startswith("pg_"):
        message = f"spec.defaultUser {user!r} is a name PostgreSQL or Kindling keeps to itself: use another."
    elif len(user.encode()) > 63 or "\0" in user:
        message = f"spec.defaultUser {user!r} must be at most 63 bytes without NUL: use another."
    elif spec.get("hibernate") is True and is_ephemeral(cr):
        message = (
            "spec.hibernate is true and so is spec.storage.ephemeral, whose data goes with the Pod: delete "
            "the resource, or set spec.hibernate to false."
        )
    elif password is not None and (not password or "\0" in password):
        message = (
            "spec.password must not be empty nor contain NUL: set one, or leave it out to have one made."
        )
    elif password is not None and reference is not None:
        message = "spec.password and spec.passwordSecretRef are both set: keep one of them."
    elif reference in made:
        message = (
            f"spec.passwordSecretRef.name {reference!r} names a Secret that is made from this resource: "
            "refer to one of your own, or leave it out to have a password made."
        )
    elif certificate in made:
        message = (
            f"spec.tls.secretName {certificate!r} names a Secret that is made from this resource: refer to "
            "one of your own, or leave it out to have a certificate made."
        )
    elif certificate and tls.get("issuerRef"):
        message = (
            f"spec.tls.secretName {certificate!r} and spec.tls.issuerRef both give the certificate: keep one "
            "of them."
        )
    elif tls.get("enabled") is False and (certificate or tls.get("issuerRef") or tls.get("required") is True):
        message = (
            "spec.tls.enabled is false, and spec.tls has more than that: leave out secretName, issuerRef and "
            "required, or set spec.tls.enabled to true."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None

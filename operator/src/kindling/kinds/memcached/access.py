"""Whether clients get into a cache with TLS or a login, and the Secret by which they do.

Only what is asked and what follows from the answers: `kindling.prober` asks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kindling.kinds import reasons, server_tls
from kindling.kinds.base import Child, ExternalResult, Observed, Probe, Problem
from kindling.kinds.kept_secrets import kept
from kindling.kinds.memcached import auth, observation, tls
from kindling.kinds.memcached.spec import Spec
from kindling.kinds.metadata import child_metadata, secret_data
from kindling.kinds.passwords import fingerprint
from kindling.kinds.service_template import host_of
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

MEMBERS = "access/"
"""Before the Pod's name, in the name of the member that is asked for nothing else."""
LOGIN, CERTIFICATE = "login", "certificate"
"""Facts of an answer: whether the first password is accepted, and what certificate is served."""


@dataclass(frozen=True, kw_only=True)
class AccessRequest:
    """Whether memcached lets its clients in, and gives a certificate.

    With `ca`, in PEM, only a server is spoken to that proves with a certificate of it to be `name`. With
    `passwords`, the first one that is accepted is the login; while a new one is on its way, that is not the
    first.
    """

    namespace: str
    host: str
    port: int
    pod: str = ""
    name: str = ""
    ca: str | None = None
    username: str = ""
    passwords: tuple[str, ...] = field(default=(), repr=False)


class Verdict(NamedTuple):
    """What the ready caches with TLS or a login say. `answered`: all of them, and each lets its clients in.

    `accepted`: each takes the newest password. `served` is the fingerprint of the certificate that all serve,
    `certificate` the one of those served that ends first.
    """

    answered: bool
    accepted: bool
    problem: Problem | None
    served: str | None
    certificate: Mapping[str, Any] | None


def is_secured(cr: Object) -> bool:
    return tls.is_enabled(cr) or auth.is_enabled(cr)


def without_secrets(cr: Object) -> Problem | None:
    """Why one is refused by an operator that has no right on Secrets."""
    if not is_secured(cr):
        return None
    field = "spec.tls.enabled" if tls.is_enabled(cr) else "spec.auth.enabled"
    return Problem(
        reason=reasons.INVALID_SPEC,
        message=f"{field} 'true' needs Secrets, on which this operator has no right, because it does not "
        f"serve Postgresql: set {field} to false, or have it serve Postgresql too (kindling:kinds).",
    )


def way(cr: Object, observed: Observed, pod: Object) -> dict[str, Any] | None:
    """The fields of a request beside the address; none of them for a Pod without TLS and login, and None for
    one that cannot be reached now: what it takes is not at hand.
    """
    found: dict[str, Any] = {}
    if server_tls.is_active(pod):
        if not (ca := trusted(cr, observed)):
            return None
        found |= {"name": host_of(cr), "ca": ca}
    if auth.is_active(pod):
        if not (passwords := auth.stored(cr, observed)):
            return None
        found |= {"username": auth.USERNAME, "passwords": tuple(passwords)}
    return found


def way_key(found: Mapping[str, Any]) -> Hashable:
    """Stands for them in a cache key, without a secret."""
    return found.get("ca"), tuple(fingerprint(password) for password in found.get("passwords", ()))


def probes(type: ResourceType, cr: Object, observed: Observed) -> dict[str, Probe]:
    """Of each ready Pod with TLS or a login."""
    made = {}
    for pod, endpoint in observation.ready(type, cr, observed):
        name = pod["metadata"]["name"]
        if found := way(cr, observed, pod) if is_secured(cr) else None:
            made[f"{MEMBERS}{name}"] = Probe(
                cache_key=(*observation.cache_key(pod, endpoint), way_key(found)),
                request=AccessRequest(
                    namespace=cr["metadata"]["namespace"],
                    host=endpoint.host,
                    port=endpoint.port,
                    pod=name,
                    **found,
                ),
            )
    return made


def verdict(type: ResourceType, cr: Object, observed: Observed) -> Verdict:
    asked = probes(type, cr, observed)
    results = [observed.result(name, probe.cache_key) for name, probe in asked.items()]
    said: list[ExternalResult] = [result for result in results if result is not None]
    bad = next((result for result in said if not result.ok), None)
    certificates = [found for result in said if (found := result.facts.get(CERTIFICATE))]
    prints = {found["fingerprint"] for found in certificates}
    with_tls = sum(server_tls.is_active(pod) for pod, _ in observation.ready(type, cr, observed))
    all_served = len(certificates) == with_tls and len(prints) == 1
    return Verdict(
        answered=len(said) == len(results) and bad is None,
        accepted=bool(results)
        and all(result is not None and result.ok and result.facts.get(LOGIN) is True for result in results),
        problem=Problem(reason=bad.reason, message=bad.message) if bad is not None else None,
        served=prints.pop() if all_served else None,
        certificate=min(certificates, key=lambda found: str(found["not_after"]), default=None),
    )


def _bound_authority(cr: Object, observed: Observed) -> str:
    """The authorities that applications trust by the binding, in PEM."""
    namespace, name = cr["metadata"]["namespace"], auth.binding_name(cr)
    return observed.secret(namespace=namespace, name=name).get(server_tls.AUTHORITY) or ""


def trusted(cr: Object, observed: Observed, *, served: str | None = None) -> str:
    """The authorities that a certificate of these caches may be of; `served` as in a verdict."""
    material = server_tls.present(cr, observed)
    return server_tls.trusted(cr, observed, material, served=served, known=_bound_authority(cr, observed))


def binding(
    type: ResourceType,
    cr: Object,
    spec: Spec,
    observed: Observed,
    *,
    material: server_tls.Material | None,
    password: str | None,
    served: str | None,
) -> list[Child]:
    """The Secret NAME-binding, of a resource with TLS or a login; one that is not needed any more stays."""
    if not is_secured(cr):
        return kept(type, cr, observed, auth.binding_name(cr))
    metadata = child_metadata(type, cr, name=auth.binding_name(cr))
    values = {
        "type": "memcached",
        "provider": "kindling",
        "host": host_of(cr),
        "port": str(spec.port),
    }
    if password is not None:
        values |= {"username": auth.USERNAME, "password": password}
    known = _bound_authority(cr, observed)
    if ca := server_tls.trusted(cr, observed, material, served=served, known=known):
        values[server_tls.AUTHORITY] = ca
    body = {"metadata": metadata, "type": "servicebinding.io/memcached", "data": secret_data(values)}
    return [Child(type=SECRET, body=body)]


def status(cr: Object, observed: Observed, found: Verdict) -> Object:
    """status.binding, status.tls and status.auth; the certificate last known while none was asked."""
    if not is_secured(cr):
        return {}
    known, made = cr.get("status") or {}, {}
    ref = Ref(SECRET, cr["metadata"]["namespace"], auth.binding_name(cr))
    if known.get("binding") or ref in observed.objects:
        made["binding"] = {"name": auth.binding_name(cr)}
    if tls.is_enabled(cr):
        served = found.certificate
        if served is not None:
            made["tls"] = {"notAfter": served["not_after"], "issuer": served["issuer"]}
        elif known.get("tls"):
            made["tls"] = known["tls"]
    if auth.is_enabled(cr) and (until := auth.valid_until(cr, observed)):
        made["auth"] = {"previousValidUntil": until}
    return made

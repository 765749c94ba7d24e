"""A server's certificate: which one it is to serve, the Secrets for it, and whom its clients trust.

The Secret NAME-server-tls is what the Pod mounts. It holds a certificate of the resource's own authority
(NAME-server-ca), renewed in time, or a copy of the one in a Secret of the user's or of cert-manager's. Only
what a server can start with is copied: so a bad Secret changes nothing, not even at a restart.

Of every kind with `spec.tls`; whether TLS is on at all, each says for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kindling.kinds import cert_manager, certificates, reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.certificates import Certificate, Pair
from kindling.kinds.kept_secrets import kept
from kindling.kinds.metadata import child_metadata, secret_data
from kindling.kinds.service_template import host_of
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

ANNOTATION, ACTIVE = "kindling.dev/tls", "active"
"""Of a Pod whose server has TLS."""
FILES = "/etc/kindling/tls"
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
"""The keys of a Secret of the type kubernetes.io/tls, and what cert-manager adds."""
AUTHORITY_KEY = "ca.key"
CERTIFICATE_FILE, KEY_FILE = f"{FILES}/{CERTIFICATE}", f"{FILES}/{KEY}"
AUTHORITY_FILE = f"{FILES}/{AUTHORITY}"

KEEPS = "The server keeps the certificate that it has."
DEFAULT_LIFE = timedelta(days=90)


@dataclass(frozen=True, kw_only=True)
class Material:
    """What the server is to serve; `authority`, in PEM, is what verifies it."""

    pair: Pair
    authority: str

    @property
    def certificate(self) -> Certificate | None:
        return certificates.read(self.pair.certificate)


def reference(cr: Object) -> str | None:
    """The Secret with a certificate that is not of the resource's own authority."""
    if cert_manager.issuer(cr) is not None:
        return cert_manager.secret_name(cr)
    return str(((cr.get("spec") or {}).get("tls") or {}).get("secretName") or "") or None


@dataclass(frozen=True)
class Switched:
    """What a kind asks of this module, of resources that have TLS on; of others nothing comes of it.

    `more` are the names that a certificate of the resource's own has beside those of `hosts`.
    """

    is_enabled: Callable[[Object], bool]
    more: Callable[[Object, Observed], list[str]] = lambda cr, observed: []

    def reference(self, cr: Object) -> str | None:
        """The Secret with a certificate that is not of the resource's own authority."""
        return reference(cr) if self.is_enabled(cr) else None

    def decide(
        self, cr: Object, observed: Observed, *, life: timedelta
    ) -> tuple[Material | None, Pair | None]:
        if not self.is_enabled(cr):
            return None, None
        return decide(cr, observed, life=life, more=self.more(cr, observed))

    def problem(self, cr: Object, observed: Observed) -> Problem | None:
        return problem(cr, observed) if self.is_enabled(cr) else None

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        return validate(cr, observed) if self.is_enabled(cr) else None

    def waiting(self, cr: Object, observed: Observed) -> Problem | None:
        return waiting(cr, observed) if self.is_enabled(cr) else None

    def deadlines(self, cr: Object, observed: Observed) -> Sequence[float]:
        return deadlines(cr, observed) if self.is_enabled(cr) else []


def secret_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-server-tls"


def authority_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-server-ca"


def secret_names(cr: Object) -> list[str]:
    """The Secrets whose content is needed."""
    named = reference(cr)
    return [secret_name(cr), authority_name(cr), *((named,) if named else ())]


def hosts(cr: Object) -> list[str]:
    """All names of the Service, the shortest first."""
    name, host = cr["metadata"]["name"], host_of(cr)
    return [name, host.removesuffix(".svc"), host, f"{host}.cluster.local"]


def is_active(pod: Object | None) -> bool:
    """Whether the Pod was created with TLS."""
    annotations = ((pod or {}).get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(ANNOTATION) == ACTIVE)


def present(cr: Object, observed: Observed) -> Material | None:
    """What NAME-server-tls holds, as far as a server starts with it."""
    material = _read(cr, observed, secret_name(cr))
    return material if material is not None and certificates.is_pair(material.pair) else None


def _read(cr: Object, observed: Observed, name: str) -> Material | None:
    found = observed.secret(namespace=cr["metadata"]["namespace"], name=name)
    certificate, key, authority = (found.get(each) or "" for each in (CERTIFICATE, KEY, AUTHORITY))
    if not (certificate and key and authority) or certificates.read(certificate) is None:
        return None
    return Material(pair=Pair(certificate, key), authority=authority)


def decide(
    cr: Object, observed: Observed, *, life: timedelta, more: Sequence[str] = ()
) -> tuple[Material | None, Pair | None]:
    """What the server is to serve, and the authority of the resource's own if that is needed.

    No material where the Secret of the user is bad and there was no other before.
    """
    named = reference(cr)
    if named is not None:
        given = None if problem(cr, observed) is not None else _read(cr, observed, named)
        return given or present(cr, observed), None
    authority = _authority(cr, observed) or certificates.make_authority(
        observed.entropy, name=authority_name(cr), now=observed.now
    )
    known, names = present(cr, observed), [*hosts(cr), *more]
    if known is None or not _holds(observed, known, authority, names):
        pair = certificates.make_server(
            observed.entropy,
            authority=authority,
            name=cr["metadata"]["name"],
            hosts=names,
            now=observed.now,
            life=life,
        )
    else:
        pair = known.pair
    return Material(pair=pair, authority=authority.certificate), authority


def _holds(observed: Observed, known: Material, authority: Pair, names: Sequence[str]) -> bool:
    """Whether the certificate of the resource's own authority needs no successor yet."""
    certificate = known.certificate
    return (
        certificate is not None
        and certificate.names == set(names)
        and observed.now < certificate.renewal
        and certificates.is_issued_by(known.pair.certificate, authority.certificate)
    )


def _authority(cr: Object, observed: Observed) -> Pair | None:
    """The one in NAME-server-ca, while it can sign."""
    found = observed.secret(namespace=cr["metadata"]["namespace"], name=authority_name(cr))
    pair = Pair(found.get(AUTHORITY) or "", found.get(AUTHORITY_KEY) or "")
    certificate = certificates.read(pair.certificate) if all(pair) else None
    usable = certificate is not None and observed.now < certificate.not_after and certificates.is_pair(pair)
    return pair if usable else None


def children(
    type: ResourceType, cr: Object, observed: Observed, *, material: Material | None, authority: Pair | None
) -> list[Child]:
    """The Secrets. One that is not needed any more stays."""
    made = []
    name = authority_name(cr)
    if authority is not None:
        made.append(
            Child(
                type=SECRET,
                create_only=True,
                restore_data=_authority(cr, observed) is None,
                body={
                    "metadata": child_metadata(type, cr, name=name),
                    "type": "Opaque",
                    "data": secret_data({AUTHORITY: authority.certificate, AUTHORITY_KEY: authority.key}),
                },
            )
        )
    else:
        made += kept(type, cr, observed, name)
    if material is None:
        return [*made, *kept(type, cr, observed, secret_name(cr))]
    values = {
        CERTIFICATE: material.pair.certificate,
        KEY: material.pair.key,
        AUTHORITY: material.authority,
    }
    body = {
        "metadata": child_metadata(type, cr, name=secret_name(cr)),
        "type": "kubernetes.io/tls",
        "data": secret_data(values),
    }
    return [*made, Child(type=SECRET, body=body)]


def trusted(
    cr: Object, observed: Observed, material: Material | None, *, served: str | None, known: str
) -> str:
    """The authorities that clients are to trust: while the server serves another certificate than the wanted
    one, or is not known to serve that, those that they trusted before too.

    `served` is the fingerprint of what the server serves, `known` the authorities that they trust now.
    """
    if material is None:
        return ""
    certificate = material.certificate
    if certificate is not None and served == certificate.fingerprint:
        return material.authority
    return certificates.merged(material.authority, known)


def problem(cr: Object, observed: Observed) -> Problem | None:
    """Why the Secret of the user or of cert-manager gives no certificate; never what it holds."""
    name = reference(cr)
    if name is None:
        return None
    if cert_manager.issuer(cr) is None:
        return _of_secret(cr, observed, name)
    found = cert_manager.problem(cr, observed, keeps=KEEPS)
    return found or cert_manager.of_issued(cr, _of_secret(cr, observed, name), keeps=KEEPS)


def _of_secret(cr: Object, observed: Observed, name: str) -> Problem | None:
    namespace, field, keeps = cr["metadata"]["namespace"], f"spec.tls.secretName {name!r}", KEEPS
    if Ref(SECRET, namespace, name) not in observed.objects:
        return Problem(
            reason=reasons.SECRET_NOT_FOUND,
            message=f"{field}: no such Secret exists; create it with {CERTIFICATE}, {KEY} and {AUTHORITY}, "
            f"as cert-manager does for a Certificate, or leave the field out. {keeps}",
        )
    found = observed.secret(namespace=namespace, name=name)
    missing = [key for key in (CERTIFICATE, KEY, AUTHORITY) if not found.get(key)]
    if missing:
        return Problem(
            reason=reasons.SECRET_NOT_FOUND,
            message=f"{field}: that Secret has nothing under the key {missing[0]!r}; put it there in PEM. "
            f"{keeps}",
        )
    pair, authority = Pair(found[CERTIFICATE], found[KEY]), found[AUTHORITY]
    certificate, host = certificates.read(pair.certificate), host_of(cr)
    reason, wrong = reasons.INVALID_CERTIFICATE, ""
    if certificate is None:
        wrong = f"{CERTIFICATE} is no certificate in PEM; put one there"
    elif not certificates.is_pair(pair):
        wrong = f"{KEY} (not shown) is not the key of {CERTIFICATE}; put the two of one pair there"
    elif not certificates.covers(certificate, host):
        names = ", ".join(sorted(certificate.names)[:5]) or "none"
        wrong = f"{CERTIFICATE} is for the DNS names {names}; have it issued for {host} too"
    elif not certificates.is_issued_by(pair.certificate, authority):
        wrong = (
            f"{AUTHORITY} is not the authority that issued {CERTIFICATE}; put that there, and those between "
            f"the two after the certificate in {CERTIFICATE}"
        )
    elif observed.now >= certificate.not_after:
        reason = reasons.CERTIFICATE_EXPIRED
        wrong = (
            f"{CERTIFICATE} has ended at {certificates.stamp(certificate.not_after)}; put a later one there"
        )
    elif observed.now < certificate.not_before:
        wrong = (
            f"{CERTIFICATE} begins at {certificates.stamp(certificate.not_before)}; put an earlier one there"
        )
    return Problem(reason=reason, message=f"{field}: {wrong}. {keeps}") if wrong else None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """A problem, where the server has no other certificate to go on with."""
    return _without(cr, observed) if cert_manager.issuer(cr) is None else None


def waiting(cr: Object, observed: Observed) -> Problem | None:
    """The same of a certificate by cert-manager, for which all but the server is made."""
    return _without(cr, observed) if cert_manager.issuer(cr) is not None else None


def _without(cr: Object, observed: Observed) -> Problem | None:
    if (found := problem(cr, observed)) is None or present(cr, observed) is not None:
        return None
    return replace(found, message=found.message.rpartition(" The server keeps")[0])


def deadlines(cr: Object, observed: Observed) -> Sequence[float]:
    """In how many seconds time alone changes something: a successor is due, or the user's has ended."""
    material = present(cr, observed)
    certificate = material.certificate if material is not None else None
    if certificate is None:
        return []
    moment = certificate.not_after if reference(cr) is not None else certificate.renewal
    return [max((moment - observed.now).total_seconds(), 1.0)]

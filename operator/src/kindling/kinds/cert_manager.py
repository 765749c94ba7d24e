"""A server's certificate by an issuer of cert-manager (`spec.tls.issuerRef`): the Certificate, how far it is.

cert-manager issues it into the Secret NAME-server-issued and renews it there; from then on that Secret is to
`server_tls` what one of the user's own is. cert-manager leaves the Secret where its Certificate is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kindling.kinds import reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import child_metadata
from kindling.kube.resources import CERTIFICATE, SECRET, Object, Ref, ResourceType

GROUP = "cert-manager.io"
FIELD = "spec.tls.issuerRef.name"
ISSUED_FOR = "cert-manager.io/certificate-name"
"""cert-manager's annotation of a Secret that it has made: the Certificate."""
SUFFIX = "server-issued"
_WORD = re.compile(r"[A-Za-z]{1,63}")


class Issuer(NamedTuple):
    """Who is to issue the certificate: `name`, and what of."""

    name: str
    kind: str
    group: str


def issuer(cr: Object) -> Issuer | None:
    """The one that the spec names."""
    found = ((cr.get("spec") or {}).get("tls") or {}).get("issuerRef") or {}
    if not found.get("name"):
        return None
    return Issuer(str(found["name"]), str(found.get("kind") or "Issuer"), str(found.get("group") or GROUP))


def secret_name(cr: Object) -> str:
    """The name of the Secret, and of the Certificate."""
    return f"{cr['metadata']['name']}-{SUFFIX}"


def _ref(cr: Object, type: ResourceType) -> Ref:
    return Ref(type, cr["metadata"]["namespace"], secret_name(cr))


def children(type: ResourceType, cr: Object, observed: Observed, *, hosts: Sequence[str]) -> list[Child]:
    """The Certificate, where one is asked for, can be made, and would take no Secret of the user's."""
    named = issuer(cr)
    if named is None or CERTIFICATE in observed.unserved or _taken(cr, observed):
        return []
    spec = {
        "secretName": secret_name(cr),
        "dnsNames": list(hosts),
        "usages": ["digital signature", "key encipherment", "server auth"],
        "privateKey": {"rotationPolicy": "Always"},
        "issuerRef": named._asdict(),
    }
    body = {"metadata": child_metadata(type, cr, name=secret_name(cr)), "spec": spec}
    return [Child(type=CERTIFICATE, body=body)]


def _taken(cr: Object, observed: Observed) -> bool:
    """Whether the Secret is another's: cert-manager would write over it."""
    secret = observed.objects.get(_ref(cr, SECRET))
    if secret is None or _ref(cr, CERTIFICATE) in observed.objects:
        return False
    annotations = secret["metadata"].get("annotations") or {}
    return bool(annotations.get(ISSUED_FOR) != secret_name(cr))


def described(named: Issuer) -> str:
    """The field and its value."""
    return f"{FIELD} {named.name!r}"


def problem(cr: Object, observed: Observed, *, keeps: str) -> Problem | None:
    """Why there is no certificate, or none for this spec, by what cert-manager says in conditions."""
    if (named := issuer(cr)) is None:
        return None
    name, namespace, field = secret_name(cr), cr["metadata"]["namespace"], described(named)
    if CERTIFICATE in observed.unserved:
        return Problem(
            reason=reasons.CERT_MANAGER_NOT_FOUND,
            message=f"{field}: this cluster has no {CERTIFICATE.plural}.{CERTIFICATE.group} in version "
            f"{CERTIFICATE.version}; install cert-manager, or leave spec.tls.issuerRef out. {keeps}",
        )
    if _taken(cr, observed):
        return Problem(
            reason=reasons.NAME_CONFLICT,
            message=f"{field}: Secret {name}, into which cert-manager is to issue, exists and is not of "
            f"Certificate {name}; it was not changed. Delete that Secret, or name it in spec.tls.secretName "
            f"in place of spec.tls.issuerRef. {keeps}",
        )
    where = f" in namespace {namespace!r}" if named.kind == "Issuer" else ""
    look = (
        f"see that {named.kind} {named.name!r}{where} exists and is Ready; "
        f"`kubectl describe certificate {name}` says more. {keeps}"
    )
    certificate = observed.objects.get(_ref(cr, CERTIFICATE)) or {}
    ready, issuing = (_condition(certificate, type) for type in ("Ready", "Issuing"))
    if ready.get("status") == "True" and _ref(cr, SECRET) in observed.objects:
        return None
    if issuing.get("status") == "False":
        return Problem(
            reason=reasons.CERTIFICATE_NOT_ISSUED,
            message=f"{field}: cert-manager could not have Certificate {name} issued{_why(issuing)}, and "
            f"tries again by itself, an hour later at first: {look}",
        )
    return Problem(
        reason=reasons.CERTIFICATE_PENDING,
        message=f"{field}: Certificate {name} is not issued yet{_why(ready)}. If that lasts, {look}",
        transient=True,
    )


def of_issued(cr: Object, found: Problem | None, *, keeps: str) -> Problem | None:
    """What is wrong with what was issued, of which `found` speaks as of a Secret of the user's own."""
    if found is None or (named := issuer(cr)) is None:
        return None
    wrong = found.message.partition(": ")[2].partition(";")[0]
    message = (
        f"{described(named)} has issued into Secret {secret_name(cr)} what the server cannot serve: "
        f"{wrong}; name an issuer that issues for the names of the Service, with its authority in ca.crt, or "
        f"use spec.tls.secretName. {keeps}"
    )
    return Problem(reason=found.reason, message=message)


def _condition(certificate: Object, type: str) -> Object:
    """What is said of the Certificate as it stands."""
    found = find_condition(certificate.get("status") or {}, type)
    generation = (certificate.get("metadata") or {}).get("generation") or 0
    return found if (found.get("observedGeneration") or generation) >= generation else {}


def _why(condition: Object) -> str:
    """Its reason, if that is a word; the message may be anything."""
    found = _WORD.fullmatch(str(condition.get("reason") or ""))
    return f" ({found[0]})" if found else ""

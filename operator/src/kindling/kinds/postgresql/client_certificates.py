"""spec.roles[].clientCertificate: a role logs in with a certificate by the resource's own authority.

The role's Secret has the certificate, whose common name is the role's name, and its key. The server checks
it against the authority that its own certificate is of (`ssl_ca_file`), which it reads again with that. Which
roles have to show one, `hba` says to the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kindling.kinds import cert_manager, certificates, reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.certificates import Certificate, Pair
from kindling.kinds.metrics import unix_time
from kindling.kinds.postgresql import tls
from kindling.kinds.server_tls import AUTHORITY_FILE, CERTIFICATE, KEY, Material
from kindling.kube.resources import Object

FIELD = "clientCertificate"
PARAMETER = "ssl_ca_file"
CERTIFICATE_ALONE, WITH_PASSWORD = "cert", "scram-sha-256 clientcert=verify-full"
"""The methods of pg_hba.conf."""


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """Who signs, and for how long. `trusted`: the server is known to have read this authority."""

    authority: Pair
    life: timedelta
    trusted: bool

    def issue(self, name: str, present: Mapping[str, str], observed: Observed) -> Pair:
        """The role's certificate: the present one of its Secret, or a successor where that is due.

        A new authority is the server's first: until the server has read it, the role goes on with what it
        has.
        """
        pair = Pair(present.get(CERTIFICATE) or "", present.get(KEY) or "")
        found = read(pair)
        kept = (
            found is not None
            and found.common_name == name
            and observed.now < found.renewal
            and (not self.trusted or certificates.is_issued_by(pair.certificate, self.authority.certificate))
        )
        if kept:
            return pair
        return certificates.make_client(
            observed.entropy, authority=self.authority, name=name, now=observed.now, life=self.life
        )


def issuer(
    material: Material | None, authority: Pair | None, *, served: str | None, life: timedelta
) -> Issuer | None:
    """`served` is the fingerprint of what the server serves. None where the authority is not our own."""
    if material is None or authority is None or (certificate := material.certificate) is None:
        return None
    return Issuer(authority=authority, life=life, trusted=served == certificate.fingerprint)


def read(pair: Pair) -> Certificate | None:
    """What the certificate says, if the key is its own."""
    found = certificates.read(pair.certificate) if all(pair) else None
    return found if found is not None and certificates.is_pair(pair) else None


def method(item: Object) -> str:
    """By which a role of the spec logs in; empty for a password alone."""
    given = item.get(FIELD) or {}
    if item.get("login") is not True or given.get("enabled") is not True:
        return ""
    return WITH_PASSWORD if given.get("passwordRequired") is True else CERTIFICATE_ALONE


def methods(cr: Object) -> dict[str, str]:
    """Of the roles that have to show a certificate, by name, in the order of the spec."""
    listed = (cr.get("spec") or {}).get("roles") or ()
    return {str(item["name"]): found for item in listed if (found := method(item))}


def parameters(cr: Object) -> dict[str, str]:
    """What the server needs, so that it asks clients for a certificate."""
    return {PARAMETER: AUTHORITY_FILE} if methods(cr) else {}


def validate(cr: Object) -> Problem | None:
    """What only a spec from before the CRD's rules has; with field, value and remedy."""
    name, message = next(iter(methods(cr)), None), None
    where = f"spec.roles[{name}].{FIELD}"
    if name is not None and not tls.is_enabled(cr):
        message = f"{where} needs TLS, and spec.tls.enabled is false: set that to true, or leave {FIELD} out."
    elif name is not None and (given := tls.reference(cr)) is not None:
        issuer = cert_manager.issuer(cr)
        field = f"spec.tls.secretName {given!r}" if issuer is None else cert_manager.described(issuer)
        message = (
            f"{where} is signed by an authority of the resource's own, which {field} replaces: leave one "
            "of the two out."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


def not_after(present: Mapping[str, str]) -> datetime | None:
    """When the certificate in a role's Secret ends."""
    found = certificates.read(present.get(CERTIFICATE) or "")
    return found.not_after if found is not None else None


def seconds_left(present: Mapping[str, str], observed: Observed) -> list[float]:
    """In how many seconds the successor of the certificate in a role's Secret is due."""
    found = certificates.read(present.get(CERTIFICATE) or "")
    return [max((found.renewal - observed.now).total_seconds(), 1.0)] if found is not None else []


def first_end(cr: Object) -> float | None:
    """When the first of the roles' certificates ends, by the status, as seconds since 1970."""
    roles = (cr.get("status") or {}).get("roles") or ()
    ends = [unix_time((role.get(FIELD) or {}).get("notAfter")) for role in roles]
    return min((end for end in ends if end is not None), default=None)

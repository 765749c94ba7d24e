"""spec.tls of a Postgresql, whose server has TLS unless it is off; `kinds.server_tls` has the rest."""

from __future__ import annotations

from kindling.kinds import cert_manager
from kindling.kinds.server_tls import (
    CERTIFICATE_FILE,
    KEY_FILE,
    Switched,
    authority_name,
    secret_name,
)
from kindling.kube.resources import Object

# Where the Pod has the files, and nowhere else: with `ssl` in another place, a Pod of an earlier template
# would not start.
SETTINGS = [
    "-c", "ssl=on",
    "-c", f"ssl_cert_file={CERTIFICATE_FILE}",
    "-c", f"ssl_key_file={KEY_FILE}",
]  # fmt: skip


def is_enabled(cr: Object) -> bool:
    return _spec(cr).get("enabled") is not False


def is_required(cr: Object) -> bool:
    return is_enabled(cr) and _spec(cr).get("required") is True


def is_requested(cr: Object) -> bool:
    """Whether the spec itself asks for TLS, so that a running server is restarted for it if it must be."""
    return is_enabled(cr) and isinstance((cr.get("spec") or {}).get("tls"), dict)


def needs_cert_manager(cr: Object) -> bool:
    return is_enabled(cr) and cert_manager.issuer(cr) is not None


def _spec(cr: Object) -> Object:
    found: Object = (cr.get("spec") or {}).get("tls") or {}
    return found


_SWITCHED = Switched(is_enabled)
reference, decide, deadlines = _SWITCHED.reference, _SWITCHED.decide, _SWITCHED.deadlines
problem, validate, waiting = _SWITCHED.problem, _SWITCHED.validate, _SWITCHED.waiting


def secret_names(cr: Object) -> list[str]:
    """The Secrets whose content is needed; those that are kept too, where TLS is off."""
    named = reference(cr)
    return [secret_name(cr), authority_name(cr), *((named,) if named else ())]

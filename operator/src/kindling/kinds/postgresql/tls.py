"""spec.tls of a Postgresql, whose server has TLS unless it is off; `kinds.server_tls` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from kindling.kinds import server_tls
from kindling.kinds.base import Observed, Problem
from kindling.kinds.certificates import Pair
from kindling.kinds.server_tls import (
    ACTIVE,
    ANNOTATION,
    AUTHORITY,
    CERTIFICATE,
    CERTIFICATE_FILE,
    DEFAULT_LIFE,
    FILES,
    KEY,
    KEY_FILE,
    Material,
    authority_name,
    children,
    hosts,
    is_active,
    present,
    secret_name,
    trusted,
)
from kindling.kube.resources import Object

__all__ = [
    "ACTIVE",
    "ANNOTATION",
    "AUTHORITY",
    "CERTIFICATE",
    "CERTIFICATE_FILE",
    "DEFAULT_LIFE",
    "FILES",
    "KEY",
    "KEY_FILE",
    "SETTINGS",
    "Material",
    "authority_name",
    "children",
    "deadlines",
    "decide",
    "hosts",
    "is_active",
    "is_enabled",
    "is_requested",
    "is_required",
    "present",
    "problem",
    "reference",
    "secret_name",
    "secret_names",
    "trusted",
    "validate",
]

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


def _spec(cr: Object) -> Object:
    found: Object = (cr.get("spec") or {}).get("tls") or {}
    return found


def reference(cr: Object) -> str | None:
    """The Secret with a certificate of the user's own."""
    return server_tls.reference(cr) if is_enabled(cr) else None


def secret_names(cr: Object) -> list[str]:
    """The Secrets whose content is needed."""
    named = reference(cr)
    return [secret_name(cr), authority_name(cr), *((named,) if named else ())]


def decide(cr: Object, observed: Observed, *, life: timedelta) -> tuple[Material | None, Pair | None]:
    """As in `server_tls`; None of both without TLS."""
    return server_tls.decide(cr, observed, life=life) if is_enabled(cr) else (None, None)


def problem(cr: Object, observed: Observed) -> Problem | None:
    """Why the Secret that the spec names gives no certificate; never what it holds."""
    return server_tls.problem(cr, observed) if is_enabled(cr) else None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """A problem, where the server has no other certificate to go on with."""
    return server_tls.validate(cr, observed) if is_enabled(cr) else None


def deadlines(cr: Object, observed: Observed) -> Sequence[float]:
    """In how many seconds time alone changes something: a successor is due, or the user's has ended."""
    return server_tls.deadlines(cr, observed) if is_enabled(cr) else []

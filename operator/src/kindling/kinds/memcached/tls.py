"""spec.tls of a Memcached, which has none unless that is switched on; `kinds.server_tls` has the rest.

memcached reads a renewed certificate on the command refresh_certs, which a program beside it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from kindling.kinds import server_tls
from kindling.kinds.base import Observed, Problem
from kindling.kinds.certificates import Pair
from kindling.kinds.server_tls import CERTIFICATE_FILE, KEY_FILE, Material
from kindling.kube.resources import Object

OPTIONS = ["--enable-ssl", "-o", f"ssl_chain_cert={CERTIFICATE_FILE},ssl_key={KEY_FILE}"]
"""Of memcached, which takes TLS 1.2 at least by itself."""


def is_enabled(cr: Object) -> bool:
    return ((cr.get("spec") or {}).get("tls") or {}).get("enabled") is True


def reference(cr: Object) -> str | None:
    """The Secret with a certificate of the user's own."""
    return server_tls.reference(cr) if is_enabled(cr) else None


def secret_names(cr: Object) -> list[str]:
    """The Secrets whose content is needed."""
    return server_tls.secret_names(cr) if is_enabled(cr) else []


def decide(cr: Object, observed: Observed, *, life: timedelta) -> tuple[Material | None, Pair | None]:
    """As in `server_tls`; None of both without TLS."""
    return server_tls.decide(cr, observed, life=life) if is_enabled(cr) else (None, None)


def problem(cr: Object, observed: Observed) -> Problem | None:
    """Why the Secret that the spec names gives no certificate; never what it holds."""
    return server_tls.problem(cr, observed) if is_enabled(cr) else None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """A problem, where memcached has no other certificate to go on with."""
    return server_tls.validate(cr, observed) if is_enabled(cr) else None


def deadlines(cr: Object, observed: Observed) -> Sequence[float]:
    """In how many seconds time alone changes something: a successor is due, or the user's has ended."""
    return server_tls.deadlines(cr, observed) if is_enabled(cr) else []

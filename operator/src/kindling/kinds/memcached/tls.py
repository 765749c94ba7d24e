"""spec.tls of a Memcached, which has none unless that is switched on; `kinds.server_tls` has the rest.

memcached reads a renewed certificate on the command refresh_certs, which a program beside it gives.
"""

from __future__ import annotations

from kindling.kinds import server_tls
from kindling.kinds.base import Observed
from kindling.kinds.server_tls import CERTIFICATE_FILE, KEY_FILE, Switched
from kindling.kube.resources import STATEFUL_SET, Object, Ref

OPTIONS = ["--enable-ssl", "-o", f"ssl_chain_cert={CERTIFICATE_FILE},ssl_key={KEY_FILE}"]
"""Of memcached, which takes TLS 1.2 at least by itself."""


def is_enabled(cr: Object) -> bool:
    return ((cr.get("spec") or {}).get("tls") or {}).get("enabled") is True


def _of_each(cr: Object, observed: Observed) -> list[str]:
    """The names of a StatefulSet's Pods, while there is one or is to be."""
    meta, asked = cr["metadata"], (cr.get("spec") or {}).get("workload")
    named = (
        asked == STATEFUL_SET.kind or Ref(STATEFUL_SET, meta["namespace"], meta["name"]) in observed.objects
    )
    # Not of the shortest name: OpenSSL takes no `*` before fewer than two labels.
    return [f"*.{name}" for name in server_tls.hosts(cr)[1:]] if named else []


_SWITCHED = Switched(is_enabled, _of_each)
reference, decide, deadlines = _SWITCHED.reference, _SWITCHED.decide, _SWITCHED.deadlines
problem, validate = _SWITCHED.problem, _SWITCHED.validate


def secret_names(cr: Object) -> list[str]:
    """The Secrets whose content is needed."""
    return server_tls.secret_names(cr) if is_enabled(cr) else []

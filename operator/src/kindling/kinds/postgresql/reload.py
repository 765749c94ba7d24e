"""What a running server reads again without a restart: its certificate, and the rules of login.

Both are files of the Pod, which follow their Secret and ConfigMap after a minute or so. This is what is asked
and wanted of the server; `kindling.prober.reload` carries it out.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from kindling.kinds import reasons, server_tls
from kindling.kinds.base import ExternalAction, ExternalResult, Observed, Probe
from kindling.kinds.postgresql import login
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.observation import find_pod
from kindling.kube.resources import Object

MEMBER = "files"
"""The member: the files that the running server has read."""
RETRY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Reload:
    """Have the server read its files again when they have changed, until it serves those that are wanted.

    `fingerprint` is that of the certificate which is to be served, None without TLS; `tls_required`: nobody
    is to come in without TLS, as `user` or another. `hba` is the pg_hba.conf that it is to have read, and
    None where that is not asked. Without `apply` nothing is done, only compared. The facts of an answer are
    `rules`, whether they are in force, `done`, whether all is, and `hba`, the rules in force as the server
    says them. Until the Pod has the files the answer is good without that, so that nothing else waits for
    it. It is not good where the server cannot use a line; then it has not been asked to read the rules.
    """

    host: str
    port: int
    namespace: str
    pod: str
    superuser: str
    superuser_password: str | None = field(repr=False)
    ca: str | None
    fingerprint: str | None
    user: str
    tls_required: bool
    hba: str | None = None
    apply: bool = True
    cache_key: Hashable
    check: ClassVar[bool] = False


def desired(cr: Object, observed: Observed, server: Login | None) -> Reload | None:
    """None where it has neither TLS nor lines of the spec, or cannot be asked yet."""
    pod, material = find_pod(cr, observed), server_tls.present(cr, observed)
    certificate = material.certificate if material is not None else None
    if server is None or pod is None or (server.ca is None and server.hba is None):
        return None
    if server.ca is not None and certificate is None:
        return None
    fingerprint = certificate.fingerprint if server.ca is not None and certificate is not None else None
    return Reload(
        host=server.host,
        port=server.port,
        namespace=server.namespace,
        pod=server.pod,
        superuser=server.superuser,
        superuser_password=server.superuser_password,
        ca=server.ca,
        fingerprint=fingerprint,
        user=server.user,
        tls_required=bool(server.tls_required),
        hba=server.hba,
        apply=server.provision,
        cache_key=(
            cr["metadata"]["uid"],
            pod["metadata"]["uid"],
            login.starts(pod),
            fingerprint,
            server.tls_required,
            server.hba,
        ),
    )


def probes(wanted: Reload | None, observed: Observed) -> dict[str, Probe]:
    """None that is repeated: the answer is kept."""
    if wanted is None or not is_done(observed.result(MEMBER, wanted.cache_key)):
        return {}
    return {MEMBER: Probe(cache_key=wanted.cache_key, request=replace(wanted, apply=False), once=True)}


def external_actions(
    wanted: Reload | None, server: Login | None, cr: Object, observed: Observed
) -> list[ExternalAction]:
    """`reload`, while the server has read other files than the wanted ones."""
    if wanted is None or not wanted.apply or is_done(observed.result(MEMBER, wanted.cache_key)):
        return []
    if not _differs(wanted, server, cr, observed):
        return []
    return [ExternalAction(name="reload", member=MEMBER, cache_key=wanted.cache_key, request=wanted)]


def is_done(answer: ExternalResult | None) -> bool:
    """Whether the server serves what is wanted."""
    return answer is not None and answer.ok and answer.facts.get("done") is True


def is_unread(answer: ExternalResult | None) -> bool:
    """Whether the server is to be asked again soon; not for a line that only an edit puts right."""
    return answer is not None and not is_done(answer) and answer.reason != reasons.INVALID_HBA


def has_rules(answer: ExternalResult | None) -> bool:
    """Whether the rules of login are in force since it has read its files again."""
    return answer is not None and answer.ok and answer.facts.get("rules") is True


def _differs(wanted: Reload, server: Login | None, cr: Object, observed: Observed) -> bool:
    """By the server's own word: what it serves, and whether its rules are the wanted ones."""
    answer = observed.result(login.SERVER, server.cache_key) if server is not None else None
    served = login.served(cr, observed).get("fingerprint")
    other = None not in (served, wanted.fingerprint) and served != wanted.fingerprint
    return other or has_other_rules(answer) or login.is_untrusted(answer)


def has_other_rules(answer: ExternalResult | None) -> bool:
    """Whether the server, asked for just this, has read other rules of login than the wanted ones."""
    return answer is not None and answer.facts.get("rules") is False

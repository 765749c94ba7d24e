"""A superuser's session in a database that everybody has, for a question that needs one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from kindling.kinds.postgresql.login import SuperuserRequest
from kindling.prober.sessions import TEMPLATE, Address, Session, session
from kindling.prober.tls import trust_of


def superuser(address: Address, request: SuperuserRequest) -> AbstractContextManager[Session]:
    """Raises what `sessions.session` does."""
    return session(
        address,
        user=request.user,
        password=request.password,
        database=TEMPLATE,
        trust=trust_of(request),
        quiet=True,
    )

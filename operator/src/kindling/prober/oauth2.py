"""Access tokens for a broker's admin API, of an OAuth 2.0 issuer that nobody vouches for: little is read.

The consumers ask for their own, by `pulsar_consumer/oauth2.py` of their image.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from kindling.prober.admin_api import FAILURES, connected

LONGEST_ANSWER = 2**18
DISCOVERY = "/.well-known/openid-configuration"
DEFAULT_LIFE_SECONDS = 60
"""Of a token whose issuer does not say."""
REFUSALS = (400, 401, 403)

Allowed = Callable[[str, int], tuple[str, int]]
"""From a host and port to an address to connect to. Raises ValueError for those that are not asked."""


class IssuerRefused(Exception):
    """The issuer gives this client no token; its status."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class IssuerFailed(Exception):
    """There is no answer, or none that an issuer gives; why is the exception that says it."""

    def __init__(self, why: Exception) -> None:
        super().__init__(type(why).__name__)
        self.why = why


def fetch(asked: Mapping[str, str], context: ssl.SSLContext, allowed: Allowed) -> tuple[str, int]:
    """A new token, and for how many seconds it is good. `asked` is that of `access.Shown`.

    :raises IssuerRefused, IssuerFailed: when there is none.
    """
    try:
        found = _ask(context, allowed, asked["issuer"].rstrip("/") + DISCOVERY)
        form = {name: asked[name] for name in ("client_id", "client_secret")}
        form |= {name: asked[name] for name in ("audience", "scope") if asked.get(name)}
        form["grant_type"] = "client_credentials"
        answer = _ask(context, allowed, found["token_endpoint"], form)
        token, life = answer["access_token"], answer.get("expires_in")
        # As a header's value, it must not begin another one.
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise ValueError("no token")
    except FAILURES as error:
        raise IssuerFailed(error) from None
    return token, life if type(life) is int and 0 < life < 10**9 else DEFAULT_LIFE_SECONDS


def _ask(
    context: ssl.SSLContext, allowed: Allowed, url: str, form: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    address = urlsplit(url)
    if address.scheme != "https" or not address.hostname:
        raise ValueError("not https")
    host, port = address.hostname, address.port or 443
    path = f"{address.path}?{address.query}" if address.query else address.path or "/"
    headers = {"Accept": "application/json", "Connection": "close"}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    with connected(allowed(host, port), host, port, context) as connection:
        method, body = ("GET", None) if form is None else ("POST", urlencode(form))
        connection.request(method, path, body, headers)
        with connection.getresponse() as response:
            status, data = response.status, response.read(LONGEST_ANSWER)
    if form is not None and status in REFUSALS:
        raise IssuerRefused(status)
    if status != 200:
        raise ValueError("no answer of an issuer")
    found = orjson.loads(data)
    if not isinstance(found, dict):
        raise TypeError("no object")
    return found

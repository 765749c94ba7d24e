"""Access tokens of an OAuth 2.0 issuer, by client credentials (RFC 6749, section 4.4).

The client has this too, but does not say why it has no token: the issuer is away for a minute, or knows no
such client.
"""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from pulsar_consumer.settings import OAuth2

SECONDS = 5.0
"""For each step of a request."""
LONGEST_ANSWER = 2**18
RENEWED_AT = 0.8
"""Of a token's life: then there is time left to try again."""
DEFAULT_LIFE_SECONDS = 300.0
"""Of a token whose issuer does not say."""
PAUSE_SECONDS = 5.0
DISCOVERY = "/.well-known/openid-configuration"
ERRORS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "access_denied",
    }
)
"""What an issuer may call the cause; nothing else that it says is repeated."""
_FAILURES = (OSError, http.client.HTTPException, ValueError, TypeError, LookupError)

log = logging.getLogger("pulsar_consumer")


class IssuerRefused(Exception):
    """The issuer gives this client no token."""


class IssuerUnreachable(Exception):
    """The issuer gives no answer, or none that it should."""


class Tokens:
    """The token of one client, renewed by a thread of its own from the first on.

    `current` is for the client, which asks in a thread that must not wait.
    """

    def __init__(
        self, settings: OAuth2, ca_file: Path | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._ca_file, self._clock = settings, ca_file, clock
        self._lock = threading.Lock()
        self._token, self._renew_at, self._ends_at = "", 0.0, 0.0
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def current(self) -> str:
        """The last token; empty where there was none yet."""
        return self._token

    def ensure(self) -> str:
        """A token that has not ended.

        :raises IssuerRefused, IssuerUnreachable: when there is none, and the issuer gives none.
        """
        with self._lock:
            if self._clock() >= self._ends_at:
                self._renew()
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="oauth2", daemon=True)
                self._thread.start()
            return self._token

    def stop(self) -> None:
        """Renew it no more."""
        self._stopped.set()

    def _keep(self) -> None:
        while not self._stopped.wait(max(PAUSE_SECONDS / 5, self._renew_at - self._clock())):
            try:
                with self._lock:
                    if self._clock() >= self._renew_at:
                        self._renew()
            except (IssuerRefused, IssuerUnreachable) as error:
                log.warning("the access token cannot be renewed, trying again: %s", error)
                self._stopped.wait(PAUSE_SECONDS)

    def _renew(self) -> None:
        token, life = fetch(self._settings, self._ca_file)
        now = self._clock()
        self._token, self._renew_at, self._ends_at = token, now + RENEWED_AT * life, now + life


def fetch(settings: OAuth2, ca_file: Path | None) -> tuple[str, float]:
    """A new token, and for how many seconds it is good.

    :raises IssuerRefused, IssuerUnreachable: when there is none.
    """
    try:
        context = trusting()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        credentials = {
            name: (settings.files / file).read_text().strip()
            for name, file in (("client_id", "clientId"), ("client_secret", "clientSecret"))
        }
        issuer = settings.issuer.rstrip("/")
        found = _ask(context, f"{issuer}{DISCOVERY}")
        form = {"grant_type": "client_credentials", **credentials}
        form |= {name: value for name in ("audience", "scope") if (value := getattr(settings, name))}
        answer = _ask(context, str(found["token_endpoint"]), form)
        token, life = answer["access_token"], answer.get("expires_in")
        if not isinstance(token, str) or not token:
            raise ValueError("no token")
        return token, float(life) if type(life) is int and 0 < life < 10**9 else DEFAULT_LIFE_SECONDS
    except _FAILURES as error:
        raise IssuerUnreachable(_why(error)) from None


def trusting(ca_file: Path | None = None) -> ssl.SSLContext:
    """The authorities of a file, or the system's.

    Python 3.13 refuses what many private authorities issue, which lacks an extension; the client does not.

    :raises OSError: when the file cannot be read, or has no certificate.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _ask(context: ssl.SSLContext, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    address = urlsplit(url)
    if address.scheme != "https" or not address.hostname:
        raise ValueError("not https")
    connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=SECONDS, context=context)
    try:
        headers = {"Accept": "application/json", "Connection": "close"}
        if form is None:
            connection.request("GET", address.path, headers=headers)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            path = f"{address.path}?{address.query}" if address.query else address.path
            connection.request("POST", path, urlencode(form), headers)
        with connection.getresponse() as response:
            status, body = response.status, response.read(LONGEST_ANSWER)
    finally:
        connection.close()
    if form is not None and status in (400, 401, 403):
        raise IssuerRefused(f"status {status}{_cause(body)}")
    if status != 200:
        raise ValueError(f"status {status}")
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise TypeError("no object")
    return answer


def _cause(body: bytes) -> str:
    try:
        found = json.loads(body)["error"]
    except (ValueError, TypeError, LookupError):
        return ""
    return f" ({found})" if found in ERRORS else ""


def _why(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case FileNotFoundError() | PermissionError():
            return "a file with its certificate or the client's credentials cannot be read"
        case TimeoutError():
            return f"there is no answer within {SECONDS:g} s"
        case OSError() | http.client.HTTPException():
            return f"there is no connection, or it was cut ({type(error).__name__})"
        case ValueError() if str(error).startswith(("status ", "not https")):
            return str(error)
        case _:
            return "its answer has no token"

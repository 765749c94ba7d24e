"""An HTTP request to a server that nobody vouches for: one connection, no redirect, little is read."""

from __future__ import annotations

import http.client

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.http import LONGEST_BODY, HttpRequest

SECONDS = 5.0
"""For each step of it; the pool has a deadline for all."""
FAILURES = (OSError, http.client.HTTPException, ValueError)


def send(address: tuple[str, int], request: HttpRequest) -> ExternalResult:
    """Never raises for what a server may answer."""
    host, port = address
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        headers = {"Host": request.host, "Connection": "close"}
        connection.request(request.method, request.path, headers=headers)
        with connection.getresponse() as response:
            body = response.read(LONGEST_BODY).decode("utf-8", "replace")
            status = response.status
    except FAILURES as error:
        return _failed(request, f"{type(error).__name__}: {error}")
    finally:
        connection.close()
    if status >= 400:
        return _failed(request, f"status {status}")
    return ExternalResult(ok=True, facts={"status": status, "body": body})


def _failed(request: HttpRequest, why: str) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.NOT_RESPONDING,
        message=f"{request.method} {request.path} failed at {request.host}:{request.port}: {why}. It is "
        "repeated; see what runs there.",
    )

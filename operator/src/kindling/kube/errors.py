"""What the API server can answer instead of an object, as exceptions of their own.

Apart from the client, because the engine judges them without speaking HTTP.
"""

from __future__ import annotations

from kindling.kube.resources import Object


class ApiError(Exception):
    """An answer that is not a success; `reason` and `message` are the server's own words."""

    def __init__(self, *, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(ApiError):
    """404: no such object, or no such resource type (its CRD is missing)."""


class Conflict(ApiError):
    """409: it exists already, or a precondition (uid, resourceVersion) did not hold."""


class Rejected(ApiError):
    """400, 403, 405, 413, 422: the server will not have it as it is (quota, policy, immutable field)."""

    @property
    def namespace_is_deleted(self) -> bool:
        """Whether nothing can be created there any more, since the namespace is being deleted."""
        return self.status == 403 and "because it is being terminated" in self.message


class Unauthorized(ApiError):
    """401: the credentials are not, or no longer, good."""


class TooManyRequests(ApiError):
    """429 after all attempts of the client; `retry_after` in seconds."""

    retry_after: float = 1.0


class ServerError(ApiError):
    """5xx."""


class Unreachable(ApiError):
    """No answer at all: refused, reset or timed out."""

    def __init__(self, message: str) -> None:
        super().__init__(status=0, reason="Unreachable", message=message)


def error_from(*, status: int, body: Object, retry_after: float | None = None) -> ApiError:
    """The error for a Status body; a body that is none (a proxy's page) still yields a message."""
    reason = str(body.get("reason") or "")
    message = str(body.get("message") or f"HTTP {status}")
    kinds: dict[int, type[ApiError]] = {
        400: Rejected, 401: Unauthorized, 403: Rejected, 404: NotFound, 405: Rejected,
        409: Conflict, 413: Rejected, 422: Rejected, 429: TooManyRequests,
    }  # fmt: skip
    fallback = ServerError if status >= 500 else ApiError
    error = kinds.get(status, fallback)(status=status, reason=reason, message=message)
    if isinstance(error, TooManyRequests) and retry_after is not None:
        error.retry_after = retry_after
    return error

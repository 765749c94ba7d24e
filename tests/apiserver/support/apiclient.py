"""The smallest client that shows what the API server really says: JSON in, status and JSON out.

No Kubernetes package stands between, because each hides something under test: strict field
validation, the wording of a refusal, the table behind `kubectl get`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.apiserver.support.controlplane import ControlPlane

Json = dict[str, Any]

PLAIN = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML.
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
IDLE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Response:
    """An HTTP status and its JSON body, a metav1.Status where the request was refused."""

    status: int
    body: Json

    @property
    def message(self) -> str:
        """What a user would read; empty for an object."""
        return str(self.body.get("message", ""))

    def accepted(self) -> Json:
        """The body of a request that had to succeed; AssertionError with the server's words if not."""
        assert self.status in (200, 201), f"{self.status}: {self.message}"
        return self.body


class Api:
    """Requests over one kept connection; not for use by two threads at once.

    Every write is validated strictly: an unknown or doubled field is refused with 400, where the
    default would drop it in silence.
    """

    def __init__(self, plane: ControlPlane) -> None:
        address = urlsplit(plane.url)
        assert address.hostname is not None
        self._token = plane.token
        self._connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=30, context=ssl.create_default_context(cafile=plane.ca)
        )

        self._used = time.monotonic()

    def cut(self) -> None:
        """End a watch, from another thread."""
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = PLAIN,
        accept: str = PLAIN,
    ) -> Response:
        """One request; never raises for what the server says, only for a broken connection."""
        parameters = dict(query or {})
        if body is not None:
            parameters["fieldValidation"] = "Strict"
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept, "Content-Type": content_type}
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        payload = None if body is None else json.dumps(body)
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()  # The server may have; a request on it would then be lost.
        self._connection.request(method, target, body=payload, headers=headers)
        response = self._connection.getresponse()
        raw = response.read()
        self._used = time.monotonic()
        return Response(status=response.status, body=_json(raw))

    def get(self, path: str, *, accept: str = PLAIN) -> Response:
        return self.request("GET", path, accept=accept)

    def watch(self, path: str, *, since: str, seconds: int = 600) -> Iterator[Json]:
        """Events from a version on, until the server ends it; meanwhile this can be asked nothing else."""
        headers = {"Authorization": f"Bearer {self._token}"}
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": seconds}
        self._connection.timeout = None
        self._connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
        answer = self._connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)

    def create(self, path: str, body: Json, *, dry_run: bool = False) -> Response:
        """POST to a collection; with `dry_run` everything is checked and nothing stored."""
        return self.request("POST", path, body=body, query={"dryRun": "All"} if dry_run else None)

    def apply(self, path: str, body: Json, *, manager: str = "tests") -> Response:
        """Server-side apply of one object, as `kubectl apply --server-side` does it."""
        return self.request(
            "PATCH", path, body=body, query={"fieldManager": manager}, content_type=APPLY_PATCH
        )

    def merge(self, path: str, body: Json) -> Response:
        """RFC 7386 merge patch: null removes a field."""
        return self.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    def delete(self, path: str) -> Response:
        return self.request("DELETE", path)


def _json(raw: bytes) -> Json:
    """What the server says in plain text, as of a group that it does not know, as the message it is."""
    try:
        found: Json = json.loads(raw)
    except json.JSONDecodeError:
        return {"message": raw.decode(errors="replace").strip()}
    return found

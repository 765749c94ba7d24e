"""Who we are to the API server: one set of credentials, sessions made from it for kopf and for us.

Apart from the client, because kopf logs in with these too. A service account's token is read again
as the kubelet rotates it, so no session ever has to be thrown away for an expired token.
"""

from __future__ import annotations

import os
import time
from asyncio.sslproto import SSLProtocol
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import kopf

TOKEN_PATH = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
TOKEN_SECONDS = 60.0
TLS_BUFFER_BYTES = 64 * 1024
"""What each connection holds for what it receives. asyncio takes four times as much, which of the fifty
connections of an operator was a tenth of its memory; a TLS record has 16 KiB at most."""
METADATA_ONLY = "application/json;as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1,application/json;q=0.1"


class NoCredentials(Exception):
    """Neither a service account nor a usable kubeconfig; the message holds the remedy."""


def load_credentials() -> Credentials:
    """Credentials of the Pod's service account, else of the current context of the kubeconfig.

    :raises NoCredentials: when there are none, or they cannot be read.
    """
    settings = kopf.OperatorSettings()
    try:
        info = kopf.login_with_service_account(settings=settings)
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        if info is not None and host:
            # By address, as client-go does: the operator must live while the cluster's DNS does not.
            port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
            address = f"[{host}]" if ":" in host else host
            return Credentials(info=replace(info, server=f"https://{address}:{port}"), token_path=TOKEN_PATH)
        info = info or kopf.login_with_kubeconfig(settings=settings)
        if info is None:
            raise NoCredentials("found neither a service account nor a kubeconfig: set KUBECONFIG to one")
        credentials = Credentials(info=info)
        credentials.info.as_ssl_context()  # unreadable certificates are found here, not in the first request
        return credentials
    except (OSError, KeyError, ValueError, kopf.LoginError) as error:
        raise NoCredentials(
            f"no usable credentials: {type(error).__name__}: {error}; check KUBECONFIG"
        ) from error


class _Response(aiohttp.ClientResponse):
    """An empty list of metadata comes as `items: null`, which kopf does not expect."""

    async def json(self, **options: Any) -> Any:
        found = await super().json(**options)
        if isinstance(found, dict) and found.get("items", ()) is None:
            found["items"] = []
        return found


@dataclass
class Credentials:
    """Server address and credentials; `token_path` when the token is a file that is rotated."""

    info: kopf.ConnectionInfo
    token_path: Path | None = None
    _token: str = field(default="", repr=False)
    _read_at: float = field(default=float("-inf"), repr=False)

    @property
    def server(self) -> str:
        return self.info.server.rstrip("/")

    def session(
        self, *, limit: int, middleware: aiohttp.ClientMiddlewareType | None = None
    ) -> aiohttp.ClientSession:
        """A new session with at most `limit` connections; whoever asked closes it.

        Listing and watching Secrets yields their metadata alone, so that nobody holds what is in them.
        `middleware` sees every request and its response.
        """

        async def authorise(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            if self.token_path is not None:
                request.headers["Authorization"] = f"Bearer {self.token()}"
            if request.method == "GET" and request.url.path.endswith("/secrets"):
                suffix = "" if request.url.query.get("watch") == "true" else "List"
                request.headers["Accept"] = METADATA_ONLY.format(suffix=suffix)
            return await handler(request)

        SSLProtocol.max_size = TLS_BUFFER_BYTES  # of the process: asyncio has no option for one connection
        headers = self.info.as_http_headers() if self.token_path is None else {}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self.info.as_ssl_context()),
            headers={**headers, "User-Agent": "kindling"},
            proxy=self.info.proxy_url,
            middlewares=(authorise, middleware) if middleware is not None else (authorise,),
            response_class=_Response,
        )

    def token(self) -> str:
        """The service account's token, at most a minute old (the kubelet rotates it well before it ends)."""
        if self.token_path is not None and time.monotonic() - self._read_at > TOKEN_SECONDS:
            self._token = self.token_path.read_text().strip()
            self._read_at = time.monotonic()
        return self._token

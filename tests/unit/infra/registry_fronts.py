"""What stands before registries elsewhere, on the loopback: a server of tokens, and one that refuses.

The registry itself is Debian's real one (`registry_server`); it checks each token's signature.
"""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.unit.infra.registry_server import PASSWORD, USER

SERVICE, ISSUER = "kindling-registry", "kindling-tokens"
IDENTITY = "canary-identity-token"


@dataclass
class Tokens:
    """A server of tokens as the distribution specification has it (spec/auth/token and spec/auth/oauth)."""

    realm: str
    certificate: Path
    key: Path
    asked: list[str] = field(default_factory=list)

    @property
    def auth(self) -> dict[str, object]:
        """The registry's configuration of its token service."""
        return {
            "token": {
                "realm": self.realm,
                "service": SERVICE,
                "issuer": ISSUER,
                "rootcertbundle": str(self.certificate),
            }
        }

    def signed(self, scopes: list[str]) -> str:
        """A token for these, by the key that the registry knows the certificate of."""
        access = []
        for scope in scopes:
            sort, name, actions = scope.split(":")
            access.append({"type": sort, "name": name, "actions": actions.split(",")})
        der = self.certificate.read_text().split("-----")[2].replace("\n", "")
        now = int(time.time())
        parts = (
            {"typ": "JWT", "alg": "RS256", "x5c": [der]},
            {
                "iss": ISSUER,
                "sub": USER,
                "aud": SERVICE,
                "exp": now + 300,
                "nbf": now - 10,
                "iat": now,
                "jti": secrets.token_hex(8),
                "access": access,
            },
        )
        content = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self.key],
            input=content.encode(),
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout
        return f"{content}.{_encoded(signature)}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@contextmanager
def tokens(folder: Path) -> Iterator[Tokens]:
    """Gives tokens to USER with PASSWORD, and to whoever has IDENTITY; nobody else gets one."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "tokens.crt", folder / "tokens.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tokens",
         "-keyout", key, "-out", certificate],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            given = self.headers.get("Authorization", "")
            self._grant(query, "password" if given == right else "", field="token")

        def do_POST(self) -> None:
            form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            refreshed = form.get("grant_type") == ["refresh_token"] and form.get("refresh_token") == [
                IDENTITY
            ]
            self._grant(form, "identity" if refreshed else "", field="access_token")

        def _grant(self, query: dict[str, list[str]], by: str, *, field: str) -> None:
            known.asked.append(f"{self.command} {by or 'nobody'} {' '.join(query.get('scope', []))}".strip())
            granted = bool(by) and query.get("service") == [SERVICE]
            scopes = [each for scope in query.get("scope", []) for each in scope.split(" ")]
            body = json.dumps({field: known.signed(scopes)} if granted else {"errors": []}).encode()
            self.send_response(200 if granted else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Nothing to the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        known = Tokens(f"http://127.0.0.1:{running.server_port}/token", certificate, key)
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield known
        running.shutdown()


@contextmanager
def made_beforehand(behind: str, names: set[str]) -> Iterator[str]:
    """A registry that takes pushes for the repositories of these names alone, as Amazon's does."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_ANY(self) -> None:
            body = self._body()
            name = self.path.removeprefix("/v2/").partition("/blobs/")[0].partition("/manifests/")[0]
            if self.command == "POST" and name not in names:
                words = f"The repository with name '{name}' does not exist in the registry with id '1'"
                error = json.dumps({"errors": [{"code": "NAME_UNKNOWN", "message": words}]}).encode()
                self._answer(404, {"Content-Type": "application/json"}, error)
                return
            connection = http.client.HTTPConnection(behind, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k.lower() != "transfer-encoding"}
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            kept = {k: v for k, v in answer.headers.items() if k.lower() != "transfer-encoding"}
            self._answer(answer.status, kept, answer.read())
            connection.close()

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_ANY

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, status: int, headers: dict[str, Any], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() != "content-length" or self.command == "HEAD":
                    self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Nothing to the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()

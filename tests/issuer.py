"""An OAuth 2.0 issuer of access tokens for client credentials, with OpenID Connect discovery.

Standard library and cryptography alone, and nothing else of the tests: `python3 issuer.py FOLDER` runs it in
a Pod too. The folder has `tls.crt`, `tls.key` and `settings.json`: `url`, `port`, `seconds` (a token's life),
`clients` (secrets by id); where it has `signing.key`, tokens are signed with that.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa


class Issuer:
    """`given`: the forms for which a token was given, without the secret. `away`: it answers 503."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "settings.json").read_text())
        self.url, self.seconds = str(settings["url"]), int(settings["seconds"])
        self.clients: dict[str, str] = dict(settings["clients"])
        self.given: list[dict[str, str]] = []
        self.away = False
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if (kept := folder / "signing.key").exists():
            found = serialization.load_pem_private_key(kept.read_bytes(), None)
            assert isinstance(found, rsa.RSAPrivateKey)
            self._key = found
        self._server = ThreadingHTTPServer((str(settings.get("host", "")), int(settings["port"])), _Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.issuer = self  # type: ignore[attr-defined]

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def serve(self) -> None:
        self._server.serve_forever(0.05)

    @contextmanager
    def running(self) -> Iterator[Issuer]:
        thread = threading.Thread(target=self.serve, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if self.away:
            return 503, {"error": "secret words"}
        match path:
            case "/.well-known/openid-configuration":
                return 200, {
                    "issuer": self.url,
                    "token_endpoint": f"{self.url}/token",
                    "jwks_uri": f"{self.url}/keys",
                    "id_token_signing_alg_values_supported": ["RS256"],
                }
            case "/keys":
                numbers = self._key.public_key().public_numbers()
                names = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one"}
                return 200, {"keys": [{**names, "n": _number(numbers.n), "e": _number(numbers.e)}]}
            case "/token":
                return self._token(form)
        return 404, {}

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        secret = form.pop("client_secret", "")
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        if self.clients.get(form.get("client_id", "")) != secret or not secret:
            return 401, {"error": "invalid_client", "error_description": "secret words"}
        self.given.append(form)
        now = int(time.time())
        claims: dict[str, Any] = {"iss": self.url, "sub": form["client_id"], "aud": form.get("audience", "")}
        claims |= {"iat": now, "nbf": now - 5, "exp": now + self.seconds, "jti": str(time.time_ns())}
        return 200, {
            "access_token": self.signed(claims), "token_type": "Bearer", "expires_in": self.seconds,
        }  # fmt: skip

    def signed(self, claims: dict[str, Any]) -> str:
        """A JSON Web Token."""
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{_encoded(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self._answer(dict(parse_qsl(body)))

    def _answer(self, form: dict[str, str]) -> None:
        status, answer = self.server.issuer.answer(self.path, form)  # type: ignore[attr-defined]
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


if __name__ == "__main__":
    Issuer(Path(sys.argv[1])).serve()

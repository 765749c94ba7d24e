"""The stores of Azure and Google, as far as they exist on one machine: Azurite, and fake-gcs-server.

Azurite checks keys, SAS tokens and what they allow. fake-gcs-server lets everybody in; the key of a service
account is checked by a server of tokens here, as the cloud's own does it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode
from xml.etree import ElementTree

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from kindling.kinds.backup import store_options, stores

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool
from tests.cluster.backup_images import BUCKET, Gateway, certificate
from tests.ports import free_port

FOLDER = Path(__file__).parent
FILES = "/etc/kindling/backup"
ACCOUNT, ACCOUNT_KEY = "canaryaccount", base64.b64encode(b"canary-account-key").decode()
VERSION = "2021-06-08"


@dataclass(frozen=True)
class CloudStore:
    """One whose options are the operator's own; `keys` are those of the Secret."""

    url: str
    endpoint: str
    ca: Path
    keys: dict[str, str]
    gateway: Gateway

    @property
    def secrets(self) -> tuple[str, ...]:
        if stores.ACCOUNT_KEY in self.keys:
            return (self.keys[stores.ACCOUNT_KEY],)
        return tuple(self.service_account["private_key"].splitlines()[1:-1])

    @property
    def service_account(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.keys[stores.SERVICE_ACCOUNT_KEY])
        return found

    def _read(self, **changes: str) -> stores.Store:
        return stores.read({"targetURL": self.url, "endpointURL": self.endpoint, **changes})

    def options(self, *, keys: dict[str, str] | None = None, **changes: str) -> dict[str, str]:
        return store_options.options(self._read(**changes), keys or self.keys, files=FILES)

    def files(self) -> dict[str, str]:
        return store_options.files_of(self._read(), self.keys)

    def store(self, path: str, **changes: Any) -> dict[str, Any]:
        return {"url": self.url, "endpoint": self.endpoint, "ca": True, "path": path, **changes}

    def mount(self, *, writes: bool) -> list[str]:
        return []

    def segment(self, path: str, name: str) -> Path | None:
        return None

    def names(self, path: str) -> list[str]:
        """The objects below a path of the bucket, by its owner's question to the store itself."""
        if stores.ACCOUNT_NAME in self.keys:
            query = {"comp": "list", "prefix": path[1:], "restype": "container"}
            found = ElementTree.fromstring(azure(self, "GET", query))
            return [each.text or "" for each in found.iter("Name")]
        query = {"prefix": path[1:]}
        url = f"{self.endpoint}/storage/v1/b/{BUCKET}/o?{urlencode(query)}"
        return [each["name"] for each in json.loads(fetch(self, url)).get("items", [])]


def fetch(store: CloudStore, url: str, method: str = "GET", **more: Any) -> bytes:
    request = urllib.request.Request(url, method=method, **more)
    context = ssl.create_default_context(cafile=store.ca)
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:
        body: bytes = answer.read()
    return body


def signature(text: str) -> str:
    """Azure's, with the key of the account."""
    made = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256)
    return base64.b64encode(made.digest()).decode()


def azure(store: CloudStore, method: str, query: dict[str, str]) -> bytes:
    """A request about the container, signed with the account's key."""
    headers = {"x-ms-date": f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}", "x-ms-version": VERSION}
    lines = [method, *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    lines += [f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}", *(f"{name}:{value}" for name, value in sorted(query.items()))]
    signed = "\n".join(lines)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature(signed)}"
    url = f"{store.endpoint}/{ACCOUNT}/{BUCKET}?{urlencode(query)}"
    return fetch(store, url, method, headers=headers)


def sas(permissions: str) -> str:
    """A token of the account for its blobs, with these rights."""
    end = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    lines = [ACCOUNT, permissions, "b", "co", "", end, "", "https", VERSION, "", ""]
    values = {"sv": VERSION, "ss": "b", "srt": "co", "sp": permissions, "se": end, "spr": "https"}
    return urlencode({**values, "sig": signature("\n".join(lines))}, quote_via=quote)


@contextmanager
def azurite(folder: Path) -> Iterator[CloudStore]:
    """Azurite over a folder, with a container."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs node and npm on PATH")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(FOLDER / "azurite" / name, folder)
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=600)
    certificate(folder, "store")
    port = free_port()
    words: list[str | Path] = ["env", f"AZURITE_ACCOUNTS={ACCOUNT}:{ACCOUNT_KEY}"]
    words += [folder / "node_modules/.bin/azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    words += ["--cert", folder / "tls.crt", "--key", folder / "tls.key", "--location", folder / "data"]
    words += ["--disableTelemetry", "--silent"]
    gateway = Gateway(words, port, folder / "log")
    keys = {stores.ACCOUNT_NAME: ACCOUNT, stores.ACCOUNT_KEY: ACCOUNT_KEY}
    made = CloudStore(
        f"azblob://{BUCKET}/prefix", f"https://localhost:{port}", folder / "tls.crt", keys, gateway
    )
    gateway.start()
    try:
        azure(made, "PUT", {"restype": "container"})
        yield made
    finally:
        gateway.stop()


@contextmanager
def fake_gcs(folder: Path) -> Iterator[CloudStore]:
    """fake-gcs-server over a folder, with a bucket; and the server of tokens for one service account."""
    program = build.build(
        Tool(
            name="fake-gcs-server",
            version="1.56.1",
            folder=str(FOLDER / "fake_gcs"),
            package="github.com/fsouza/fake-gcs-server",
            seconds=60,
        ),
        Go.ensure(),
    )
    certificate(folder, "store")
    (folder / "data" / BUCKET).mkdir(parents=True)
    port = free_port()
    words: list[str | Path] = [program, "-scheme", "https", "-host", "127.0.0.1", "-port", str(port)]
    words += ["-public-host", f"localhost:{port}", "-backend", "filesystem", "-filesystem-root"]
    words += [folder / "data", "-cert-location", folder / "tls.crt"]
    words += ["-private-key-location", folder / "tls.key"]
    gateway = Gateway(words, port, folder / "log")
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    gateway.start()
    try:
        with _tokens(folder, private.public_key()) as url:
            keys = {stores.SERVICE_ACCOUNT_KEY: service_account(private, url)}
            endpoint = f"https://localhost:{port}"
            yield CloudStore(f"gs://{BUCKET}/prefix", endpoint, folder / "tls.crt", keys, gateway)
    finally:
        gateway.stop()


def service_account(private: rsa.RSAPrivateKey, token_uri: str) -> str:
    """Its key as the cloud writes it."""
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    email = "kindling@shop.iam.gserviceaccount.com"
    return json.dumps({"client_email": email, "private_key": pem, "token_uri": token_uri})


@contextmanager
def _tokens(folder: Path, public: rsa.RSAPublicKey) -> Iterator[str]:
    """Where a service account that proves its key gets a token."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            given = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            signed, _, proof = given["assertion"][0].rpartition(".")
            decoded = base64.urlsafe_b64decode(proof + "=" * (-len(proof) % 4))
            try:
                public.verify(decoded, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
                status, said = 200, {"access_token": "given", "token_type": "Bearer", "expires_in": 3599}
            except InvalidSignature:
                status = 400
                said = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)

"""A mutating webhook: what a cluster's policies change of what is written, on its way to the store."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.apiserver.support.apiclient import Api, Json
from tests.authority import Authority

COLLECTION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
Patches = Mapping[str, Sequence[Mapping[str, Any]]]
"""JSON patches by kind, which are laid over each object of it."""


@contextmanager
def mutating(api: Api, folder: Path, patches: Patches, *, namespace: str) -> Iterator[None]:
    """With one that lays these over what is created or updated in the namespace."""
    authority = Authority("webhooks")
    pair = authority.issue("webhooks", "127.0.0.1")
    (folder / "tls.pem").write_text(pair.certificate + pair.key)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            patch = json.dumps(list(patches.get(asked["kind"]["kind"], ()))).encode()
            response = {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch"}
            response["patch"] = base64.b64encode(patch).decode()
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            said = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{server.server_address[1]}/"
        api.create(COLLECTION, _configuration(url, authority.certificate, patches, namespace)).accepted()
        try:
            yield
        finally:
            api.delete(f"{COLLECTION}/tests")
            server.shutdown()
            thread.join()


def _configuration(url: str, authority: str, patches: Patches, namespace: str) -> Json:
    operations = {"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"]}
    webhook = {
        "name": "policies.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.encode()).decode()},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "matchConditions": [
            {"name": "kinds", "expression": f"request.kind.kind in {json.dumps(sorted(patches))}"}
        ],
        "rules": [{**operations, "resources": ["*"]}],
    }
    return {"metadata": {"name": "tests"}, "webhooks": [webhook]}

"""A Pulsar broker behind TLS that knows its clients, and the issuer of their access tokens, in a namespace.

The broker is the stack's own image with another configuration. It takes tokens that the issuer signed,
passwords and client certificates; of its three roles `admin` may do all, `workers` consume and produce,
`strangers` nothing.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.authority import Authority
from tests.cluster.stack import ROOT, Environment, within
from tests.issuer import Issuer

NAMESPACE = "secured"
HOST, ISSUER = f"broker.{NAMESPACE}.svc", f"issuer.{NAMESPACE}.svc"
SERVER, ADMIN = f"pulsar+ssl://{HOST}:6651", f"https://{HOST}:8443"
ISSUER_URL = f"https://{ISSUER}:8443"
TOKEN_SECONDS = 20
"""Of an access token's life; the broker looks every five seconds whether it has ended."""
FILES = "/secured"
READY_SECONDS = 240
PYTHON = "/opt/kindling/bin/python"
"""Of the operator's image, in which the issuer runs."""


@dataclass(frozen=True)
class Secured:
    """`client_secret` and `password` are of `workers`; `tokens` are by role, and do not end."""

    environment: Environment
    authority: Authority
    tokens: Mapping[str, str]
    password: str
    client_secret: str

    def admin(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask the admin API as `admin`, from within the cluster: status and answer."""
        program = (
            "import http.client, json, ssl, sys\n"
            "host, method, path, body, token = sys.argv[1:]\n"
            f"context = ssl.create_default_context(cafile='{FILES}/ca.crt')\n"
            "context.verify_flags &= ~ssl.VERIFY_X509_STRICT\n"
            "connection = http.client.HTTPSConnection(host, 8443, context=context, timeout=20)\n"
            "headers = {'Authorization': f'Bearer {token}', 'Content-Type': 'application/json'}\n"
            "connection.request(method, path, body or None, headers)\n"
            "answer = connection.getresponse()\n"
            "print(json.dumps([answer.status, answer.read().decode()]))\n"
        )
        said = json.dumps(body) if body is not None else ""
        words = ("exec", "-n", NAMESPACE, "deployment/issuer", "--", PYTHON, "-c", program)
        out = self.environment.kubectl(*words, HOST, method, path, said, self.tokens["admin"])
        status, text = json.loads(out)
        return int(status), json.loads(text) if text else None


@contextmanager
def secured(environment: Environment, folder: Path) -> Iterator[Secured]:
    """Made, and gone in the end."""
    authority, key = Authority("secured"), rsa.generate_private_key(public_exponent=65537, key_size=2048)
    password, client_secret = secrets.token_hex(12), f"canary-{secrets.token_hex(12)}"
    pair, own = authority.issue("issuer", ISSUER), authority.issue("admin", HOST)
    settings = {"url": ISSUER_URL, "port": 8443, "seconds": TOKEN_SECONDS}
    texts = {
        "settings.json": json.dumps({**settings, "clients": {"workers": client_secret}}),
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        "signing.key": _private(key),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    # For the tokens that do not end, signed here. It serves nobody.
    signs = Issuer(_elsewhere(folder))
    claims = {"iss": ISSUER_URL, "aud": "pulsar"}
    tokens = {role: signs.signed({**claims, "sub": role}) for role in ("admin", "workers", "strangers")}
    issuer = {
        **texts,
        "issuer.py": (ROOT / "tests" / "issuer.py").read_text(),
        "ca.crt": authority.certificate,
    }
    broker = {
        "broker.crt": own.certificate,
        "broker.key": own.key,
        "ca.crt": authority.certificate,
        "htpasswd": f"workers:{_hashed(password)}\n",
        "admin.token": tokens["admin"],
        "standalone.conf": _configured(environment),
    }
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    environment.kubectl("create", "namespace", NAMESPACE)
    try:
        environment.apply(_secret("issuer", {name: text.encode() for name, text in issuer.items()}))
        files = {name: text.encode() for name, text in broker.items()} | {"signing.pub": public}
        environment.apply(_secret("broker", files))
        operator = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
        pulsar = environment.get("deployment", "pulsar", "-n", "pulsar")
        run_issuer = {"command": [PYTHON, f"{FILES}/issuer.py", FILES]}
        run_broker = {
            "args": [f"--config={FILES}/standalone.conf", f"--advertised-address={HOST}"],
            "resources": {"limits": {"memory": "768Mi"}, "requests": {"memory": "384Mi"}},
        }
        alias = {"hostAliases": [{"ip": "127.0.0.1", "hostnames": [HOST]}]}
        for name, image, user, container, pod in (
            ("issuer", _image(operator), 65532, run_issuer, {}),
            ("broker", _image(pulsar), 10000, run_broker, alias),
        ):
            for manifest in _server(name, image, user, container, pod):
                environment.apply(manifest)
        made = Secured(environment, authority, tokens, password, client_secret)
        for name in ("issuer", "broker"):
            words = (
                "rollout",
                "status",
                f"deployment/{name}",
                "-n",
                NAMESPACE,
                f"--timeout={READY_SECONDS}s",
            )
            environment.kubectl(*words, timeout=READY_SECONDS + 60)
        rights = "/admin/v2/namespaces/public/default/permissions/workers"

        def are_granted() -> bool:
            """Not while the name is not known, nor before the namespace of topics is made, which is last."""
            try:
                return made.admin("POST", rights, ["consume", "produce"])[0] == 204
            except AssertionError:
                return False

        within(READY_SECONDS, are_granted)
        yield made
    finally:
        environment.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _configured(environment: Environment) -> str:
    """Upstream's configuration with what differs."""
    providers = ("Token", "Basic", "Tls")
    differs = {
        "brokerServicePort": "",
        "brokerServicePortTls": "6651",
        "webServicePortTls": "8443",
        "tlsCertificateFilePath": f"{FILES}/broker.crt",
        "tlsKeyFilePath": f"{FILES}/broker.key",
        "tlsTrustCertsFilePath": f"{FILES}/ca.crt",
        "authenticationEnabled": "true",
        "authenticationProviders": ",".join(
            f"org.apache.pulsar.broker.authentication.AuthenticationProvider{name}" for name in providers
        ),
        "authenticationRefreshCheckSeconds": "5",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "tokenPublicKey": f"file://{FILES}/signing.pub",
        "tokenAudienceClaim": "aud",
        "tokenAudience": "pulsar",
        "basicAuthConf": f"file://{FILES}/htpasswd",
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": f"{FILES}/ca.crt",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"file://{FILES}/admin.token",
    }
    words = ("exec", "-n", "pulsar", "deployment/pulsar", "--", "cat", "/opt/pulsar/conf/standalone.conf")
    kept = [
        line
        for line in environment.kubectl(*words).splitlines()
        if line.partition("=")[0].strip() not in differs
    ]
    return "\n".join([*kept, *(f"{name}={value}" for name, value in differs.items()), ""])


def _server(
    name: str, image: str, user: int, container: Mapping[str, Any], pod: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    labels = {"app": f"secured-{name}"}
    ports = {"issuer": [8443], "broker": [6651, 8443]}[name]
    mounts = [("files", FILES), ("tmp", "/tmp"), ("data", "/pulsar")]
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **pod,
                    "automountServiceAccountToken": False,
                    "securityContext": {"runAsUser": user, "runAsGroup": user, "fsGroup": user},
                    "containers": [
                        {
                            "name": name,
                            "image": image,
                            "imagePullPolicy": "IfNotPresent",
                            **container,
                            "readinessProbe": {"tcpSocket": {"port": ports[-1]}, "periodSeconds": 2},
                            "volumeMounts": [{"name": of, "mountPath": path} for of, path in mounts],
                        }
                    ],
                    "volumes": [
                        {"name": "files", "secret": {"secretName": name}},
                        {"name": "tmp", "emptyDir": {}},
                        {"name": "data", "emptyDir": {}},
                    ],
                },
            },
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": labels, "ports": [{"name": f"p{port}", "port": port} for port in ports]},
    }


def _secret(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {file: b64encode(data).decode() for file, data in files.items()},
    }


def _image(deployment: Mapping[str, Any]) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def _hashed(password: str) -> str:
    words = ["openssl", "passwd", "-apr1", "-stdin"]
    done = subprocess.run(words, input=password, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


def _private(key: rsa.RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _elsewhere(folder: Path) -> Path:
    """The same files with any free port."""
    copy = folder / "here"
    copy.mkdir()
    for name in ("tls.crt", "tls.key", "signing.key"):
        (copy / name).write_text((folder / name).read_text())
    settings = json.loads((folder / "settings.json").read_text())
    (copy / "settings.json").write_text(json.dumps({**settings, "host": "127.0.0.1", "port": 0}))
    return copy

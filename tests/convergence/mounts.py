"""What a database's Pod mounts, for the server of this machine that stands in for it."""

from __future__ import annotations

import base64

from kindling.kinds import server_tls
from kindling.kinds.certificates import Pair

from tests.apiserver.support.apiclient import Api, Json
from tests.convergence import database
from tests.convergence.database import Databases
from tests.unit.operator.conftest import Files

NAMESPACES = "/api/v1/namespaces"


def pod_of(api: Api, namespace: str, name: str) -> Json | None:
    found = api.get(f"{NAMESPACES}/{namespace}/pods/{name}")
    return found.body if found.status == 200 else None


def admit_operator(api: Api, files: Files, pod: Json) -> None:
    """As in a cluster, superuser's password and certificate are those in the Secrets that the Pod mounts."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"]["volumes"]:
        if volume["name"] not in ("superuser", "tls"):
            continue
        secret = api.get(f"{NAMESPACES}/{namespace}/secrets/{volume['secret']['secretName']}")
        if secret.status != 200:
            continue
        values = {key: base64.b64decode(text).decode() for key, text in secret.body["data"].items()}
        if volume["name"] == "superuser":
            database.set_superuser_password(files, values["password"])
        else:
            pair = Pair(values[server_tls.CERTIFICATE], values[server_tls.KEY])
            database.set_certificate(files, pair, values[server_tls.AUTHORITY])


def mount_config(api: Api, servers: Databases, pod: Json) -> None:
    """As in a cluster, so is its ConfigMap; for servers that are apart."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"]["volumes"]:
        if volume["name"] != "config":
            continue
        config = api.get(f"{NAMESPACES}/{namespace}/configmaps/{volume['configMap']['name']}")
        if config.status == 200:
            servers.mount(namespace, pod, config.body.get("data") or {})

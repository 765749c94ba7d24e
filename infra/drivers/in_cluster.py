"""The cluster that this program itself runs in, reached with its Pod's service account, without kubectl.

Kubernetes documents the API server's name in a cluster, and the folder with the token and the authority
("Accessing the Kubernetes API from a Pod").
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra import paths
from infra.drivers.cluster_context import (
    IN_CLUSTER,
    MARK,
    SECONDS,
    ClusterAccess,
    Permission,
    explain,
    review,
)
from infra.errors import KindlingError

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVER = "https://kubernetes.default.svc"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def kubeconfig(folder: Path = FOLDER, server: str = SERVER) -> str:
    """The way in as a kubeconfig, for Pulumi's provider: paths, and no secret.

    Without it the provider would take the kubeconfig of whoever runs Pulumi outside of a Pod. This one leads
    nowhere from there.
    """
    named = {"name": IN_CLUSTER}
    cluster = {"server": server, "certificate-authority": str(folder / "ca.crt")}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [named | {"cluster": cluster}],
            # As a file it is read again: the kubelet renews it.
            "users": [named | {"user": {"tokenFile": str(folder / "token")}}],
            "contexts": [named | {"context": {"cluster": IN_CLUSTER, "user": IN_CLUSTER}}],
            "current-context": IN_CLUSTER,
        }
    )


def kubeconfig_file() -> Path:
    """The same as a file, for kubectl, which would look into the file that KUBECONFIG names."""
    file, text = paths.cache_dir() / "in-cluster.kubeconfig", kubeconfig()
    if not file.is_file() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        os.replace(partial, file)
    return file


class InCluster(ClusterAccess):
    """`folder` is where the service account's token and the authority are."""

    context = IN_CLUSTER

    def __init__(self, folder: Path = FOLDER, server: str = SERVER) -> None:
        self._folder, self._server = folder, server

    def uid(self) -> str:
        return str(self._ask(f"/api/v1/namespaces/{MARK}")["metadata"]["uid"])

    def missing(self, rights: Sequence[Permission]) -> list[Permission]:
        return [right for right in rights if not self._ask(_REVIEWS, review(right))["status"]["allowed"]]

    def _version(self) -> str:
        return str(self._ask("/version").get("gitVersion", ""))

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            token = (self._folder / "token").read_text(encoding="ascii").strip()
            trusted = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        except FileNotFoundError:
            raise KindlingError(
                f"kindling:context is `{IN_CLUSTER}`, and this is no Pod with a service account",
                why=f"{self._folder} has no token and ca.crt",
                remedy="run Pulumi in a Pod (docs/guides/in-a-pod.md), or name a context of a kubeconfig; "
                "nothing was changed.",
            ) from None
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._server}{path}", data, headers)
        # It is the cluster's own address: no proxy of the environment is on the way there.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        try:
            with opener.open(request, timeout=SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise explain(_message(error), context=IN_CLUSTER) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise explain(str(error) or type(error).__name__, context=IN_CLUSTER) from None


def _message(error: urllib.error.HTTPError) -> str:
    """What the API server says, which is a Status in JSON; of a proxy before it, its own line."""
    try:
        return str(json.load(error).get("message") or error)
    except (ValueError, AttributeError, OSError):
        return str(error)

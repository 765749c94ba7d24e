"""cert-manager's own controller and CRDs, in the version of the toolchain, against an API server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from kindling.kube.resources import CERTIFICATE, ResourceType

from infra.bootstrap.toolchain.build import FOLDER
from infra.bootstrap.toolchain.golang import Go
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import ControlPlane, background, tool
from tests.apiserver.support.kinds import CRD_COLLECTION

CONTROLLER, MODULE = "cert-manager-controller", "github.com/cert-manager/cert-manager"
ISSUER = ResourceType("cert-manager.io", "v1", "Issuer", "issuers")
START_SECONDS = 60.0


def install(api: Api) -> None:
    """Serve its kinds."""
    source = Go.ensure().module_dir(folder=FOLDER / CONTROLLER, module=MODULE)
    for path in sorted((source / "deploy" / "crds").glob("*.yaml")):
        api.create(CRD_COLLECTION, yaml.safe_load(path.read_text())).accepted()
    for type in (CERTIFICATE, ISSUER):
        wait_until(
            lambda type=type: api.get(type.path(namespace=None)).status == 200,  # type: ignore[misc]
            seconds=START_SECONDS,
            what=f"{type.plural} being served",
        )


@contextmanager
def controller(plane: ControlPlane, *, log: Path) -> Iterator[None]:
    """Run it, with the kinds installed, and end it on leaving."""
    words: list[str | Path] = [tool(CONTROLLER), plane.kubeconfig, "default"]
    with background(words, log=log):
        yield


def authority(api: Api, namespace: str, name: str) -> None:
    """An Issuer of that name, with a self-signed authority in the Secret NAME-ca."""
    make(api, ISSUER, namespace, "self-signed", {"selfSigned": {}})
    of = {"name": "self-signed", "kind": "Issuer", "group": "cert-manager.io"}
    spec = {"secretName": f"{name}-ca", "isCA": True, "commonName": name, "issuerRef": of}
    make(api, CERTIFICATE, namespace, f"{name}-ca", spec)
    make(api, ISSUER, namespace, name, {"ca": {"secretName": f"{name}-ca"}})


def make(api: Api, type: ResourceType, namespace: str, name: str, spec: Json) -> None:
    body = {
        "apiVersion": type.api_version,
        "kind": type.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    api.create(type.path(namespace=namespace), body).accepted()

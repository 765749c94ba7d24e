"""cert-manager's own controller and CRDs, in the version of the toolchain, against an API server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kindling.kube.resources import CERTIFICATE, ResourceType

from infra import yaml_text
from infra.bootstrap.toolchain.build import FOLDER
from infra.bootstrap.toolchain.golang import Go
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import background, tool
from tests.apiserver.support.kinds import CRD_COLLECTION

CONTROLLER, MODULE = "cert-manager-controller", "github.com/cert-manager/cert-manager"
ISSUER = ResourceType("cert-manager.io", "v1", "Issuer", "issuers")
START_SECONDS = 60.0
RENEW: Json = {
    "type": "Issuing",
    "status": "True",
    "reason": "ManuallyTriggered",
    "message": "Certificate re-issuance manually triggered",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
"""A condition of a Certificate: as `cmctl renew` asks for it."""


def definitions() -> list[Path]:
    """The manifests of its kinds."""
    source = Go.ensure().module_dir(folder=FOLDER / CONTROLLER, module=MODULE)
    return sorted((source / "deploy" / "crds").glob("*.yaml"))


def install(api: Api) -> None:
    """Serve its kinds."""
    for path in definitions():
        api.create(CRD_COLLECTION, yaml_text.load(path.read_text())).accepted()
    for type in (CERTIFICATE, ISSUER):
        wait_until(
            lambda type=type: api.get(type.path(namespace=None)).status == 200,  # type: ignore[misc]
            seconds=START_SECONDS,
            what=f"{type.plural} being served",
        )


@contextmanager
def controller(kubeconfig: Path, *, log: Path) -> Iterator[None]:
    """Run it, with the kinds installed, and end it on leaving. ClusterIssuers have Secrets in `default`."""
    words: list[str | Path] = [tool(CONTROLLER), kubeconfig, "default"]
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

"""A stack gets an object store and loses it, by the whole program: keys made once, in the state encrypted."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kubelet import kubelet
from tests.pulumi.machine import Host

SECRETS = "/api/v1/namespaces/{}/secrets"


@contextmanager
def provisioner(plane: ControlPlane) -> Iterator[None]:
    """In the place of what binds claims: Pulumi takes no Deployment for ready whose claim is not bound."""
    over, path = threading.Event(), "/api/v1/namespaces/object-store/persistentvolumeclaims"

    def bind() -> None:
        with closing(Api(plane)) as api:
            while not over.wait(0.5):
                for claim in api.get(path).accepted()["items"]:
                    if claim["status"]["phase"] != "Bound":
                        name = claim["metadata"]["name"]
                        api.merge(f"{path}/{name}/status", {"status": {"phase": "Bound"}})

    thread = threading.Thread(target=bind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=30)


def held(api: Api, namespace: str, name: str) -> dict[str, str]:
    found = api.get(f"{SECRETS.format(namespace)}/{name}").accepted()["data"]
    return {key: base64.b64decode(value).decode() for key, value in found.items()}


def names(api: Api, namespace: str) -> set[str]:
    items = api.get(SECRETS.format(namespace)).accepted()["items"]
    return {item["metadata"]["name"] for item in items}


def states(host: Host) -> list[Path]:
    return [file for file in (host.home / "state").rglob("*") if file.is_file()]


@pytest.mark.thorough
def test_a_store_comes_with_its_secrets_and_goes_with_them(host: Host, plane: ControlPlane, api: Api) -> None:
    """One test, because each step needs the state that the one before left."""
    settings = (host.checkout / "Pulumi.dev.yaml").read_text()
    with kubelet(plane), provisioner(plane):
        host.settings(settings + "  kindling:objectStore: true\n")
        done = host.cli("up")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Object store" in done.stdout + done.stderr
        assert len([ref for ref in host.memory["images"] if "object-store" in ref]) == 1
        keys = held(api, "default", "object-store-keys")
        assert keys.keys() == {"accessKeyId", "secretAccessKey"}
        assert held(api, "object-store", "object-store-keys") == keys
        tls = held(api, "object-store", "object-store-tls")
        assert held(api, "default", "object-store-ca")["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")

        secret, private = keys["secretAccessKey"], tls["tls.key"].splitlines()[1]
        assert any("object-store-keys" in file.read_text(errors="replace") for file in states(host))
        for file in states(host):
            content = file.read_bytes()
            for word in (secret, keys["accessKeyId"], private):
                assert word.encode() not in content, file
        for word in (secret, private):
            assert word not in done.stdout + done.stderr

        again = host.cli("exec", "pulumi", "up", "--yes", "--skip-preview", "--expect-no-changes")
        assert again.returncode == 0, again.stdout + again.stderr
        assert held(api, "default", "object-store-keys") == keys

        # A Secret that somebody deletes comes back as it was: the state has what is in it.
        api.delete(f"{SECRETS.format('default')}/object-store-keys").accepted()
        assert host.cli("up").returncode == 0
        assert held(api, "default", "object-store-keys") == keys
        assert host.cli("drift").returncode == 0

        host.settings(settings)
        without = host.cli("up")
        assert without.returncode == 0, without.stdout + without.stderr
        assert "Object store" not in without.stdout + without.stderr
        assert not {"object-store-keys", "object-store-ca"} & names(api, "default")
        assert host.cli("destroy").returncode == 0

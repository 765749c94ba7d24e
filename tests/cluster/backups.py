"""What a Backup's tests in the cluster share: a real S3 server, what opens it, and waiting for resources.

The store is VersityGW on this machine, over TLS with an authority of its own, which the Pods reach by the
address that this machine has in the nodes' network.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.bootstrap.toolchain import Toolchain
from tests.apiserver.support.controlplane import background
from tests.cluster.claims.backup import server
from tests.cluster.stack import Environment, within
from tests.ports import free_port

DATABASE = "postgresqls.database.technotuesday.io"
BACKUP, RESTORE = "backups.database.technotuesday.io", "restores.database.technotuesday.io"
USER, KEY = "kindling", "canary-store-key"
PASSPHRASE = "canary passphrase"
BUCKET = "backups"
NAME = "saved"
NOW = """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
SECONDS = 420.0
OVER = ("Completed", "Failed")
"""Phases of a Restore."""


@dataclass(frozen=True)
class Store:
    url: str
    certificate: str
    folder: Path


def own_address(environment: Environment) -> str:
    """The address of this machine that the nodes' network leads to."""
    (node, *_) = environment.get("nodes")["items"]
    address = next(each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return str(probe.getsockname()[0])


def certify(folder: Path, address: str) -> str:
    """A certificate for this address, which is its own authority; returns it in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "store")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM).decode()
    (folder / "tls.crt").write_text(pem)
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return pem


@pytest.fixture(scope="module")
def store(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store")
    address = own_address(environment)
    pem = certify(folder, address)
    data, marks = folder / "data", folder / "marks"
    for made in (data / BUCKET, marks):
        made.mkdir(parents=True)
    port = free_port(address)
    # At all addresses: this one is gone while the stack's cluster is.
    words: list[str | Path] = [
        Toolchain().ensure("versitygw"), "--port", f":{port}", "--access", USER, "--secret", KEY,
        "--cert", folder / "tls.crt", "--key", folder / "tls.key", "--quiet",
        "posix", "--sidecar", marks, data,
    ]  # fmt: skip
    with background(words, log=folder / "log") as running:

        def answers() -> bool:
            assert running.process.poll() is None, (folder / "log").read_text()
            with socket.socket() as tried:
                return tried.connect_ex((address, port)) == 0

        within(30, answers)
        yield Store(url=f"https://{address}:{port}", certificate=pem, folder=data / BUCKET)


def secret(environment: Environment, name: str, *, namespace: str = "default", **values: str) -> None:
    metadata = {"name": name, "namespace": namespace}
    environment.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})


def store_secrets(environment: Environment, store: Store, *, namespace: str = "default") -> None:
    """All that opens the store."""
    secret(environment, "store-keys", namespace=namespace, accessKeyId=USER, secretAccessKey=KEY)
    secret(environment, "store-ca", namespace=namespace, **{"ca.crt": store.certificate})
    secret(environment, "store-passphrase", namespace=namespace, passphrase=PASSPHRASE)


def ready(environment: Environment, kind: str, name: str) -> tuple[str, str]:
    return condition(environment.get(kind, name).get("status", {}), "Ready")


def until(
    environment: Environment,
    kind: str,
    name: str,
    true: Callable[[dict[str, Any]], bool],
    *,
    namespace: str = "default",
    seconds: float = SECONDS,
) -> None:
    """Until the status is so; else the test fails with it."""
    words = (kind, name, "-n", namespace)
    try:
        within(seconds, lambda: true(environment.get(*words).get("status", {})))
    except AssertionError:
        status = environment.get(*words).get("status", {})
        raise AssertionError(json.dumps(status, indent=1)) from None


def until_over(
    environment: Environment, name: str, expected: tuple[str, str], *, namespace: str = "default"
) -> None:
    """Until it is over, and Ready is so: the phase is written first, and what follows from it after that."""
    until(environment, RESTORE, name, lambda status: status.get("phase") in OVER, namespace=namespace)
    until(
        environment,
        RESTORE,
        name,
        lambda status: condition(status, "Ready") == expected,
        namespace=namespace,
        seconds=30,
    )


def condition(status: dict[str, Any], type: str) -> tuple[str, str]:
    found = [one for one in status.get("conditions", ()) if one["type"] == type]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def opens(store: Store, *, keys: str = "store-keys") -> dict[str, Any]:
    """The fields by which a Backup or a Restore opens the store."""
    return {
        "endpointURL": store.url,
        "credentialsSecretRef": {"name": keys},
        "caSecretRef": {"name": "store-ca"},
        "encryption": {"passphraseSecretRef": {"name": "store-passphrase"}},
    }


def archived(environment: Environment) -> str:
    """Wait until all that was committed is in the store; returns the database's system identifier."""
    moment = server(environment, NAME, "default", NOW)
    server(environment, NAME, "default", "SELECT pg_switch_wal()")
    until(environment, BACKUP, NAME, lambda status: status.get("latestRestorableTime", "") > moment)
    return str(environment.get(DATABASE, NAME)["status"]["systemIdentifier"])


def restore(environment: Environment, name: str, *, namespace: str = "default", **spec: Any) -> None:
    """A Restore of this name and spec."""
    environment.apply(
        {
            "apiVersion": "database.technotuesday.io/v1",
            "kind": "Restore",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    )


def rescue(environment: Environment, store: Store, identifier: str, *, namespace: str) -> None:
    """The Restore `rescue`, from the store alone, and its database Ready."""
    store_secrets(environment, store, namespace=namespace)
    target = f"s3://{BUCKET}/tests/default/{NAME}/{identifier}"
    source = {"targetURL": target, **opens(store)}
    restore(environment, "rescue", namespace=namespace, source=source, databaseRef={"name": NAME})
    until(environment, RESTORE, "rescue", lambda is_: is_.get("phase") in OVER, namespace=namespace)
    environment.wait_ready(f"{DATABASE}/{NAME}", "-n", namespace, seconds=180)


def with_rows(environment: Environment, name: str) -> None:
    """A database with a table of a thousand rows."""
    environment.apply(
        {
            "apiVersion": "database.technotuesday.io/v1",
            "kind": "Postgresql",
            "metadata": {"name": name},
            "spec": {"storage": {"size": "1Gi"}},
        }
    )
    environment.wait_ready(f"{DATABASE}/{name}", seconds=180)
    environment.psql(name, "create table kept as select generate_series(1, 1000) as id")


def backed_up(environment: Environment, store: Store, name: str, *, keys: str, **spec: Any) -> None:
    """A database with rows, and its Backup."""
    with_rows(environment, name)
    environment.apply(
        {
            "apiVersion": "database.technotuesday.io/v1",
            "kind": "Backup",
            "metadata": {"name": name},
            "spec": {
                "databaseRef": {"name": name},
                "type": "incremental",
                "fullEvery": "7d",
                "schedule": "0 3 1 1 *",
                "targetURL": f"s3://{BUCKET}/tests",
                **opens(store, keys=keys),
                **spec,
            },
        }
    )
    done = ("True", "Succeeded") if spec.get("immediate", True) else ("False", "Scheduled")
    until(environment, BACKUP, name, lambda status: condition(status, "Ready") == done)

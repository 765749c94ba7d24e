"""What opens an object store of ours, as a Pulumi resource. The module's path is state format.

Made once and then kept in the state alone, as secrets of it: the cluster's Secrets are written from there.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from infra.drivers import certificates

AUTHORITY = "Kindling object store"
# As long as those of the cloud that the protocol is of.
KEY_ID_BYTES, KEY_BYTES = 10, 30

Props = dict[str, Any]


class StoreCredentialsProvider(ResourceProvider):
    """Other host names are another certificate, of another authority; nothing else makes another."""

    serialize_as_secret_always = False

    def check(self, _olds: Props, news: Props) -> CheckResult:
        failures = [] if news.get("hosts") else [CheckFailure("hosts", "is empty: name the server's hosts")]
        return CheckResult(news, failures)

    def diff(self, _id: str, olds: Props, news: Props) -> DiffResult:
        replaces = ["hosts"] if olds.get("hosts") != news["hosts"] else []
        return DiffResult(changes=bool(replaces), replaces=replaces, delete_before_replace=False)

    def create(self, props: Props) -> CreateResult:
        hosts = list(props["hosts"])
        issued = certificates.issue(AUTHORITY, hosts, now=datetime.datetime.now(datetime.UTC))
        made = {
            "accessKeyId": secrets.token_hex(KEY_ID_BYTES).upper(),
            "secretAccessKey": secrets.token_urlsafe(KEY_BYTES),
            "authority": issued.authority,
            "certificate": issued.certificate,
            "privateKey": issued.key,
        }
        # The certificate is no secret, and is another for each that is made.
        fingerprint = hashlib.sha256(issued.certificate.encode()).hexdigest()[:8]
        return CreateResult(f"object-store-{fingerprint}", {"hosts": hosts, **made})

    def read(self, id_: str, props: Props) -> ReadResult:
        # It is in the state and nowhere else.
        return ReadResult(id_, props)

    def update(self, _id: str, olds: Props, news: Props) -> UpdateResult:
        return UpdateResult({**olds, "hosts": news["hosts"]})

    def delete(self, _id: str, _props: Props) -> None:
        """Nothing is left once the state has it no more."""


class StoreCredentials(Resource, module="stores", name="Credentials"):
    """A pair of keys, and a certificate for the `hosts` with the authority that it is of, in PEM.

    The id is new for each that is made: who runs with them starts again by it.
    """

    accessKeyId: pulumi.Output[str]
    secretAccessKey: pulumi.Output[str]
    authority: pulumi.Output[str]
    certificate: pulumi.Output[str]
    privateKey: pulumi.Output[str]

    def __init__(self, name: str, *, hosts: list[str], opts: pulumi.ResourceOptions | None = None) -> None:
        # Named so that they are known to be unknown before they are made.
        computed = dict.fromkeys(("accessKeyId", "secretAccessKey", "authority", "certificate", "privateKey"))
        secret = pulumi.ResourceOptions(
            additional_secret_outputs=["accessKeyId", "secretAccessKey", "privateKey"]
        )
        props: Props = {"hosts": hosts, **computed}
        super().__init__(StoreCredentialsProvider(), name, props, pulumi.ResourceOptions.merge(opts, secret))

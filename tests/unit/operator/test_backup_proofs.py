"""The signed record of each restore that succeeded: what it says, who can check it, and how many are kept."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from kindling.kinds.backup import proofs
from kindling.kinds.base import Child, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import owner_of
from kindling.kube.resources import CONFIG_MAP, Object, Ref

from tests.unit.operator.backups import IDENTIFIER, KIND, backup, observed, pem, secret, secrets

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "backup.md"
SIGNED = {"signingKeySecretRef": {"name": "proof-key"}}
VERIFIED = {"backupId": "20260101-000100F", "reachedLSN": "0/3000060", "checks": ["pages", "amcheck"]}
FIRST, SECOND = "2026-01-01T00:05:00Z", "2026-01-08T00:05:00Z"


def proven(at: str = FIRST, **verify: Any) -> Object:
    status = {
        "database": {"systemIdentifier": IDENTIFIER},
        "lastSuccessfulBackupTime": "2026-01-01T00:02:00Z",
        "lastVerifiedTime": at,
        "verified": VERIFIED,
        "restoreDuration": {"total": "7s"},
    }
    return backup(verify={**SIGNED, **verify}, status=status)


def records(cr: Object, *present: Child, key: str | None = None) -> dict[str, Child]:
    """The ConfigMaps of proofs by name, with those that are there."""
    there = {
        child.ref: {
            **child.body,
            "metadata": {**child.body["metadata"], "ownerReferences": [owner_of(KIND.type, cr)]},
        }
        for child in present
    }
    seen = observed({**secrets(**{"proof-key": secret(signingKey=pem() if key is None else key)}), **there})
    return {
        child.ref.name: child
        for child in KIND.desired(cr, seen)
        if child.ref.type == CONFIG_MAP and "proof" in child.ref.name
    }


def test_the_record_says_what_was_proven() -> None:
    (child,) = records(proven()).values()
    assert child.ref == Ref(CONFIG_MAP, "ns", "nightly-proof-20260101000500")
    assert (child.create_only, child.body["immutable"]) == (True, True)
    said = json.loads(child.body["data"]["record.json"])
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32).public_key()
    assert said.pop("publicKey") == proofs._fingerprint(Ed25519PrivateKey.from_private_bytes(b"k" * 32))
    assert said == {
        "version": 1,
        "backup": {"namespace": "ns", "name": "nightly", "uid": "cr-uid"},
        "database": {"group": "database.technotuesday.io", "name": "db", "systemIdentifier": IDENTIFIER},
        "targetURL": "s3://bucket/prefix",
        "lastVerifiedTime": FIRST,
        "verified": VERIFIED,
        "restoreDuration": {"total": "7s"},
        "previous": None,
    }
    text, signature = (child.body["data"][name] for name in ("record.json", "record.sig"))
    key.verify(base64.b64decode(signature), text.encode())


def test_each_is_made_once_and_names_the_one_before() -> None:
    (first,) = records(proven()).values()
    (again,) = records(proven(), first).values()
    assert again.frozen
    assert "data" not in again.body
    kept, second = records(proven(SECOND), first).values()
    assert (kept.ref, kept.frozen) == (first.ref, True)
    digest = hashlib.sha256(first.body["data"]["record.json"].encode()).hexdigest()
    said = json.loads(second.body["data"]["record.json"])
    assert said["previous"] == {"name": first.ref.name, "sha256": digest}


def test_the_oldest_go() -> None:
    present: list[Child] = []
    for day in range(proofs.MOST + 3):
        at = (datetime.fromisoformat(FIRST) + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = records(proven(at), *present)
        assert len(found) == min(day + 1, proofs.MOST)
        present = [child for child in present if child.ref.name in found]
        present += [child for child in found.values() if not child.frozen]
    assert min(found) == "nightly-proof-20260104000500"


def test_without_a_key_of_ones_own_nothing_is_signed_and_what_is_there_stays() -> None:
    (first,) = records(proven()).values()
    unsigned = proven(SECOND)
    unsigned["spec"]["verify"] = {}
    assert [child.frozen for child in records(unsigned, first).values()] == [True]
    del unsigned["spec"]["verify"]
    assert [child.frozen for child in records(unsigned, first).values()] == [True]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "SecretNotFound"),
        ("", "InvalidSecret"),
        ("words", "InvalidSecret"),
        (pem(generate_private_key(65537, 2048)), "InvalidSecret"),
    ],
)
def test_a_key_that_cannot_sign_is_said_and_stops_nothing(key: str | None, reason: str) -> None:
    cr = proven(schedule="0 5 * * 0")
    given = {} if key is None else {"proof-key": secret(signingKey=key)}
    seen = observed(secrets(**given))
    found = find_condition(KIND.status(cr, seen, SyncResult(in_sync=True)).status, "Ready")
    assert (found["status"], found["reason"]) == ("False", reason)
    assert found["message"].startswith("spec.verify.signingKeySecretRef.name 'proof-key': ")
    assert not key or key not in found["message"]
    names = {child.ref.name for child in KIND.desired(cr, seen)}
    assert "nightly-verify" in names
    assert not [name for name in names if "proof" in name]


def test_it_is_not_a_secret_that_is_made_from_the_resource() -> None:
    cr = backup(verify={"signingKeySecretRef": {"name": "nightly-backup"}})
    problem = KIND.validate(cr, observed())
    assert problem is not None
    assert problem.message.startswith("spec.verify.signingKeySecretRef.name 'nightly-backup'")


def test_the_guides_commands_check_a_record(tmp_path: Path) -> None:
    """With files in place of what kubectl prints."""
    commands = re.findall(r"^openssl .*$", GUIDE.read_text(), re.MULTILINE)
    generates, publishes, checks = (command.split() for command in commands)
    run(generates, tmp_path)
    run(publishes, tmp_path)
    (child,) = records(proven(), key=(tmp_path / "proofs.key").read_text()).values()
    (tmp_path / "record.json").write_text(child.body["data"]["record.json"])
    (tmp_path / "record.sig").write_bytes(base64.b64decode(child.body["data"]["record.sig"]))
    assert "Signature Verified Successfully" in run(checks, tmp_path)
    with (tmp_path / "record.json").open("a") as record:
        record.write(" ")
    with pytest.raises(subprocess.CalledProcessError):
        run(checks, tmp_path)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr

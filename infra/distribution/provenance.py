"""What a release was made of, and from what: in-toto's statement with SLSA's provenance, signed as a DSSE.

The same release and key make the same bytes: it has no time, and names no machine.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.distribution import signing
from infra.distribution.files import Source, image_folder, image_names
from infra.drivers import debian_lock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

FILE = "provenance.intoto.jsonl"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://kindling.dev/release/v1"
"""What the names under `externalParameters` mean: the arguments of `python3 -m infra release`."""
BUILDER = "https://kindling.dev/release/by-key/v1"
"""Whoever has the key of the signature: no other builder is vouched for."""
_ENVIRONMENT = ("requirements.txt", "Pulumi.yaml")


def statement(source: Source, made: Mapping[str, bytes], dependencies: Mapping[str, bytes]) -> bytes:
    """The statement in JSON. Its subjects are the files, SHA256SUMS too, and the images by digest."""
    subjects = [{"name": path, "digest": {"sha256": _sha256(made[path])}} for path in sorted(made)]
    for _, reference in sorted(source.images.items()):
        name, _, digest = reference.partition("@sha256:")
        subjects.append({"name": name, "digest": {"sha256": digest}})
    commit: dict[str, Any] = {"name": "source", "digest": {"gitCommit": source.commit}}
    if source.uncommitted:
        commit["annotations"] = {"uncommitted": list(source.uncommitted)}
    found = {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "version": source.version,
                    "images": dict(sorted(source.images.items())),
                    "url": source.url,
                    "allowDirty": bool(source.uncommitted),
                },
                "resolvedDependencies": [
                    commit,
                    *(
                        {"name": path, "digest": {"sha256": _sha256(dependencies[path])}}
                        for path in sorted(dependencies)
                    ),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }
    return json.dumps(found, separators=(",", ":"), ensure_ascii=True).encode()


def dependencies(repository: Path) -> dict[str, bytes]:
    """The locks of the images, and what the program that renders the release is pinned by; by path."""
    found = {path: (repository / path).read_bytes() for path in _ENVIRONMENT}
    for folder in map(image_folder, image_names()):
        for name in (debian_lock.FILE, "requirements.txt"):
            if (repository / folder / name).exists():
                found[f"{folder}/{name}"] = (repository / folder / name).read_bytes()
    return found


def envelope(payload: bytes, key: EllipticCurvePrivateKey) -> bytes:
    """One line of JSON: the DSSE envelope of the statement with its signature."""
    signature = signing.sign(key, encoded(payload)).decode().strip()
    found = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": signing.key_id(key), "sig": signature}],
    }
    return json.dumps(found).encode() + b"\n"


def encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding of type and payload."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

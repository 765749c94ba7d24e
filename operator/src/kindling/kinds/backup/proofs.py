"""A signed record of each restore that succeeded, for audits: a ConfigMap each, which nobody can edit.

It says what `status.verified` says then, and names the record before it with its digest, so that one which
is missing or was changed is noticed. The key is the user's: whoever has its public half can check a record.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from kindling.kinds import reasons
from kindling.kinds.backup.spec import Spec
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.metadata import child_metadata
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref, ResourceType

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

RECORD, SIGNATURE = "record.json", "record.sig"
LABEL = "kindling.dev/proof"
MOST = 50
"""Records that are kept; of more, the oldest go."""
VERSION = 1
_DIGITS = re.compile(r"[^0-9]")


def problem(spec: Spec, observed: Observed, *, namespace: str) -> Problem | None:
    """Why nothing can be signed; backups and verify runs go on."""
    named = spec.verify.signing_key if spec.verify is not None else None
    if named is None or _key(spec, observed, namespace=namespace) is not None:
        return None
    field = f"{named.field}.name {named.name!r}"
    made = "`openssl genpkey -algorithm ed25519` makes one. Restores are tried without a record meanwhile."
    if Ref(SECRET, namespace, named.name) not in observed.objects:
        return Problem(
            reason=reasons.SECRET_NOT_FOUND,
            message=f"{field}: no such Secret exists in namespace {namespace}; create it with a private key "
            f"of Ed25519 under {named.key!r}: {made}",
        )
    return Problem(
        reason=reasons.INVALID_SECRET,
        message=f"{field}: what stands under {named.key!r} (not shown) is no private key of Ed25519 in PEM: "
        f"{made}",
    )


def children(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> list[Child]:
    """The records that there are, and that of the last proof."""
    present = _present(cr, observed)
    made = _record(type, cr, spec, observed, present)
    kept = sorted(present, reverse=True)[: MOST - len(made)]
    return [
        *(
            Child(type=CONFIG_MAP, body={"metadata": _metadata(type, cr, name=name)}, frozen=True)
            for name in sorted(kept)
        ),
        *made,
    ]


def _record(
    type: ResourceType, cr: Object, spec: Spec, observed: Observed, present: dict[str, Object]
) -> list[Child]:
    status, meta = cr.get("status") or {}, cr["metadata"]
    at, verified = str(status.get("lastVerifiedTime") or ""), status.get("verified") or {}
    name = f"{meta['name']}-proof-{_DIGITS.sub('', at)}"
    if not at or not verified or name in present:
        return []
    key = _key(spec, observed, namespace=meta["namespace"])
    if key is None:
        return []
    said: dict[str, Any] = {
        "version": VERSION,
        "backup": {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
        "database": {
            "group": spec.database_type.group,
            "name": spec.database,
            "systemIdentifier": (status.get("database") or {}).get("systemIdentifier"),
        },
        "targetURL": spec.store.url,
        "lastVerifiedTime": at,
        "verified": verified,
        "restoreDuration": status.get("restoreDuration"),
        "previous": _previous(present, before=name),
        "publicKey": _fingerprint(key),
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":")) + "\n"
    signature = base64.b64encode(key.sign(text.encode())).decode()
    body = {
        "metadata": _metadata(type, cr, name=name),
        "immutable": True,
        "data": {RECORD: text, SIGNATURE: signature},
    }
    return [Child(type=CONFIG_MAP, body=body, create_only=True)]


def _previous(present: dict[str, Object], *, before: str) -> Object | None:
    earlier = [name for name in present if name < before]
    if not earlier:
        return None
    text = str((present[max(earlier)].get("data") or {}).get(RECORD) or "")
    return {"name": max(earlier), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _present(cr: Object, observed: Observed) -> dict[str, Object]:
    uid, namespace = cr["metadata"]["uid"], cr["metadata"]["namespace"]
    return {
        ref.name: obj
        for ref, obj in observed.objects.items()
        if ref.type == CONFIG_MAP
        and ref.namespace == namespace
        and LABEL in (obj["metadata"].get("labels") or {})
        and any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences") or ())
    }


def _metadata(type: ResourceType, cr: Object, *, name: str) -> Object:
    metadata = child_metadata(type, cr, name=name)
    return {**metadata, "labels": {**metadata["labels"], LABEL: "true"}}


def _key(spec: Spec, observed: Observed, *, namespace: str) -> Ed25519PrivateKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    named = spec.verify.signing_key if spec.verify is not None else None
    text = observed.secret(namespace=namespace, name=named.name).get(named.key) if named is not None else None
    try:
        found = load_pem_private_key(text.encode(), None) if text else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return found if isinstance(found, Ed25519PrivateKey) else None


def _fingerprint(key: Ed25519PrivateKey) -> str:
    """SHA-256 of the public key as `openssl pkey -pubout -outform DER` writes it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()

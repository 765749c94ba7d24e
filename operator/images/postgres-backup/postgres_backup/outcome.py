"""What a run leaves in its termination message: one JSON object without secrets or the engine's words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

SUCCEEDED = "Succeeded"
STORE_UNREACHABLE = "StoreUnreachable"
UNTRUSTED_CERTIFICATE = "UntrustedCertificate"
ACCESS_DENIED = "AccessDenied"
BUCKET_NOT_FOUND = "BucketNotFound"
STORE_FULL = "StoreFull"
WRONG_PASSPHRASE = "WrongPassphrase"
REPOSITORY_OF_ANOTHER_DATABASE = "RepositoryOfAnotherDatabase"
DATABASE_UNREACHABLE = "DatabaseUnreachable"
IMAGE_WITHOUT_PGBACKREST = "ImageWithoutPgBackRest"
ARCHIVING_BEHIND = "ArchivingBehind"
ALREADY_RUNNING = "AlreadyRunning"
BACKUP_NOT_FOUND = "BackupNotFound"
WAL_GAP = "WalGap"
CHECKSUM_FAILED = "ChecksumFailed"
QUERY_FAILED = "QueryFailed"
TARGET_NOT_REACHED = "TargetNotReached"
TARGET_TOO_EARLY = "TargetTooEarly"
NOT_IN_BACKUP = "NotInBackup"
TARGET_EXISTS = "TargetExists"
ROLE_NOT_FOUND = "RoleNotFound"
LOAD_FAILED = "LoadFailed"
VOLUME_FULL = "VolumeFull"
RESTORE_FAILED = "RestoreFailed"
ENGINE_FAILED = "EngineFailed"
INTERRUPTED = "Interrupted"
INVALID_REQUEST = "InvalidRequest"

MOST_BYTES = 4096
"""What the kubelet keeps of a termination message."""
MOST_OF_A_MESSAGE = 1000


class Failed(Exception):
    """A run cannot go on: why, by the closed list, and a sentence of ours with the next step.

    `facts` is what is known all the same, such as the backup that was made.
    """

    def __init__(self, reason: str, message: str, *, facts: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.reason, self.message, self.facts = reason, message, facts or {}


def printable(text: str, *, most: int = MOST_OF_A_MESSAGE) -> str:
    """One line of printable ASCII, whatever comes in."""
    flat = " ".join(text.split())
    out = "".join(char if " " <= char <= "~" else "?" for char in flat)
    return out if len(out) <= most else out[: most - 3] + "..."


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as the API server writes times: UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def message(action: str, reason: str, text: str, *, began: float, ended: float, facts: dict[str, Any]) -> str:
    """The termination message: at most `MOST_BYTES`, always a whole JSON object."""
    said = {
        "ok": reason == SUCCEEDED,
        "action": action,
        "reason": reason,
        "message": printable(text),
        "startedAt": rfc3339(began),
        "stoppedAt": rfc3339(ended),
    }
    out = json.dumps({**said, **facts}, separators=(",", ":"))
    # No fact is long; should one ever be, what matters is said without them.
    return out if len(out) <= MOST_BYTES else json.dumps(said, separators=(",", ":"))

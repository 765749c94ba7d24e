"""pgBackRest's words put into ours: its exit status (the code of its error), its messages, its `info`.

Raw they go no further: messages have hex dumps, headers and binary in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from postgres_backup import codes, folder, wal
from postgres_backup.engine import BackupSet, Repository
from postgres_backup.outcome import (
    ACCESS_DENIED,
    ALREADY_RUNNING,
    ARCHIVING_BEHIND,
    BACKUP_NOT_FOUND,
    CHECKSUM_FAILED,
    DATABASE_UNREACHABLE,
    ENGINE_FAILED,
    IMAGE_WITHOUT_PGBACKREST,
    INTERRUPTED,
    INVALID_REQUEST,
    REPOSITORY_OF_ANOTHER_DATABASE,
    STORE_UNREACHABLE,
    UNTRUSTED_CERTIFICATE,
    VOLUME_FULL,
    WRONG_PASSPHRASE,
)

# What a call was about: the store, the files that say what is stored, the making of a backup, stored data.
STORE, CATALOG, BACKUP, DATA = "store", "catalog", "backup", "data"

_CODE = re.compile(r"(?:<Code>|x-ms-error-code: )([A-Za-z0-9.]{1,64})")
_TOKEN = re.compile(r"unable to get authentication token: \[(\w{1,64})\]")
_HTTP = re.compile(r"HTTP request failed with (\d{3})")
_ERROR = re.compile(r"ERROR: \[(\d{3})\]: ?(.*(?:\n +.*)*)")
"""What it was of several is on lines of their own, which are indented."""
_GCS = "/storage/v1/b/"
_NAME = re.compile(r"\b([A-Z]\w+Error)\b")
_SEGMENT = re.compile(r"(?:^|/)([0-9A-F]{24})-[0-9a-f]{40}(?:\.[a-z0-9]+)?$")
_CONNECT = (
    "unable to connect",
    "unable to get address",
    "timeout connecting",
    "connection refused",
    "no route to host",
)
_CERTIFICATE = ("unable to verify certificate", "certificate verify failed", "unable to get local issuer")

_PASSPHRASE = (
    WRONG_PASSPHRASE,
    "what is stored cannot be decrypted: put the passphrase that it was made with back into the Secret, or "
    "choose another targetURL",
)
_DAMAGED = (
    CHECKSUM_FAILED,
    "stored data is damaged or missing: make a full backup now, and see to the store; older backups may "
    "still be good",
)
_UNREACHABLE = (
    STORE_UNREACHABLE,
    "the store does not answer: the next run tries again; check endpointURL, and that the store answers",
)
_DATABASE = (
    DATABASE_UNREACHABLE,
    "the server's archiver does not answer: wait until the Postgresql is Ready; the next run tries again",
)
_OTHER = (
    REPOSITORY_OF_ANOTHER_DATABASE,
    "the place has the backups of another database: choose another targetURL, or move what is there away",
)


def reason(status: int, said: str, *, about: str, database: str = "") -> tuple[str, str]:
    """Reason and message for a call that ended with this status and these words.

    `database` is the host of the database, as the engine has it: it distinguishes the ends of a connection.
    """
    low = said.lower()
    if found := _CODE.findall(said):
        return codes.meaning(found[0])
    if token := _TOKEN.search(said):
        return codes.meaning(token[1], status=401)
    if (status_said := _HTTP.search(said)) and not status_said[1].startswith("404"):
        if about == STORE and status_said[1] == "400":
            return _UNREACHABLE  # what listens there takes this for no request: http where it is https, say
        # To a HEAD the answer has no code.
        return codes.meaning(status_said[1], status=int(status_said[1]))
    if status_said and _GCS in said:
        # There it is of a list: an object that is missing is no error.
        return codes.meaning("NoSuchBucket")
    if "unable to read pem" in low:
        return (
            ACCESS_DENIED,
            "private_key in serviceAccountKey is no key: put the cloud's own JSON file there",
        )
    if of_volume := folder.said(said):
        return of_volume
    if "no space left on device" in low:
        return VOLUME_FULL, "the volume is full: give the run a larger one"
    if "invalid page checksum" in low:
        return CHECKSUM_FAILED, (
            "pages have a wrong checksum, and had it in the server's volume already: restore an older backup "
            "beside, and compare"
        )
    at_database = bool(database) and about != STORE and database.lower() in low
    if any(word in low for word in _CERTIFICATE):
        if at_database:
            return _DATABASE
        return (
            UNTRUSTED_CERTIFICATE,
            "the store's certificate is not trusted: give the authority that signed it in caSecretRef",
        )
    if "greeting" in low and "version" in low:
        return (
            IMAGE_WITHOUT_PGBACKREST,
            "the server's image has another version of pgBackRest than the runs': use images of one release",
        )
    if any(word in low for word in _CONNECT):
        return _DATABASE if at_database else _UNREACHABLE
    if "do not match the database" in low or "does not match the database" in low:
        return _OTHER
    if status in (41, 42) and (named := _named(said)):  # FileOpen, FileRead: what it was is within the words
        status = named
    return _by_status(status, about)


def _by_status(status: int, about: str) -> tuple[str, str]:
    if about == STORE and status in (39, 41, 42, 95):  # no answer, or none of such a store
        return _UNREACHABLE
    if status in (29, 95, 100):  # FormatError, CryptoError, JsonFormatError
        return _DAMAGED if about == DATA else _PASSPHRASE
    if status == 26:  # ChecksumError
        return _DAMAGED
    if status in (28, 44, 51, 58):  # FileInvalid, ArchiveMismatch, BackupMismatch, DbMismatch
        return _OTHER if about != DATA else _DAMAGED
    if status == 55 and about == DATA:  # FileMissing
        return _DAMAGED
    if status in (55, 73, 75):  # PathMissing, BackupSetInvalid
        return BACKUP_NOT_FOUND, "there is no backup at this place: let a Backup succeed first"
    if status == 50:  # LockAcquire
        return ALREADY_RUNNING, "another run is at work on this database: the next run tries again"
    if status in (82, 87, 68):  # ArchiveTimeout, ArchiveDisabled, ArchiveCommandInvalid
        return (
            ARCHIVING_BEHIND,
            "the server does not archive its WAL, so a backup is of no use: see the condition Archiving",
        )
    if status in (39, 49, 56, 57, 59, 66, 80, 102):  # Protocol, HostConnect, Db*, Service
        return _DATABASE if about == BACKUP else _UNREACHABLE
    if status in (63, 62, -15):  # Term, Stop
        return INTERRUPTED, "the run was asked to stop: the next run starts from the beginning"
    if status in (31, 32, 33, 34, 37):  # options
        return INVALID_REQUEST, f"pgBackRest refuses its configuration (code {status}): see the Pod's log"
    return ENGINE_FAILED, f"pgBackRest failed with code {status}: see the Pod's log"


def errors(log: str) -> list[tuple[int, str]]:
    """The errors in a log to which the engine writes too: code and words, the oldest first."""
    return [(int(code), words) for code, words in _ERROR.findall(log)]


def repository(output: str) -> Repository:
    """What `info --output=json` says of our one stanza.

    :raises Unusable: where it could not be read; `status` and `said` go to `reason`.
    """
    try:
        # Where it could not decrypt, binary comes with its words.
        stanzas: list[dict[str, Any]] = json.loads(output, strict=False)
    except ValueError:
        raise Unusable(_named(output), output) from None
    if not stanzas:
        raise Unusable(55, "")
    stanza = stanzas[0]
    said = stanza.get("status", {})
    for repo in stanza.get("repo", []):
        if repo.get("status", {}).get("code", 0) not in (0, 2):
            said = repo["status"]
    if said.get("code") == 99:
        said_so = str(said.get("message", ""))
        raise Unusable(_named(said_so), said_so)
    if said.get("code") in (1, 3):
        raise Unusable(55, "")
    databases = {each["id"]: each for each in stanza.get("db", [])}
    if not databases:
        raise Unusable(55, "")
    newest = max(databases)
    archives = [each for each in stanza.get("archive", []) if each["database"]["id"] == newest]
    folder = archives[-1]["id"] if archives else f"{databases[newest]['version']}-{newest}"
    sets = tuple(_set(each) for each in stanza.get("backup", []) if each["database"]["id"] == newest)
    return Repository(sets, str(databases[newest]["system-id"]), folder)


class Unusable(Exception):
    """`info` ended well and said that it could not read what is stored."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status, self.said = status, said


_STATUS_BY_NAME = {
    "FormatError": 29,
    "JsonFormatError": 29,
    "CryptoError": 95,
    "ChecksumError": 26,
    "FileMissingError": 55,
    "HostConnectError": 49,
    "ServiceError": 102,
    "ProtocolError": 39,
}


def _named(said: str) -> int:
    """The code of the first error that is named within words; 0 without one."""
    return next((_STATUS_BY_NAME[each] for each in _NAME.findall(said) if each in _STATUS_BY_NAME), 0)


def _set(given: dict[str, Any]) -> BackupSet:
    return BackupSet(
        label=given["label"],
        full=given["type"] == "full",
        started=int(given["timestamp"]["start"]),
        stopped=int(given["timestamp"]["stop"]),
        begin_lsn=wal.lsn(given["lsn"]["start"]),
        end_lsn=wal.lsn(given["lsn"]["stop"]),
        begin_wal=given["archive"]["start"],
        end_wal=given["archive"]["stop"],
        database_bytes=int(given["info"]["size"]),
        stored_bytes=int(given["info"]["repository"]["delta"]),
        page_errors=bool(given.get("error")),
    )


def files(output: str) -> Sequence[str]:
    """The files in a listing by `repo-ls --output=json`."""
    listed = json.loads(output) if output.strip() else {}
    return sorted(path for path, said in listed.items() if said.get("type") == "file")


def segments(output: str, *, since: str) -> Sequence[str]:
    """The names in a listing by `repo-ls --output=json`, from this one on; positions count, not timelines."""
    listed = json.loads(output) if output.strip() else {}
    names = [found[1] for path in listed if (found := _SEGMENT.search(path))]
    return sorted(name for name in names if name[8:] >= since[8:])

"""Errors of the store and of pgBackRest become reasons of the closed list, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_backup import codes, outcome, words

REASONS = {value for name, value in vars(outcome).items() if name.isupper() and isinstance(value, str)}
HOST = "db.ns.svc"


@pytest.mark.parametrize(
    ("status", "said", "about", "reason"),
    [
        (29, "invalid checksum \x00\x81", words.CATALOG, "WrongPassphrase"),
        (95, "unable to flush", words.CATALOG, "WrongPassphrase"),
        (95, "unable to flush", words.DATA, "ChecksumFailed"),
        (26, "error restoring 'base/5/1259': actual checksum", words.DATA, "ChecksumFailed"),
        (55, "unable to open missing file 'backup/main/x/bundle/1' for read", words.DATA, "ChecksumFailed"),
        (55, "unable to load info file 'archive.info'", words.CATALOG, "BackupNotFound"),
        (28, "backup and archive info files exist but do not match the database", words.BACKUP,
         "RepositoryOfAnotherDatabase"),
        (50, "unable to acquire lock on file", words.BACKUP, "AlreadyRunning"),
        (82, "WAL segment 000000010000000000000004 was not archived before the timeout", words.BACKUP,
         "ArchivingBehind"),
        (87, "archive_mode must be enabled", words.BACKUP, "ArchivingBehind"),
        (49, f"unable to connect to '{HOST}:8432': [111]", words.BACKUP, "DatabaseUnreachable"),
        (49, "unable to connect to 'store:443': [111]", words.BACKUP, "StoreUnreachable"),
        (56, "unable to find primary cluster - cannot proceed", words.BACKUP, "DatabaseUnreachable"),
        (95, "unable to verify certificate presented by 'store:443': [20] unable to get local issuer",
         words.CATALOG, "UntrustedCertificate"),
        (95, f"unable to verify certificate presented by '{HOST}:8432'", words.BACKUP, "DatabaseUnreachable"),
        (39, "expected value '2.60.0' for greeting key 'version' but got '2.55.1'", words.BACKUP,
         "ImageWithoutPgBackRest"),
        (39, "HTTP request failed with 403: <Error><Code>SignatureDoesNotMatch</Code>", words.CATALOG,
         "AccessDenied"),
        (39, "HTTP request failed with 403 (Forbidden): *** Path/Query", words.BACKUP, "AccessDenied"),
        (39, "HTTP request failed with 503 (Busy)", words.BACKUP, "StoreUnreachable"),
        (39, "404: <Code>NoSuchBucket</Code>", words.CATALOG, "BucketNotFound"),
        (42, "unable to get 000000010000000000000004: repo1: [FormatError] zst error: [-20] Data corruption",
         words.DATA, "ChecksumFailed"),
        (64, "unable to write: [28] No space left on device", words.DATA, "VolumeFull"),
        (63, "terminated on signal [SIGTERM]", words.BACKUP, "Interrupted"),
        (31, "invalid option '--what'", words.BACKUP, "InvalidRequest"),
        (25, "assertion", words.BACKUP, "EngineFailed"),
        # Azure, to a HEAD too.
        (39, "HTTP request failed with 403 (x): x-ms-error-code: AuthorizationFailure", words.STORE,
         "AccessDenied"),
        (39, "HTTP request failed with 404 (x): <Error> <Code>ContainerNotFound</Code>", words.STORE,
         "BucketNotFound"),
        (39, "HTTP request failed with 404 (x): x-ms-error-code: ResourceNotFound", words.STORE,
         "BucketNotFound"),
        # Google.
        (39, "unable to get authentication token: [invalid_grant] Invalid JWT Signature.", words.STORE,
         "AccessDenied"),
        (39, "unable to get authentication token: [odd] Odd.", words.BACKUP, "AccessDenied"),
        (95, "unable to read PEM: [503841036] unsupported", words.STORE, "AccessDenied"),
        (39, "HTTP request failed with 404 (Not Found): GET /storage/v1/b/nothere/o?prefix=x", words.STORE,
         "BucketNotFound"),
        (39, "HTTP request failed with 401 (Unauthorized): GET /storage/v1/b/b/o", words.STORE,
         "AccessDenied"),
        (39, "HTTP request failed with 429 (Slow): GET /storage/v1/b/b/o", words.STORE, "StoreUnreachable"),
        # Nobody else is asked then, on whatever host.
        (49, f"unable to connect to '{HOST}:8432': [111]", words.STORE, "StoreUnreachable"),
        # What answers speaks no TLS, or it alone, or nothing at all.
        (39, "HTTP request failed with 400 (Bad Request): GET /storage/v1/b/b/o", words.STORE,
         "StoreUnreachable"),
        (42, "unexpected eof while reading line", words.STORE, "StoreUnreachable"),
        (95, "TLS error [1:167772427] wrong version number", words.STORE, "StoreUnreachable"),
    ],
)  # fmt: skip
def test_errors_of_pgbackrest(status: int, said: str, about: str, reason: str) -> None:
    found, message = words.reason(status, said, about=about, database=HOST)
    assert found == reason
    assert message.isascii()


@given(
    st.integers(-20, 130), st.text(), st.sampled_from([words.STORE, words.CATALOG, words.BACKUP, words.DATA])
)
def test_whatever_it_says_none_of_it_comes_through(status: int, said: str, about: str) -> None:
    canary = "canary\x00\xff" + said
    reason, message = words.reason(status, canary, about=about)
    assert reason in REASONS
    assert "canary" not in message
    assert outcome.printable(message) == message


@given(st.text(), st.integers(0, 600))
def test_whatever_a_store_answers_is_one_reason(code: str, status: int) -> None:
    reason, message = codes.meaning(code, status=status)
    assert reason in REASONS
    assert outcome.printable(message) == message or not code.isascii()


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        ("SignatureDoesNotMatch", "secretAccessKey"),
        ("AuthenticationFailed", "accountKey or sasToken"),
        ("invalid_grant", "serviceAccountKey"),
    ],
)
def test_credentials_that_are_refused_are_named_by_their_keys(code: str, keys: str) -> None:
    reason, message = codes.meaning(code, status=403)
    assert reason == "AccessDenied"
    assert keys in message


def test_codes_that_are_not_known_go_by_the_status() -> None:
    assert codes.meaning("Odd", status=503)[0] == "StoreUnreachable"
    assert codes.meaning("Odd", status=403)[0] == "AccessDenied"
    assert codes.meaning("Odd", status=400)[0] == "EngineFailed"
    assert "<x>" not in codes.meaning("<x>", status=400)[1]


def stanza(**changes: Any) -> str:
    backup = {
        "label": "20261124-070000F",
        "type": "full",
        "archive": {"start": "000000010000000000000004", "stop": "000000010000000000000005"},
        "lsn": {"start": "0/4000028", "stop": "0/5000050"},
        "timestamp": {"start": 10, "stop": 20},
        "info": {"size": 30_000_000, "delta": 30_000_000, "repository": {"delta": 4_000_000}},
        "database": {"id": 1, "repo-key": 1},
        "error": False,
    }
    older = {**backup, "label": "older", "database": {"id": 0, "repo-key": 1}}
    found = {
        "name": "main",
        "status": {"code": 0, "message": "ok"},
        "repo": [{"key": 1, "status": {"code": 0, "message": "ok"}}],
        "db": [
            {"id": each, "system-id": 7_000_000_000_000_000_000 + each, "version": "17"} for each in (0, 1)
        ],
        "archive": [{"id": f"17-{each}", "database": {"id": each}} for each in (0, 1)],
        "backup": [older, backup],
    }
    return json.dumps([{**found, **changes}])


def test_info_is_read() -> None:
    found = words.repository(stanza())
    assert (found.system_identifier, found.wal_folder) == ("7000000000000000001", "17-1")
    (one,) = found.sets
    assert (one.label, one.full, one.timeline, one.end_lsn) == ("20261124-070000F", True, 1, 0x5000050)
    assert (one.database_bytes, one.stored_bytes, one.page_errors) == (30_000_000, 4_000_000, False)
    assert words.repository(stanza(backup=[])).sets == ()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("[]", "BackupNotFound"),
        ('[{"status":{"message":"FormatError: key/value at line 1: \x01\\q"}}]', "WrongPassphrase"),
        (stanza(status={"code": 1, "message": "missing stanza path"}), "BackupNotFound"),
        (stanza(db=[], status={"code": 3, "message": "missing stanza data"}), "BackupNotFound"),
        (
            stanza(repo=[{"status": {"code": 99, "message": "[CryptoError] unable to flush"}}]),
            "WrongPassphrase",
        ),
        (
            stanza(repo=[{"status": {"code": 99, "message": "[ProtocolError] <Code>AccessDenied</Code>"}}]),
            "AccessDenied",
        ),
    ],
)
def test_info_that_could_not_be_had_is_a_reason(output: str, reason: str) -> None:
    with pytest.raises(words.Unusable) as raised:
        words.repository(output)
    assert words.reason(raised.value.status, raised.value.said, about=words.CATALOG)[0] == reason


def test_a_listing_has_the_segments_from_one_on() -> None:
    hash = "a" * 40
    listed = [
        f"0000000100000000/000000010000000000000003-{hash}.zst",
        f"0000000100000000/000000010000000000000004-{hash}",
        f"0000000200000000/000000020000000000000005-{hash}.zst",
        "0000000100000000/000000010000000000000004.00000028.backup",
        "00000002.history",
        "0000000100000000",
    ]
    output = json.dumps({path: {"type": "file"} for path in listed})
    found = words.segments(output, since="000000010000000000000004")
    assert found == ["000000010000000000000004", "000000020000000000000005"]
    assert words.segments("{}", since="000000010000000000000004") == []


def test_errors_are_found_in_a_log() -> None:
    log = "LOG: x\n2026 P00  ERROR: [029]: invalid\nERROR: [049]: unable to connect\nFATAL: y\n"
    assert words.errors(log) == [(29, "invalid"), (49, "unable to connect")]


def test_what_an_error_was_of_is_within_the_lines_that_follow_it() -> None:
    """As of a segment that cannot be decompressed: the code is of reading, for each repository."""
    first = "2026 P00  ERROR: [042]: raised from local-1 protocol: unable to get 000000010000000000000003:"
    more = " repo1: 17-1/0000000100000000/00000001-ab.zst [FormatError] zst error: Data corruption"
    ((code, said),) = words.errors(f"{first}\n{more}\n2026-11-28 FATAL: [029]: no\n")
    assert "FATAL" not in said
    assert words.reason(code, said, about=words.DATA)[0] == "ChecksumFailed"

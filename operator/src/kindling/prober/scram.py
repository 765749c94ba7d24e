"""SCRAM-SHA-256 verifiers, made here so that no password ever reaches the server in clear (nor its log)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stringprep
import unicodedata
from collections.abc import Callable

ITERATIONS = 4096  # PostgreSQL's own default: clients repeat them at each login
SALT_BYTES = 16

_PROHIBITED: tuple[Callable[[str], bool], ...] = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3,
    stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6,
    stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9, stringprep.in_table_a1,
)  # fmt: skip


def verifier(password: str, *, salt: bytes | None = None) -> str:
    """What PostgreSQL stores for the password, for `PASSWORD '...'`; holds no quote or backslash."""
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", hashlib.sha256)
    server = hmac.digest(salted, b"Server Key", hashlib.sha256)
    stored = hashlib.sha256(client).digest()
    return f"SCRAM-SHA-256${ITERATIONS}:{_text(salt)}${_text(stored)}:{_text(server)}"


def matches(stored: str, password: str) -> bool:
    """Whether that is a verifier of the password, as this module makes them.

    One with more iterations is not computed: who stored it would say what that costs us.
    """
    head, _, rest = stored.partition(":")
    salt, _, _ = rest.partition("$")
    if head != f"SCRAM-SHA-256${ITERATIONS}":
        return False
    try:
        made = verifier(password, salt=base64.b64decode(salt, validate=True))
    except ValueError:
        return False
    return hmac.compare_digest(made.encode(), stored.encode())


def prepared(password: str) -> str:
    """SASLprep (RFC 4013); a password it forbids stays as it is, as PostgreSQL and its clients do."""
    if password.isascii():
        return password
    kept = (char for char in password if not stringprep.in_table_b1(char))
    mapped = "".join(" " if stringprep.in_table_c12(char) else char for char in kept)
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(table(char) for char in normal for table in _PROHIBITED):
        return password
    if any(stringprep.in_table_d1(char) for char in normal):
        ends = stringprep.in_table_d1(normal[0]) and stringprep.in_table_d1(normal[-1])
        if not ends or any(stringprep.in_table_d2(char) for char in normal):
            return password
    return normal


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""What is remembered of certificates: few bytes, for ten thousand of them are read every few minutes."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta

from kindling.kinds import certificates
from kindling.kinds.certificates import Pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 200
BYTES_OF_EACH = 2_500
"""Of a pair and its authority: five hashes, dates and names, three answers. With their texts it was 4,570."""


def distinct(pair: Pair, number: int) -> Pair:
    """The same pair in another text, as another Secret has it."""
    return Pair(f"{pair.certificate}{number}\n", f"{pair.key}{number}\n")


def test_no_text_stays_that_an_answer_was_given_of() -> None:
    authority = certificates.make_authority(b"e" * 32, name="ca", now=NOW)
    made = certificates.make_server(
        b"e" * 32,
        authority=authority,
        name="db",
        hosts=["db", "db.ns", "db.ns.svc", "db.ns.svc.cluster.local"],
        now=NOW,
        life=timedelta(days=90),
    )

    def ask(number: int) -> None:
        server, root = distinct(made, number), distinct(authority, number)
        assert certificates.is_pair(server)
        assert certificates.is_issued_by(server.certificate, root.certificate)
        assert certificates.read(server.certificate) is not None
        assert certificates.read(root.certificate) is not None
        assert certificates.merged(server.certificate, root.certificate)

    ask(-1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(MANY):
            ask(number)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < MANY * BYTES_OF_EACH

"""Verifiers as PostgreSQL makes them: the salted bytes, and which passwords are normalised first."""

from __future__ import annotations

import pytest
from kindling.prober.scram import prepared, verifier


def test_known_verifier() -> None:
    # The example exchange of RFC 7677: user "user", password "pencil", its salt and 4096 rounds.
    import base64

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    made = verifier("pencil", salt=salt)
    assert made == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
        "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_salts_differ() -> None:
    assert verifier("a") != verifier("a")


@pytest.mark.parametrize(
    ("password", "becomes"),
    [
        ("plain ascii", "plain ascii"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("I\u00adX", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0007é", "\u0007é"),  # forbidden: as it is
        ("\u0627\u0031", "\u0627\u0031"),  # forbidden direction: as it is
        ("\u00ad", "\u00ad"),  # nothing would be left: as it is
    ],
)
def test_saslprep(password: str, becomes: str) -> None:
    assert prepared(password) == becomes

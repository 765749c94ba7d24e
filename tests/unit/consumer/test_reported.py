"""A reason is reported once for each Pod, until a connection."""

from __future__ import annotations

from pathlib import Path

from pulsar_consumer.reported import Reported


def test_it_outlives_a_container_and_is_one_reason(tmp_path: Path) -> None:
    marker = tmp_path / "tmp" / "reported"
    first = Reported(marker)
    assert not first.has("NotAuthorized: one")
    first.report("NotAuthorized: one")
    again = Reported(marker)
    assert again.has("NotAuthorized: other words")
    assert not again.has("AuthenticationFailed: one")
    again.report("AuthenticationFailed: one")
    assert not Reported(marker).has("NotAuthorized: one")


def test_after_a_connection_it_is_news_again(tmp_path: Path) -> None:
    marker = tmp_path / "reported"
    Reported(marker).report("NotAuthorized: one")
    later = Reported(marker)
    later.clear()
    assert not later.has("NotAuthorized: one")
    assert not Reported(marker).has("NotAuthorized: one")
    later.clear()

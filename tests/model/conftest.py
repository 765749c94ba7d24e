"""What the flight recorder has of some of these worlds is decided again when their test is over."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from tests.model.recorded import as_reported, otherwise
from tests.model.world import KINDS_BY_NAME, World

ONE_OF = 7
MOST_WORLDS = 3


@pytest.fixture(autouse=True)
def decided_again(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> Iterator[None]:
    if not thorough and zlib.crc32(request.node.nodeid.encode()) % ONE_OF:
        yield
        return
    made: list[World] = []
    begin = World.__init__

    def noted(self: World) -> None:
        begin(self)
        made.append(self)

    monkeypatch.setattr(World, "__init__", noted)
    yield
    for world in made[:MOST_WORLDS]:
        if world.kinds_by_name is not KINDS_BY_NAME:
            continue  # A record is of one process: of this world there were several, of other versions.
        for key in world.recorder.resources():
            assert otherwise(as_reported(world, key)) == []

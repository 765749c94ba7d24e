"""What the flight recorder of a world has of a resource, as a report has it, and decided again from that."""

from __future__ import annotations

import json
from typing import Any

from kindling import replay
from kindling.engine.store import Key
from kindling.kube.resources import Object

from tests.model.world import OPTIONS, World


def as_reported(world: World, key: Key) -> Object:
    """Through JSON, as it comes to whoever reads it."""
    record = replay.record(key, world.recorder.read(key), OPTIONS)
    loaded: Object = json.loads(json.dumps(record))
    return loaded


def otherwise(record: Object) -> list[Any]:
    """The decisions that this code takes otherwise: number, what was decided, what is."""
    found = []
    for number, entry in enumerate(record["entries"]):
        if entry["what"] in replay.DECISIONS and (now := replay.decide(record, number)) != entry["decided"]:
            found.append((number, entry["decided"], now))
    return found

"""The last decisions about each resource, with all that they were taken from: for the morning after.

Kept in memory, bounded, and without secrets (`redaction`). `kindling.replay` takes a decision again.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import orjson

from kindling.engine.compression import Compressor, decompress
from kindling.engine.redaction import Redactor
from kindling.engine.store import Key
from kindling.kube.resources import Object

log = logging.getLogger(__name__)

MOST_BYTES = 4 << 20
"""Of all entries as they are kept, compressed."""
MOST_OF_ONE = 32
"""So a resource that fails all the time leaves something of the others'."""

Build: TypeAlias = Callable[[Redactor], Object]


class _Entry(NamedTuple):
    key: Key
    compressed: bytes
    dictionary: bytes


@dataclass
class _Resource:
    """The numbers of a resource's entries; of each sort the last one, a hash of its decision, and how often
    that came again since.
    """

    numbers: deque[int] = field(default_factory=deque)
    last: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    again: dict[int, tuple[int, str]] = field(default_factory=dict)


class FlightRecorder:
    """Entries are JSON objects; the oldest goes first, of a resource with many and of all of them."""

    def __init__(
        self,
        *,
        most_bytes: int = MOST_BYTES,
        most_of_one: int = MOST_OF_ONE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._most_bytes, self._most_of_one, self._clock = most_bytes, most_of_one, clock
        self._redactor = Redactor(os.urandom(32))
        self._compressors: defaultdict[str, Compressor] = defaultdict(Compressor)
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._of: dict[Key, _Resource] = {}
        self._next = 0
        self.bytes = 0

    def record(self, key: Key, what: str, decision: Object, build: Build | None = None) -> None:
        """Add an entry: what `build` makes of the decision, or the decision itself, with `at` and `what`. One
        that is the last of its sort again is counted there, and nothing is built. Nothing that goes wrong
        here keeps anybody from work.
        """
        try:
            written = orjson.dumps(decision, option=orjson.OPT_SORT_KEYS)
            self._add(key, what, decision, hashlib.sha256(written).digest(), build)
        except Exception:
            log.exception("not recorded", extra={"key": str(key)})

    def _add(self, key: Key, what: str, decision: Object, digest: bytes, build: Build | None) -> None:
        now = self._clock().isoformat()
        mine = self._of.get(key, _Resource())
        number, last = mine.last.get(what, (-1, b""))
        if last == digest and number in self._entries:
            mine.again[number] = (mine.again.get(number, (0, ""))[0] + 1, now)
            return
        entry = build(self._redactor) if build is not None else decision
        packed = self._compressors[f"{what} {key.group_kind}"].compress({"at": now, "what": what, **entry})
        self._of[key] = mine
        self._entries[self._next] = _Entry(key, *packed)
        mine.numbers.append(self._next)
        mine.last[what] = (self._next, digest)
        self._next += 1
        self.bytes += len(packed[0])
        if len(mine.numbers) > self._most_of_one:
            self._drop(mine.numbers[0])
        while self.bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def resources(self) -> list[Key]:
        """The resources that it has something of, also of some that are gone."""
        return list(self._of)

    def read(self, key: Key) -> list[Object]:
        """The entries of a resource, also of one that is gone, the oldest first. `again` is how often the
        decision came again, and `lastAt` when it last did.
        """
        found = []
        mine = self._of.get(key, _Resource())
        for number in mine.numbers:
            entry = decompress(self._entries[number].compressed, self._entries[number].dictionary)
            if number in mine.again:
                entry["again"], entry["lastAt"] = mine.again[number]
            found.append(entry)
        return found

    def _drop(self, number: int) -> None:
        entry = self._entries.pop(number)
        self.bytes -= len(entry.compressed)
        mine = self._of[entry.key]
        mine.numbers.popleft()  # of one resource as of all, the oldest goes first
        mine.again.pop(number, None)
        if not mine.numbers:
            del self._of[entry.key]

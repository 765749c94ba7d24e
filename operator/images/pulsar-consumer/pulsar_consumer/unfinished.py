"""Which messages were being handled when a process ended: killed, out of memory, or by the handler's code.

A process that ends like that says nothing. So each call is noted where it outlives the process, in a file
of the Pod that is mapped into memory, and the next container of the Pod counts what it finds there. A message
that was handled when a process ended is handled alone from then on, so that no other is blamed for the next
end. Before a call that may be the last one, what there would be to say becomes the termination message.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

ENDS = 3
"""Processes that ended while they handled a message, until it is called a poison message."""
GONE_SECONDS = 60.0
"""How long a consumer is connected before a message that has not come again is no longer its own."""
_SLOT = 128
_MOST = 256
_ID = re.compile(r"[0-9:-]{3,100}")

log = logging.getLogger("pulsar_consumer")


class Unfinished:
    """The calls under way, in a `file` for the next container, and what the containers before left there.

    `termination_log` is what the kubelet reads once the container has ended.
    """

    def __init__(self, file: Path, *, slots: int, termination_log: Path) -> None:
        self._counts, self._log = file.with_name(f"{file.name}.json"), termination_log
        self._lock = threading.Lock()
        self._met: set[str] = set()
        self._ends = _counted(self._counts)
        for id in _left(file):
            self._ends[id] = self._ends.pop(id, 0) + 1
        self._memory: mmap.mmap | None = None
        self._free: list[int] = []
        try:
            self._write()
            self._memory = _mapped(file, slots * _SLOT)
            self._free = [number * _SLOT for number in range(slots)]
        except OSError as error:
            log.warning("a message that ends the process will not be recognized: %s", error)

    def ends(self, id: str) -> int:
        """How many processes ended while they handled this message, and it is not handled since."""
        return self._ends.get(id, 0)

    def met(self, id: str) -> None:
        """It has come again."""
        if id in self._ends:
            with self._lock:
                self._met.add(id)

    def begin(self, id: str) -> int | None:
        """It is handled from now on. What it returns, `end` wants."""
        if self._ends and self.ends(id) >= ENDS - 1:
            self._say(words(id, self.ends(id) + 1))
        with self._lock:
            place = self._free.pop() if self._free else None
        if place is not None and self._memory is not None:
            self._memory[place : place + _SLOT] = id.encode()[:_SLOT].ljust(_SLOT, b"\0")
        return place

    def end(self, id: str, place: int | None) -> None:
        """The handler has returned, whatever it has to say."""
        if place is not None and self._memory is not None:
            self._memory[place : place + _SLOT] = bytes(_SLOT)
            with self._lock:
                self._free.append(place)
        if self._ends and self.ends(id) >= ENDS - 1:
            self._say("")

    def settled(self, id: str) -> None:
        """The broker does not give it out again."""
        if id in self._ends:
            self._drop([id])

    def poisoned(self) -> bool:
        """Whether some message has ended processes so often, and may come again."""
        return any(count >= ENDS for count in list(self._ends.values())) if self._ends else False

    def turn(self, connected_seconds: float) -> None:
        """What has not come again in so long was acknowledged, or another consumer has it."""
        if connected_seconds >= GONE_SECONDS and self.poisoned():
            with self._lock:
                gone = [id for id, count in self._ends.items() if count >= ENDS and id not in self._met]
            self._drop(gone)

    def clear(self) -> None:
        """The process ends for a reason of its own: no call that is under way is to blame."""
        if self._memory is not None:
            self._memory[:] = bytes(len(self._memory))

    def _drop(self, ids: list[str]) -> None:
        with self._lock:
            for id in ids:
                self._ends.pop(id, None)
            with suppress(OSError):
                self._write()

    def _write(self) -> None:
        for id in list(self._ends)[:-_MOST]:
            del self._ends[id]
        self._counts.parent.mkdir(parents=True, exist_ok=True)
        if self._ends or self._counts.exists():
            partial = self._counts.with_suffix(".partial")
            partial.write_text(json.dumps(self._ends))
            partial.replace(self._counts)

    def _say(self, text: str) -> None:
        with suppress(OSError):
            self._log.write_text(text)


def words(id: str, ends: int) -> str:
    """As the container's termination message."""
    return f"PoisonMessage: the process has ended {ends} times while it handled message {id}"


def _mapped(file: Path, size: int) -> mmap.mmap:
    """In place of the one that is there, which somebody may still have mapped."""
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("wb+") as opened:
        # Reserved: a page that the disk has no space for later would end the process.
        os.posix_fallocate(opened.fileno(), 0, size)
        mapped = mmap.mmap(opened.fileno(), size)
    partial.replace(file)
    return mapped


def _left(file: Path) -> list[str]:
    """The ids in a file that a process has left."""
    try:
        content = file.read_bytes()
    except OSError:
        return []
    slots = (content[start : start + _SLOT] for start in range(0, len(content), _SLOT))
    found = (slot.rstrip(b"\0").decode(errors="replace") for slot in slots)
    return [id for id in found if _ID.fullmatch(id)]


def _counted(file: Path) -> dict[str, int]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return {str(id): int(count) for id, count in found.items() if isinstance(count, int)}

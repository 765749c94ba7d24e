"""How the store keeps objects: as JSON, packed by what they have in common with others of their type.

Apart from the store, which knows whose they are and which is newer, and nothing of how they are held.
"""

from __future__ import annotations

import zlib

import orjson

from kindling.kube.resources import Object

LEVEL, WINDOW_BITS, MEMORY_LEVEL = 2, 13, 6
"""Of zlib: with a sample more effort saves little, and a smaller window spares its memory."""


class Packer:
    """Packs objects of one sort by a sample, which is one of them.

    What is packed goes with the sample it was packed by. There is a new one when twice as many were packed
    as before: the first objects have no status yet, and later ones may look otherwise. So there are a few of
    them at once, however many objects there are; a mixture of objects costs room and nothing else.
    """

    def __init__(self) -> None:
        self._packed = 0
        self._sample = b""

    def pack(self, obj: Object) -> tuple[bytes, bytes]:
        """The object, packed, and the sample that `unpack` needs for it."""
        raw = orjson.dumps(obj)
        self._packed += 1
        if self._packed & (self._packed - 1) == 0:
            self._sample = raw[-(1 << WINDOW_BITS) :]  # zlib looks no further back
        packing = zlib.compressobj(LEVEL, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL, zdict=self._sample)
        return packing.compress(raw) + packing.flush(), self._sample


def unpack(packed: bytes, sample: bytes) -> Object:
    """The object, made anew each time."""
    found: Object = orjson.loads(zlib.decompressobj(zdict=sample).decompress(packed))
    return found

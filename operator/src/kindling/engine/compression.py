"""How the store keeps objects: as JSON, packed by what they have in common with others of their type.

Apart from the store, which knows whose they are and which is newer, and nothing of how they are held.
"""

from __future__ import annotations

import zlib

import orjson

from kindling.kube.resources import Object

LEVEL, WINDOW_BITS, MEMORY_LEVEL = 2, 13, 6
"""Of zlib: with a sample more effort saves little, and a smaller window spares its memory."""


class Compressor:
    """Packs objects of one sort by a sample, which is one of them.

    What is packed goes with the sample it was packed by. There is a new one when twice as many were packed
    as before: the first objects have no status yet, and later ones may look otherwise. So there are a few of
    them at once, however many objects there are; a mixture of objects costs memory and nothing else.
    """

    def __init__(self) -> None:
        self._compressed = 0
        self._dictionary = b""

    def compress(self, obj: Object) -> tuple[bytes, bytes]:
        """The object, packed, and the sample that `decompress` needs for it."""
        raw = orjson.dumps(obj)
        self._compressed += 1
        if self._compressed & (self._compressed - 1) == 0:
            self._dictionary = raw[-(1 << WINDOW_BITS) :]  # zlib looks no further back
        stream = zlib.compressobj(LEVEL, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL, zdict=self._dictionary)
        return stream.compress(raw) + stream.flush(), self._dictionary


def decompress(compressed: bytes, dictionary: bytes) -> Object:
    """The object, a new copy each time."""
    found: Object = orjson.loads(zlib.decompressobj(zdict=dictionary).decompress(compressed))
    return found

"""How long this machine takes to hash and to read memory, in fixed amounts, by the standard library.

Apart from `calibration`, which needs the operator's packages: `environment` runs before there are any.
"""

from __future__ import annotations

import functools
import hashlib
import time
from array import array

PLACES = 1 << 24
READS = 1 << 20


def hashing(mebibytes: int) -> float:
    """Seconds of wall clock for the SHA-256 of so much on one core."""
    block, digest, began = bytes(1 << 20), hashlib.sha256(), time.monotonic()
    for _ in range(mebibytes):
        digest.update(block)
    return time.monotonic() - began


@functools.cache
def _ring() -> array[int]:
    """One ring through all places: with these factors the generator passes each of them before it repeats
    itself (Hull and Dobell, 1962), in an order that a processor can't foresee.
    """
    return array("I", ((place * 1_664_525 + 1_013_904_223) % PLACES for place in range(PLACES)))


def chasing() -> float:
    """Seconds of wall clock for 2^20 reads all over 64 MiB, each of which says where the next one is."""
    ring, place, began = _ring(), 0, time.monotonic()
    for _ in range(READS):
        place = ring[place]
    return time.monotonic() - began

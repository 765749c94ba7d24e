"""What the sweeps share beside the harness: how far they have come, and which points are tried at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Progress:
    """Says how far a long sweep has come, how long it took, how long the rest will take, what is wrong."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._began = time.monotonic()
        self._done = self._printed = 0

    def step(self, count: int, wrong: Sequence[str], words: str = "") -> None:
        """`wrong` is all that was found so far; each is printed once."""
        for line in wrong[self._printed :]:
            print(line, flush=True)
        self._printed = len(wrong)
        self._done += count
        took = time.monotonic() - self._began
        left = took / max(1, self._done) * (self._total - self._done)
        head = f"{self._what}: {self._done} of {self._total}, {took:.0f} s, {left:.0f} s left"
        print(f"{head}; {len(wrong)} wrong{words}", flush=True)


def few_of(points: Sequence[T], count: int) -> list[T]:
    """About so many of them, evenly spread."""
    step = max(1, len(points) // count)
    return list(points[step // 2 :: step])


def in_chunks(items: Sequence[T], most: int, *, weight: Callable[[T], int]) -> Iterator[list[T]]:
    """All of them in their order, as many at once as do not weigh more than `most`."""
    chunk: list[T] = []
    for item in items:
        if chunk and sum(map(weight, chunk)) + weight(item) > most:
            yield chunk
            chunk = []
        chunk.append(item)
    if chunk:
        yield chunk

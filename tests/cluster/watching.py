"""What a client sees of a resource while something is done: `kubectl get --watch`, from before that on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.cluster.stack import Environment, within

BEGIN_SECONDS = 60


class Seen(NamedTuple):
    """A line, and when it was read, by the clock that only goes forward."""

    moment: float
    line: str


@contextmanager
def watching(environment: Environment, *words: str) -> Iterator[list[Seen]]:
    """The lines of `kubectl get WORDS… --watch`, which grow until the end; what is there is the first one.

    A watch that begins late on a busy machine would miss what is short, and be waited for in vain.
    """
    process = environment.start("get", *words, "--watch")
    seen: list[Seen] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(Seen(time.monotonic(), line.rstrip("\n")))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        within(BEGIN_SECONDS, lambda: bool(seen))
        yield seen
        assert process.poll() is None, "it ended by itself"
    finally:
        process.kill()
        reader.join(timeout=10)
        process.wait()

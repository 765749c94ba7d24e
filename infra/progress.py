"""Showing long work: what runs now, for how long, and what is left.

One writer for two audiences: on a terminal the running step is one line redrawn in place, in a log
every line stands alone and carries no control codes. Estimates come from the caller (measured on two
cores) and are only ever shown as "about".
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

LOG_INTERVAL_SECONDS = 30.0
REDRAW_SECONDS = 0.5


@dataclass(frozen=True)
class Step:
    """A piece of work announced beforehand; `seconds` is what it took on two cores."""

    name: str
    seconds: float


class Progress:
    """Announces steps, then times them one by one.

    Steps that were not planned are timed all the same; planned ones that turn out to be needless are
    dropped with `skip`. Not thread-safe: steps run one after the other.
    """

    def __init__(self, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._began = clock()
        self._left: list[Step] = []
        self.taken: dict[str, float] = {}

    @property
    def _terminal(self) -> bool:
        return self._stream.isatty()

    def plan(self, steps: list[Step]) -> None:
        """Add steps to what is left."""
        self._left.extend(steps)

    def skip(self, name: str) -> None:
        """Take a planned step off the list, because it proved needless."""
        self._left = [step for step in self._left if step.name != name]

    def say(self, text: str) -> None:
        """Write one line of its own."""
        self._write(text + "\n")

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time one step; the yielded function takes a word on what it is doing right now."""
        estimate = next((s.seconds for s in self._left if s.name == name), 0.0)
        self.skip(name)
        ticker = _Ticker(self, name, estimate, self._clock)
        ticker.start()
        try:
            yield ticker.detail
        except BaseException as error:
            word = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            ticker.stop(f"  ✗ {name}: {word} after {duration(ticker.elapsed)}")
            raise
        self.taken[name] = ticker.elapsed
        ticker.stop(f"  ✓ {name} ({duration(ticker.elapsed)}){self._remaining(0.0)}")

    @contextmanager
    def foreground(self, name: str) -> Iterator[None]:
        """Time a step whose program writes to the terminal itself: a line before, a line after."""
        began = self._clock()
        self.say(f"  … {name}{self._remaining(0.0)}")
        self.skip(name)
        try:
            yield
        except BaseException as error:
            word = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self.say(f"  ✗ {name}: {word} after {duration(self._clock() - began)}")
            raise
        self.taken[name] = self._clock() - began
        self.say(f"  ✓ {name} ({duration(self.taken[name])}){self._remaining(0.0)}")

    def _remaining(self, running: float) -> str:
        seconds = running + sum(step.seconds for step in self._left)
        if seconds < 1:
            return ""
        return f", about {duration(seconds)} left"

    def _write(self, text: str) -> None:
        self._stream.write(("\r\x1b[K" if self._terminal else "") + text)
        self._stream.flush()


class _Ticker(threading.Thread):
    """Keeps the running step's line alive from a thread, because the work itself blocks."""

    def __init__(self, owner: Progress, name: str, estimate: float, clock: Callable[[], float]) -> None:
        super().__init__(daemon=True)
        self._owner, self._name, self._estimate, self._clock = owner, name, estimate, clock
        self._began = clock()
        self._detail = ""
        self._done = threading.Event()
        self._interval = REDRAW_SECONDS if owner._terminal else LOG_INTERVAL_SECONDS

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    def detail(self, text: str) -> None:
        self._detail = text.strip()[-60:]

    def run(self) -> None:
        self._draw()
        while not self._done.wait(self._interval):
            self._draw()

    def stop(self, last_line: str) -> None:
        self._done.set()
        self.join()
        self._owner._write(last_line + "\n")

    def _draw(self) -> None:
        left = self._owner._remaining(max(self._estimate - self.elapsed, 0.0))
        line = f"  … {self._name}: {duration(self.elapsed)}{left}"
        if self._detail:
            line += f"  [{self._detail}]"
        self._owner._write(line if self._owner._terminal else line + "\n")


def duration(seconds: float) -> str:
    """`7 s`, `3 min 20 s`, `1 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

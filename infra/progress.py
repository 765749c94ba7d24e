"""Progress of long work: what runs now, since when, and what is left.

`Progress` knows the steps, a `Display` shows them: `Lines` here, for logs and before the virtual environment
exists, and on a terminal the tree of `infra.cli.progress_tree`. Estimates come from the caller (measured on
two cores) and are only ever shown as "about".
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TextIO


@dataclass(frozen=True)
class Step:
    """A piece of work announced beforehand; `seconds` is what it took on two cores."""

    name: str
    seconds: float


@dataclass
class Running:
    """A step under way: since when by the clock, its estimate, and a word on what it is at."""

    name: str
    began: float
    seconds: float
    detail: str = ""


class Display(Protocol):
    """Where it is shown. `begins` and `ends` frame each running step, `says` is a line that stays."""

    def begins(self, step: Running) -> None: ...

    def ends(self, step: Running, line: str) -> None: ...

    def says(self, text: str) -> None: ...


class Progress:
    """Announces steps, then times them; several may run at once, each in a thread of its own.

    Steps that were not planned are timed all the same; planned ones that turn out to be needless are
    dropped with `skip`.
    """

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        stream = stream if stream is not None else sys.stderr
        self.clock = clock
        self.left: list[Step] = []
        self.running: list[Running] = []
        self.taken: dict[str, float] = {}
        self._alone = threading.Lock()
        self.display: Display = terminal(self, stream) if stream.isatty() else Lines(stream)

    def plan(self, steps: list[Step]) -> None:
        """Add steps to what is left."""
        self.left = [*self.left, *steps]

    def skip(self, name: str) -> None:
        """Take a planned step off the list, because it proved needless."""
        with self._alone:
            self.left = [step for step in self.left if step.name != name]

    def say(self, text: str) -> None:
        """Write one line of its own."""
        self.display.says(text)

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time one step; the yielded function takes a word on what it is doing right now."""
        step = self._begun(name)

        def detail(text: str) -> None:
            step.detail = text.strip()[-60:]

        with self._alone:
            self.running = [*self.running, step]
        self.display.begins(step)
        line = ""
        try:
            yield detail
            self.taken[name] = self.clock() - step.began
        except BaseException as error:
            line = self._broken(step, error)
            raise
        finally:
            with self._alone:
                self.running = [other for other in self.running if other is not step]
            self.display.ends(step, line or self._done(name))

    @contextmanager
    def foreground(self, name: str) -> Iterator[None]:
        """Time a step whose program writes to the terminal itself: a line before, a line after."""
        step = self._begun(name)
        self.say(f"  … {name}{self.remaining()}")
        try:
            yield
        except BaseException as error:
            self.say(self._broken(step, error))
            raise
        self.taken[name] = self.clock() - step.began
        self.say(self._done(name))

    def remaining(self) -> str:
        """`, about 3 min 20 s left`; nothing where that is not known, or next to nothing."""
        now = self.clock()
        seconds = sum(max(step.seconds - (now - step.began), 0.0) for step in self.running)
        seconds += sum(step.seconds for step in self.left)
        return f", about {duration(seconds)} left" if seconds >= 1 else ""

    def _begun(self, name: str) -> Running:
        estimate = next((step.seconds for step in self.left if step.name == name), 0.0)
        self.skip(name)
        return Running(name, self.clock(), estimate)

    def _done(self, name: str) -> str:
        return f"  ✓ {name} ({duration(self.taken[name])}){self.remaining()}"

    def _broken(self, step: Running, error: BaseException) -> str:
        word = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        return f"  ✗ {step.name}: {word} after {duration(self.clock() - step.began)}"


@dataclass
class Lines:
    """Each event is one line, written once, without control codes."""

    stream: TextIO
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def begins(self, step: Running) -> None:
        estimate = f" (about {duration(step.seconds)})" if step.seconds >= 1 else ""
        self.says(f"  … {step.name}{estimate}")

    def ends(self, step: Running, line: str) -> None:
        self.says(line)

    def says(self, text: str) -> None:
        with self._alone:
            self.stream.write(text + "\n")
            self.stream.flush()


def _lines(_progress: Progress, stream: TextIO) -> Display:
    return Lines(stream)


terminal: Callable[[Progress, TextIO], Display] = _lines
"""What draws on a terminal: `infra.cli.main` puts the tree here, which needs the environment."""


def duration(seconds: float) -> str:
    """`7 s`, `3 min 20 s`, `1 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""Progress on a terminal: one live tree of what is under way and what is left, beneath the lines that stay.

Rich draws it; it is there while a step runs, and gone before anybody else writes to the terminal: Pulumi has
a tree of its own.
"""

from __future__ import annotations

import threading
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

from infra.progress import Progress, Running, duration

REDRAWS_PER_SECOND = 4
# So many of what is left are named; a bare machine has twenty.
SHOWN = 8


class LiveTree:
    """A `Display`. Steps may begin and end in several threads."""

    def __init__(self, progress: Progress, stream: TextIO) -> None:
        self._progress = progress
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        self._alone = threading.Lock()

    def begins(self, step: Running) -> None:
        with self._alone:
            if self._live is None:
                self._live = Live(
                    self,
                    console=self._console,
                    refresh_per_second=REDRAWS_PER_SECOND,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._live.start(refresh=True)

    def ends(self, step: Running, line: str) -> None:
        with self._alone:
            if self._live is not None and not self._progress.running:
                self._live.stop()
                self._live = None
        self.says(line)

    def says(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.tree(console.get_time())

    def tree(self, time: float) -> Tree:
        """As it is now; `time` turns the spinner."""
        root = Tree(Text(self._progress.remaining().removeprefix(", ") or "at work"), hide_root=False)
        sign = self._spinner.render(time)
        now = self._progress.clock()
        for step in self._progress.running:
            line = Text(no_wrap=True, overflow="ellipsis").append_text(Text(str(sign), style="cyan"))
            line.append(f" {step.name}, {duration(now - step.began)}")
            if step.detail:
                line.append(f"  {step.detail}", style="dim")
            root.add(line)
        left = self._progress.left
        for planned in left[:SHOWN]:
            estimate = f", about {duration(planned.seconds)}" if planned.seconds >= 1 else ""
            root.add(Text(f"{planned.name}{estimate}", style="dim", no_wrap=True, overflow="ellipsis"))
        if len(left) > SHOWN:
            root.add(Text(f"{len(left) - SHOWN} more", style="dim"))
        return root

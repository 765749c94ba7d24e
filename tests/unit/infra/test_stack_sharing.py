"""How the workers of one run share the stack of tests/cluster: up once, down once, and never too early."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.sharing import SharedStack


class Stack:
    """What is brought up and taken down, in this order."""

    def __init__(self, folder: Path, *, breaks: bool = False) -> None:
        self.folder, self.breaks = folder, breaks
        self.done: list[str] = []

    def joined(self, *, run: str = "this") -> tuple[SharedStack, ExitStack]:
        shared, stack = SharedStack(self.folder, run=run), ExitStack()
        stack.enter_context(shared.joined(up=self._up, down=lambda: self.done.append("down")))
        return shared, stack

    def _up(self) -> None:
        self.done.append("up")
        if self.breaks:
            raise OSError("no disk")


def test_the_first_brings_it_up_and_the_last_takes_it_down(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    (_, first), (_, second) = stack.joined(), stack.joined()
    assert stack.done == ["down", "up"], "what an earlier run left goes first"
    first.close()
    assert stack.done == ["down", "up"]
    second.close()
    assert stack.done == ["down", "up", "down"]
    _, late = stack.joined()
    late.close()
    assert stack.done[3:] == ["down", "up", "down"], "one that comes after the last has its own"


def test_another_runs_record_is_nothing(tmp_path: Path) -> None:
    """Its workers were killed, and did not leave."""
    stack = Stack(tmp_path)
    killed = stack.joined(run="killed")
    _, mine = stack.joined()
    mine.close()
    assert stack.done == ["down", "up", "down", "up", "down"]
    del killed


def test_what_could_not_be_brought_up_is_not_tried_by_each(tmp_path: Path) -> None:
    stack = Stack(tmp_path, breaks=True)
    with pytest.raises(OSError, match="no disk"):
        stack.joined()
    with pytest.raises(RuntimeError, match="another worker could not bring the stack up"):
        stack.joined()
    assert stack.done == ["down", "up", "down"]


def test_who_must_be_alone_waits_for_the_others_and_they_for_it(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    (exclusive, first), (_, second) = stack.joined(), stack.joined()
    said: list[str] = []

    def alone() -> None:
        with exclusive.alone():
            said.append("alone")
            time.sleep(0.3)
            said.append("done")

    waiting = threading.Thread(target=alone)
    waiting.start()
    time.sleep(0.3)
    assert said == [], "the other is there"
    second.close()
    while not said:
        time.sleep(0.01)
    _, third = stack.joined()
    assert said == ["alone", "done"], "it came while one was alone"
    waiting.join()
    third.close()
    first.close()

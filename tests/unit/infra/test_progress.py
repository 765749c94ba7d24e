"""Reports of long work: a log gets each event once; a terminal shows a tree until the work is done."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from infra.cli.progress_tree import LiveTree
from infra.progress import Progress, Step
from tests.unit.infra.cli_machine import Machine, new_machine, programs_of
from tests.unit.infra.terminal import CTRL_C, Terminal


class Clock:
    """Advances by itself only where a test sets it to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_in_a_log_each_event_is_one_line(clock: Clock) -> None:
    log = io.StringIO()
    progress = Progress(stream=log, clock=clock)
    progress.plan([Step("Build a", 60.0), Step("Build b", 30.0), Step("Up", 10.0)])
    with progress.step("Build a") as detail:
        for second in range(300):
            clock.now = second
            detail(f"package {second}")
    progress.skip("Build b")
    with pytest.raises(ValueError, match="broken"), progress.step("Fetch"):
        raise ValueError("broken")
    with progress.foreground("Up"):
        clock.now += 5
    assert log.getvalue().splitlines() == [
        "  … Build a (about 1 min 0 s)",
        "  ✓ Build a (4 min 59 s), about 40 s left",
        "  … Fetch",
        "  ✗ Fetch: failed after 0 s",
        "  … Up",
        "  ✓ Up (5 s)",
    ]
    assert progress.taken == {"Build a": 299.0, "Up": 5.0}


def test_what_is_left_counts_what_runs(clock: Clock) -> None:
    progress = Progress(stream=io.StringIO(), clock=clock)
    progress.plan([Step("a", 60.0), Step("b", 30.0)])
    with progress.step("a"):
        clock.now = 20
        assert progress.remaining() == ", about 1 min 10 s left"
        clock.now = 500
        assert progress.remaining() == ", about 30 s left", "what takes longer than thought is about to end"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_of_several_threads_are_in_one_tree(clock: Clock) -> None:
    screen = Screen()
    progress = Progress(stream=screen, clock=clock)
    display = LiveTree(progress, screen)
    progress.display = display
    progress.plan([Step("a", 60.0), Step("b", 30.0), *(Step(f"later {n}", 1.0) for n in range(12))])
    inside, go_on = threading.Barrier(3), threading.Event()

    def work(name: str) -> None:
        with progress.step(name) as detail:
            detail(f"at {name}")
            inside.wait(10)
            go_on.wait(10)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    inside.wait(10)
    clock.now = 7
    lines = [str(child.label) for child in display.tree(0).children]
    assert str(display.tree(0).label) == "about 1 min 28 s left"
    assert sorted(line[2:] for line in lines[:2]) == ["a, 7 s  at a", "b, 7 s  at b"]
    assert lines[2] == "later 0, about 1 s"
    assert lines[-1] == "4 more"
    go_on.set()
    for thread in threads:
        thread.join()
    written = screen.getvalue()
    assert written.count("✓ a (7 s)") == written.count("✓ b (7 s)") == 1
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "the cursor is back"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = new_machine(tmp_path)
    # pip asks for Go again and again with growing pauses, so the step lasts until it is interrupted.
    machine.extra |= {"PIP_RETRIES": "50"}
    return machine


def test_on_a_terminal_ctrl_c_leaves_lines_and_no_tree(machine: Machine) -> None:
    terminal = Terminal(machine, "exec", "pulumi", "version")
    shown = terminal.wait(lambda lines: any("Build pulumi 3.259.0, 2 s" in line for line in lines))
    assert shown[0] == "at work", "nothing was planned, so nobody knows what is left"
    assert shown[1].startswith("└── ")
    assert "looking for Go" in shown[1]
    assert terminal.screen.cursor.hidden
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    interrupted, reported, *_ = terminal.shown
    assert interrupted.startswith("  ✗ Build pulumi 3.259.0: interrupted after ")
    assert reported.startswith("interrupted: what was finished is kept")
    assert not any("──" in line for line in terminal.shown)
    assert not terminal.screen.cursor.hidden
    assert programs_of(machine) == {}


def test_before_the_environment_a_terminal_gets_lines_too(tmp_path: Path) -> None:
    bare = new_machine(tmp_path, environment=False)
    bare.extra |= {"PIP_RETRIES": "50"}
    terminal = Terminal(bare, "up")
    terminal.wait(lambda lines: lines == ["  … Python environment (requirements.txt)"])
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert terminal.shown[-1].startswith("interrupted: what was finished is kept")
    assert programs_of(bare) == {}

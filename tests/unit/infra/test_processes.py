"""Programs are ended when they should be, and their own words reach the reader."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import paths, processes
from tests.unit.infra.cli_machine import alive


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_comes_back_and_input_goes_in() -> None:
    assert processes.run(python("print(input()[::-1])"), timeout=20, stdin="abc\n") == "cba\n"


def test_a_failure_carries_status_and_the_programs_message() -> None:
    with pytest.raises(processes.ProgramError) as caught:
        processes.run(
            python("import sys; print('the disk is full', file=sys.stderr); sys.exit(3)"), timeout=20
        )
    assert caught.value.status == 3
    assert "the disk is full" in caught.value.why


def test_a_missing_program_is_named() -> None:
    with pytest.raises(processes.ProgramError, match="no-such-program") as caught:
        processes.run(["no-such-program"], timeout=5)
    assert "doctor" in caught.value.remedy


def test_a_timeout_ends_the_children_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid)); time.sleep(60)"
    )
    with pytest.raises(processes.ProgramError, match="did not finish within 2 s"):
        processes.run(python(code), timeout=2)
    child = int(pid_file.read_text())
    for _ in range(50):
        if not alive(child):
            return
        time.sleep(0.1)
    raise AssertionError("the grandchild outlived the timeout")


def test_lines_of_standard_error_are_seen_as_they_come() -> None:
    lines: list[str] = []
    processes.run(
        python("import sys; [print(n, file=sys.stderr) for n in range(3)]"), timeout=20, on_line=lines.append
    )
    assert lines == ["0", "1", "2"]


@pytest.mark.parametrize("call", [lambda words: processes.run(words, timeout=60), processes.run_foreground])
def test_an_interrupt_while_it_starts_ends_it_all_the_same(
    call: Callable[[list[str]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        """There, and its maker hears of something else before of that."""

        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(python("import time; time.sleep(60)"))
    assert [alive(pid) for pid in started] == [False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("asks", "answered"), [(True, "hello"), (False, "nothing")])
def test_only_a_program_that_asks_has_our_input(asks: bool, answered: str) -> None:
    program = "import sys; print(sys.stdin.readline().strip() or 'nothing')"
    code = (
        "import sys\nfrom infra import processes\n"
        f"processes.run_foreground([sys.executable, '-c', {program!r}], asks={asks})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="hello\n",
        cwd=paths.REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"{answered}\n"


def test_a_request_to_end_reaches_a_program_that_asks(tmp_path: Path) -> None:
    """It comes to us alone, where a terminal's Ctrl-C comes to both."""
    program = (
        "import signal, sys, time, pathlib\n"
        "def on_signal(*_):\n"
        f"    pathlib.Path({str(tmp_path / 'signalled')!r}).touch()\n    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, on_signal)\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\ntime.sleep(60)\n"
    )
    code = (
        "import signal, sys\nfrom infra import processes\n"
        "class Ended(KeyboardInterrupt): pass\n"
        "def end(*_): raise Ended\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"processes.run_foreground([sys.executable, '-c', {program!r}], asks=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=paths.REPOSITORY, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    process.wait(30)
    assert (tmp_path / "signalled").exists()

"""The password that psql asks for: given by pipes and on a terminal, once, and in no output.

The program that asks is a real one, on a real terminal of its own, where there is one.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from kubectl_kindling.terminal import Prompt

from tests.unit.plugin.terminals import on_a_terminal

PASSWORD = "canary word"
ASKS = """\
    import sys, termios
    PROMPT = {prompt!r}
    if "--tty" in sys.argv:
        terminal = open("/dev/tty", "r+b", buffering=0)
        before = termios.tcgetattr(terminal)
        silent = termios.tcgetattr(terminal)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
        terminal.write(PROMPT.encode())
        found = b""
        while not found.endswith(b"\\n"):
            found += terminal.read(1)
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        print("right" if found.decode().strip() == {password!r} else "wrong", flush=True)
        print("typed", input("=> "))
        sys.exit(3)
    sys.stderr.write(PROMPT)
    sys.stderr.flush()
    print("right" if sys.stdin.readline().rstrip("\\n") == {password!r} else "wrong")
    print(sys.stdin.read(), end="")
    sys.stderr.write("psql: a word on standard error\\n")
    sys.exit(2)
"""
CALLS = """\
    import sys
    from kubectl_kindling import terminal
    way = terminal.run if "--tty" in sys.argv else terminal.pipe
    sys.exit(way([sys.executable, *sys.argv[1:]], {password!r}))
"""
PROMPTS = ["Password: ", "Password for user pgowner: "]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return script(tmp_path / "calls.py", CALLS)


def script(path: Path, text: str, prompt: str = "") -> Path:
    path.write_text(textwrap.dedent(text).format(prompt=prompt, password=PASSWORD))
    return path


@pytest.mark.parametrize("prompt", PROMPTS)
def test_by_pipes(calls: Path, tmp_path: Path, prompt: str) -> None:
    asks = script(tmp_path / "asks.py", ASKS, prompt)
    done = subprocess.run(
        [sys.executable, calls, asks], input="select 1;\n", capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "right\nselect 1;\n"
    assert done.stderr == "psql: a word on standard error\n"
    assert done.returncode == 2


def test_by_pipes_words_that_are_no_prompt_are_printed(calls: Path, tmp_path: Path) -> None:
    asks = script(tmp_path / "asks.py", ASKS, "error: no such Pod\n")
    done = subprocess.run([sys.executable, calls, asks], input="", capture_output=True, text=True, timeout=30)
    assert done.stderr == "error: no such Pod\npsql: a word on standard error\n"


@pytest.mark.parametrize("prompt", PROMPTS)
def test_on_a_terminal(calls: Path, tmp_path: Path, prompt: str) -> None:
    """What a person sees, and what becomes of the person's keys."""
    asks = script(tmp_path / "asks.py", ASKS, prompt)
    output, status = on_a_terminal(
        [sys.executable, str(calls), str(asks), "--tty"], keys=b"hello\r", after=b"=> "
    )
    assert status == 3
    assert output.split() == [b"right", b"=>", b"hello", b"typed", b"hello"]
    assert PASSWORD.encode() not in output


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_may_come_in_pieces(prompt: str) -> None:
    found = Prompt()
    for char in prompt.encode():
        assert found.without(bytes([char])) == b""
    assert found.asked
    assert found.without(b"\r") == b""
    assert found.without(b"\nPassword: ") == b"Password: ", "only the first is a prompt"
    assert found.without(b"\n") == b"\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_log_lines_of_kubectl_may_come_before_the_prompt(prompt: str, end: bytes) -> None:
    """Seen on a busy machine: the stream begins before kubectl expects it."""
    lines = b"".join(
        f"{level}1127 03:42:11.123456   12345 websocket.go:297] Unknown stream id 1".encode() + end
        for level in "EWI"
    )
    text = lines + prompt.encode() + b"\nERROR: no"
    for size in (1, 7, len(text)):
        found = Prompt()
        pieces = [text[place : place + size] for place in range(0, len(text), size)]
        assert b"".join(map(found.without, pieces)) + found.rest() == lines + b"ERROR: no"
        assert found.asked


@pytest.mark.parametrize(
    "text",
    [
        b"E1127 03:42 said",
        b"ERROR: no",
        b"E112",
        b"psql: error",
        b"Passwords are:\n",
        b"P\n",
        b"Password for user " + b"x" * 600,
    ],
)
def test_what_is_no_prompt_is_printed_and_answered_by_nothing(text: bytes) -> None:
    found = Prompt()
    printed = b"".join(found.without(text[place : place + 1]) for place in range(len(text))) + found.rest()
    assert printed == text
    assert not found.asked

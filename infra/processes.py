"""Running other programs: argument lists, timeouts, their own messages in the error.

The one place that imports `subprocess` on the host side, beside `cli.reload`, whose program is watched
and not waited for. A child gets a process group of its own and never outlives this process's interest
in it: on a timeout, on Ctrl-C and on any error the whole group is ended, so an interrupted build leaves
no compiler behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from infra.errors import KindlingError

TAIL_LINES = 30
GRACE_SECONDS = 20.0
_RUNNING: set[subprocess.Popen[str]] = set()
"""What `run` waits for, in whatever thread."""
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ProgramError(KindlingError):
    """A program failed, timed out or is missing; `status` is its exit status, None if it never ran."""

    def __init__(self, what: str, *, why: str = "", remedy: str = "", status: int | None = None) -> None:
        super().__init__(what, why=why, remedy=remedy)
        self.status = status


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    on_line: Callable[[str], None] | None = None,
    inherits: Sequence[int] = (),
) -> str:
    """Run to the end and return standard output.

    `timeout` in seconds. `env` is laid over this process's environment. `on_line` sees each line of
    standard error as it comes (where build tools write their progress). `inherits` are descriptors that
    the program keeps open. Raises `ProgramError` with the last lines of standard error on a non-zero exit,
    a timeout or a missing program.
    """
    args = [str(word) for word in argv]
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with _started(args, env=env, cwd=cwd, wants_input=stdin is not None, inherits=inherits) as process:
        assert process.stderr is not None
        watcher = threading.Thread(target=_drain, args=(process.stderr, tail, on_line), daemon=True)
        watcher.start()
        stdout: list[str] = []
        reader = threading.Thread(target=_collect, args=(process.stdout, stdout), daemon=True)
        reader.start()
        if stdin is not None:
            _feed(process, stdin)
        try:
            status = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ProgramError(
                f"`{args[0]}` did not finish within {timeout:.0f} s: {_shown(args)}",
                why=_tail(tail),
                remedy="run it again; what was finished is kept. If it recurs, the machine is overloaded.",
            ) from None
        watcher.join(5)
        reader.join(5)
    output = "".join(stdout)
    if status != 0:
        why = _tail(tail) or "\n".join(output.splitlines()[-TAIL_LINES:])
        raise ProgramError(f"`{_shown(args)}` exited with status {status}", why=why, status=status)
    return output


def succeeds(argv: Sequence[str | Path], *, timeout: float, env: Mapping[str, str] | None = None) -> bool:
    """Whether the program exists and exits with status 0, for questions where both answers are fine."""
    try:
        run(argv, timeout=timeout, env=env)
    except ProgramError:
        return False
    return True


def terminate_all() -> None:
    """Have every program that another thread waits for end; its `run` raises `ProgramError` there."""
    for process in tuple(_RUNNING):
        _signal(process, signal.SIGTERM)


def run_foreground(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    inherits: Sequence[int] = (),
    asks: bool = False,
) -> int:
    """Run with this terminal's output and return the exit status; there is no input to wait for.

    `env` and `inherits` as for `run`. No timeout: a person is watching. The program has a session of its
    own, so that it hears of a Ctrl-C from us, once each time: Pulumi takes the first as "finish what you are
    at" and a second as "stop at once". KeyboardInterrupt is raised when it has ended, after a third it is
    killed. One that `asks` has our input, and for that stays in our session, where the terminal itself sends
    it a Ctrl-C.
    """
    args = [str(word) for word in argv]
    process: subprocess.Popen[bytes] | None = None
    interrupt: KeyboardInterrupt | None = None
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        try:
            if process is None:
                with _defer_signals():
                    process = subprocess.Popen(
                        args,
                        env=_env_vars(env),
                        cwd=cwd,
                        stdin=None if asks else subprocess.DEVNULL,
                        start_new_session=not asks,
                        pass_fds=inherits,
                    )
            status = process.wait()
            break
        except FileNotFoundError:
            raise _missing(args) from None
        except KeyboardInterrupt as error:
            if process is None:
                raise
            interrupt = error
            # A request to end came to us alone; it is a kind of interrupt too.
            if not asks or type(error) is not KeyboardInterrupt or number == signal.SIGKILL:
                _signal(process, number)
        except BaseException:
            if process is not None:
                _end(process)
            raise
    else:
        assert process is not None
        status = process.wait()
    if interrupt is not None:
        raise interrupt
    return status


@contextmanager
def running(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A program beside us for as long as it lasts, its output and error in pipes that the caller reads.

    Raises `ProgramError` for a missing program. It is ended at the end, whatever happened.
    """
    args = [str(word) for word in argv]
    with _started(args, env=env, cwd=None, wants_input=False, inherits=()) as process:
        yield process


@contextmanager
def _started(
    args: list[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    wants_input: bool,
    inherits: Sequence[int],
) -> Iterator[subprocess.Popen[str]]:
    process: subprocess.Popen[str] | None = None
    try:
        with _defer_signals():
            try:
                process = subprocess.Popen(
                    args,
                    env=_env_vars(env),
                    cwd=cwd,
                    stdin=subprocess.PIPE if wants_input else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                    pass_fds=inherits,
                )
            except FileNotFoundError:
                raise _missing(args) from None
            except PermissionError as error:
                raise ProgramError(f"`{args[0]}` cannot be run", why=str(error)) from None
        _RUNNING.add(process)
        yield process
    finally:
        if process is not None:
            _end(process)
            _RUNNING.discard(process)


@contextmanager
def _defer_signals() -> Iterator[None]:
    """Interrupts wait until the end of this: one that came while a program is being started, before we know
    its id, would leave it running.
    """
    if threading.current_thread() is not threading.main_thread():  # They interrupt that one alone.
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    # What is ignored stays so, for the program too, which inherits that.
    held = {number: handler for number, handler in before.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for interrupt in came[:1]:
            signal.raise_signal(interrupt)


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """See the process gone: a request first, force after the grace."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        try:
            process.wait(timeout=GRACE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            _signal(process, signal.SIGKILL)
            process.wait(timeout=GRACE_SECONDS)


def _signal(process: subprocess.Popen[str] | subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the whole group where the program leads one of its own."""
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _env_vars(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(extra or {})}


def _drain(stream: IO[str], tail: deque[str], on_line: Callable[[str], None] | None) -> None:
    for line in stream:
        text = line.rstrip("\n")
        tail.append(text)
        if on_line is not None:
            on_line(text)


def _collect(stream: IO[str] | None, into: list[str]) -> None:
    assert stream is not None
    into.extend(stream)


def _feed(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(text)
        process.stdin.close()
    except BrokenPipeError:
        pass  # It ended without reading; its exit status says why.


def _missing(args: list[str]) -> ProgramError:
    return ProgramError(
        f"`{args[0]}` is not on this machine",
        remedy="`python3 -m infra doctor` says what is missing and what would be done about it.",
    )


def _shown(args: list[str]) -> str:
    text = " ".join(args)
    return text if len(text) <= 200 else text[:197] + "..."


def _tail(lines: deque[str]) -> str:
    return "\n       ".join(line for line in lines if line.strip())

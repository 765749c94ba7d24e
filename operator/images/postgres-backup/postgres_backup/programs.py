"""Calling programs: by argument list, with a time limit, ended with us; and the progress that they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from postgres_backup.outcome import INTERRUPTED, Failed, printable

# No variable of the Pod's configures a program by accident.
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "LANG": "C.UTF-8",
    "LC_MESSAGES": "C",
    "TZ": "UTC",
    "HOME": "/tmp",
}
GRACE_SECONDS = 10.0
MOST_SAID = 1 << 20
"""Bytes of what programs in a pipe say that are looked at."""


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    error: str


class Deadline:
    """When the whole run must be over; what is left of it is every call's limit."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float = float("inf")) -> float:
        """:raises Failed: when nothing is."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise Failed(
                INTERRUPTED, "the run took longer than it may: raise timeoutSeconds, or see why it is slow"
            )
        return min(left, most)


def run(args: Sequence[str], *, seconds: float, env: Mapping[str, str] | None = None) -> Done:
    """Call a program and wait. Where it takes too long or we are asked to stop, it ends with its children.

    :raises Failed: with Interrupted when it took too long.
    """
    process = subprocess.Popen(
        list(args),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**ENVIRONMENT, **(env or {})},
        start_new_session=True,
    )
    try:
        out, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(
            INTERRUPTED,
            f"{args[0]} took longer than {round(seconds)} seconds: see whether the store or volume is slow",
        ) from None
    finally:
        if process.poll() is None:
            end(process)
    return Done(process.returncode, out.decode(errors="replace"), error.decode(errors="replace"))


def pipe(source: Sequence[str], sink: Sequence[str], *, seconds: float) -> tuple[Done, Done]:
    """Call two programs, the second of which reads what the first writes; neither outlives the call.

    :raises Failed: with Interrupted when they took too long.
    """
    began, running = time.monotonic(), list[subprocess.Popen[bytes]]()
    reads, writes = os.pipe()
    with tempfile.TemporaryFile() as of_source, tempfile.TemporaryFile() as of_sink:
        try:
            for args, reading, writing, said in (
                (source, subprocess.DEVNULL, writes, of_source),
                (sink, reads, subprocess.DEVNULL, of_sink),
            ):
                running.append(
                    subprocess.Popen(
                        list(args),
                        stdin=reading,
                        stdout=writing,
                        stderr=said,
                        env=ENVIRONMENT,
                        start_new_session=True,
                    )
                )
            # Each must see the end of the other.
            os.close(reads)
            os.close(writes)
            reads = writes = -1
            for process in reversed(running):
                process.wait(timeout=max(seconds - (time.monotonic() - began), 0))
        except subprocess.TimeoutExpired:
            raise Failed(
                INTERRUPTED,
                f"{source[0]} and {sink[0]} took longer than {round(seconds)} seconds: see why they are slow",
            ) from None
        finally:
            for handle in {reads, writes} - {-1}:
                os.close(handle)
            for process in running:
                if process.poll() is None:
                    end(process)
        errors = []
        for file in (of_source, of_sink):
            file.seek(0)
            errors.append(file.read(MOST_SAID).decode(errors="replace"))
    first, second = running
    return Done(first.returncode, "", errors[0]), Done(second.returncode, "", errors[1])


def end(process: subprocess.Popen[bytes], *, grace: float = GRACE_SECONDS) -> None:
    """End a program that leads a session of its own, first by request."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.communicate(timeout=grace)
            return
        except subprocess.TimeoutExpired:
            continue


@dataclass
class _Latest:
    phase: str = ""
    since: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)


_latest = _Latest()


def progress(phase: str, **facts: object) -> None:
    """One line of JSON on standard output, and the answer of `latest` until the next one."""
    global _latest
    since = _latest.since if phase == _latest.phase else time.monotonic()
    _latest = _Latest(phase, since, facts)
    print(json.dumps({"phase": phase, **facts}), flush=True)


def latest() -> dict[str, object]:
    """What `progress` was called with last, and the `seconds` since its phase began; empty before that."""
    now = _latest
    if not now.phase:
        return {}
    return {"phase": now.phase, **now.facts, "seconds": round(time.monotonic() - now.since, 1)}


def note(text: str, *, secrets: Sequence[str]) -> None:
    """A line for the Pod's log: of what programs say the printable part, and of secrets nothing."""
    for secret in secrets:
        text = text.replace(secret, "***")
    print(printable(text, most=400), file=sys.stderr, flush=True)

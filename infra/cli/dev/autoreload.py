"""A Python module that runs beside us and is restarted whenever a file of its source changes.

Apart from `dev`, which has one use for it. Files are looked at once a second: that needs no library and
works on every file system. The process is ours to keep an eye on, so it is not `processes` that starts
it: what runs there is waited for.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from infra import paths

POLL_SECONDS = 1.0
STOP_SECONDS = 20.0


def serve(
    module: str,
    *,
    python: Path,
    source: Path,
    env: Mapping[str, str],
    say: Callable[[str], None],
    restart_on: Sequence[int] = (),
) -> NoReturn:
    """Keep it running until we are interrupted; then it is ended too.

    One that ends by itself is started again on the next change: what is wrong with it will not go
    away before. With a status of `restart_on` it is started again at once.
    """
    while True:
        before = stamps(source)
        with _running([str(python), "-m", "infra.cli.dev.exit_with_parent", module], env) as process:
            while (status := process.poll()) is None and not (changed := _changed(source, before)):
                time.sleep(POLL_SECONDS)
        if status is None:
            say(f"  … {changed} has changed: starting again")
            continue
        if status in restart_on:
            say(f"  … it ended with status {status}: starting again")
            time.sleep(POLL_SECONDS)
            continue
        say(f"  ✗ it ended with status {status}: it is started again when a file changes")
        while not (changed := _changed(source, before)):
            time.sleep(POLL_SECONDS)
        say(f"  … {changed} has changed: starting again")


def free_port() -> int:
    """A port of this machine that nobody listens at, for what is to be started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stamps(source: Path) -> dict[Path, int]:
    """Each Python file below the folder, and when it was last written."""
    found = {}
    for path in source.rglob("*.py"):
        with suppress(FileNotFoundError):  # an editor's passing file
            found[path] = path.stat().st_mtime_ns
    return found


def _changed(source: Path, before: Mapping[Path, int]) -> str:
    """A file that is new, gone or written since; empty when there is none."""
    differing = before.items() ^ stamps(source).items()
    return str(min(path for path, _ in differing).relative_to(source)) if differing else ""


@contextmanager
def _running(args: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own, so that it hears of a Ctrl-C from us alone, once; gone when we are."""
    process = subprocess.Popen(
        args,
        env={**os.environ, **env},
        cwd=paths.REPOSITORY,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=STOP_SECONDS)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

"""The one place that starts a program: kubectl, by an argument list, with a timeout where it answers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubectl_kindling import failures
from kubectl_kindling.errors import INTERRUPTED, PluginError

Object = dict[str, Any]

PROGRAM = "kubectl"
REQUEST_SECONDS = 20
SECONDS = 60.0
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ")


@dataclass(frozen=True)
class Output:
    """How kubectl ended, and what it wrote."""

    status: int
    stdout: str
    stderr: str


class Kubectl:
    """`options` are those that say which cluster and as whom; they go before each command."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = list(options)

    def argv(self, *words: str) -> list[str]:
        """The whole argument list. Raises `PluginError` where there is no kubectl."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise PluginError(
                "there is no kubectl on PATH",
                why="this plugin reaches a cluster by kubectl alone",
                remedy="install kubectl, or put its folder on PATH.",
            )
        return [program, *self._options, *words]

    def ask(self, *words: str, seconds: float | None = None, given: str | None = None) -> Output:
        """Run it to its end, with what is `given` as its input; the caller looks at the status.

        Raises `PluginError` on a timeout.
        """
        argv, seconds = self.argv(*words), SECONDS if seconds is None else seconds
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL if given is None else None,
                input=given,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PluginError(
                f"`{failures.shown(words)}` did not end within {seconds:.0f} s",
                why="the cluster, or the way to it, is slow or does not answer",
                remedy="run it again; `kubectl get --raw /readyz` says whether the API server is well.",
            ) from None
        return Output(done.returncode, done.stdout, done.stderr)

    def text(self, *words: str) -> str:
        """What it prints; raises `PluginError` with its own words if it fails."""
        done = self.ask(*words)
        if done.status != 0:
            raise failures.error_of(words, done.status, done.stderr)
        return done.stdout

    def get(self, *words: str) -> Output:
        """`kubectl get … -o json`: of several types, those that may be read are in the output."""
        return self.ask("get", *words, "-o", "json", f"--request-timeout={REQUEST_SECONDS}s")

    @contextlib.contextmanager
    def forwarded(self, namespace: str, pod: str, port: int) -> Iterator[tuple[int | None, Output]]:
        """A port of this machine that leads to the Pod's; None with what kubectl said if that cannot be."""
        words = ("port-forward", f"--namespace={namespace}", f"pod/{pod}", f":{port}", "--address=127.0.0.1")
        process = subprocess.Popen(
            self.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            match = _FORWARDING.match(process.stdout.readline())
            if match is not None:
                yield int(match[1]), Output(0, "", "")
            else:
                process.kill()
                said = process.stderr.read().decode(errors="replace")
                yield None, Output(process.wait() or 1, "", said)
        finally:
            late.cancel()
            process.kill()
            process.communicate()

    def foreground(self, *words: str, line: Callable[[str], str] | None = None) -> int:
        """Run it on this terminal until it ends, or Ctrl-C ends it; returns its status.

        Each line that it prints is printed as what `line` makes of it.
        """
        if line is None:
            return wait(subprocess.Popen(self.argv(*words)))
        process = subprocess.Popen(self.argv(*words), stdout=subprocess.PIPE)
        printer = threading.Thread(target=_print_lines, args=(process, line), daemon=True)
        printer.start()
        status = wait(process)
        printer.join()
        return status


def _print_lines(process: subprocess.Popen[bytes], line: Callable[[str], str]) -> None:
    """Until it prints nothing more; it is ended where nobody reads on."""
    assert process.stdout is not None
    for each in process.stdout:
        try:
            sys.stdout.write(line(each.decode(errors="replace")))
            sys.stdout.flush()
        except BrokenPipeError:
            process.kill()
            # The interpreter would complain as it closes what nobody reads.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            return


def items_of(found: Output) -> list[Object]:
    """The objects that `get` printed, of a list or one by itself; none where it printed nothing."""
    try:
        loaded: Any = json.loads(found.stdout)
    except ValueError:
        return []
    if not isinstance(loaded, dict):
        return []
    if str(loaded.get("kind", "")).endswith("List") and isinstance(loaded.get("items"), list):
        return list(loaded["items"])
    return [loaded]


def wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit status as a shell has it; Ctrl-C is its own to handle, a second one ends it."""
    interrupted = False
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            if interrupted:
                process.kill()
            interrupted = True
            continue
        if interrupted or status == -signal.SIGINT:
            return INTERRUPTED
        return 128 - status if status < 0 else status

"""Runs a module as `python -m` does, and ends it when whoever started it is gone.

That one keeps the other end of our standard input: it closes even where a process is killed. Run by
`autoreload`, in the environment of the module, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _end_with_the_starter() -> None:
    # Not through sys.stdin, whose lock would still be held when the interpreter ends.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)

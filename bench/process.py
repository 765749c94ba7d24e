"""The CPU time and memory of a running process so far, as the kernel reports them."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
MEBIBYTE = 1024.0


def cpu_seconds(pid: int) -> float:
    """Processor time of its threads, user and system."""
    # The program's name, in parentheses, may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> float:
    """What it holds now, in MiB."""
    return _status(pid, "VmRSS")


def peak_memory(pid: int) -> float:
    """The most it has held, in MiB."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / MEBIBYTE
    raise ProcessLookupError(f"process {pid} has ended")


def stolen_seconds() -> float:
    """Processor time that the host of this machine gave to others."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / TICKS

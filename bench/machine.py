"""Which machine this is, in words: what was measured on different ones is not put into one table.

Apart from `speed`, which times it; by the standard library, as `environment` runs before there is more.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def machine(cpuinfo: Path = CPUINFO) -> str:
    """Its number of cores, their model where the kernel shows it (not on ARM), and the kernel's version."""
    parts = [f"{os.cpu_count()} cores", platform.machine(), _model(cpuinfo)]
    return ", ".join([*filter(None, parts), f"Linux {platform.release().split('-')[0]}"])


def _model(cpuinfo: Path) -> str:
    for line in cpuinfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""

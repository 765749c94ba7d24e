"""How long an environment takes: `python3 -m bench.environment`, on tools already cached.

Works on a copy of the checkout and a state of its own, so that a developer's `dev` stack and files stay as
they are. Four figures, each one wall-clock run of what a user types; the machine's own noise is in them, so
the calibration (seconds for a fixed amount of hashing, before and after) is reported beside them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import machine
from bench.microbench import hashing

ROOT = Path(__file__).resolve().parents[1]
STACK = "test"
MEBIBYTES = 2048


def main() -> int:
    """Measure, print a table on standard output, write the same as JSON beside this file."""
    with tempfile.TemporaryDirectory(prefix="kindling-bench-") as folder:
        home = Path(folder)
        checkout = home / "checkout"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache"))
        bench = Bench(checkout, home)
        figures: dict[str, float] = {"calibration before": hashing(MEBIBYTES)}
        try:
            figures["up, tools cached, nothing running"] = bench.infra("up", STACK)
            figures["up, nothing to change"] = bench.infra("up", STACK)
            source = checkout / "operator" / "src" / "kindling" / "__init__.py"
            source.write_text(source.read_text() + f"# {time.time()}\n")
            figures["up, one changed source line, to the new Pods Ready"] = bench.infra("up", STACK)
        finally:
            figures["destroy"] = bench.infra("destroy", STACK)
        figures["calibration after"] = hashing(MEBIBYTES)
    seconds = {name: round(value, 1) for name, value in figures.items()}
    print("\n".join(f"{name:<52}{value:>8.1f} s" for name, value in seconds.items()))
    result = {"machine": machine(), "seconds": seconds}
    (ROOT / "bench" / "environment.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


class Bench:
    """The command line over one copy of the checkout."""

    def __init__(self, checkout: Path, home: Path) -> None:
        self._checkout = checkout
        self._env = {
            **os.environ,
            "KINDLING_STATE": str(home / "state"),
            "KUBECONFIG": str(home / "kubeconfig"),
        }

    def infra(self, *words: str) -> float:
        """Seconds that `python3 -m infra WORDS…` took; raises CalledProcessError where it fails."""
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "infra", *words],
            cwd=self._checkout,
            env=self._env,
            check=True,
            timeout=1800,
            stdout=sys.stderr,
        )
        return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())

"""Do the tests of the core bite? `python3 -m bench.mutation` breaks it in one place at a time and runs them.

Its own, since the tools that there are take other layouts for granted (mutmut: a package at the root or in
`src`) or start Python anew for each mutant (cosmic-ray: a second and a half of imports, thousands of times).
Here one process has imported all that takes long; a child of it, forked for each mutant, gets the changed
module by an import hook and runs the tests that are nearest first, the model last, until one fails.

A sample is tried, the same with each seed, so that scores can be compared. `bench/mutation.json` has the
score and the survivors, which are for reading: what changes nothing that can be seen is no fault of a test.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

from bench.mutants import Mutant, compiled, mutants

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "operator" / "src"
UNIT = ROOT / "tests" / "unit" / "operator"
ENGINE = ("compare", "overwrite", "plan", "queue", "reconciliation", "resync", "store", "worker")
SAMPLE = 600
PROCESSES = 2
PATIENCE_SECONDS = 180
"""What takes longer waits for ever: it is noticed."""

SLOW_IMPORTS = (
    "pytest", "hypothesis.stateful", "yaml", "kopf", "aiohttp.web", "asyncpg", "orjson", "uvloop",
    "prometheus_client", "_pytest.assertion.rewrite", "_hypothesis_pytestplugin",
)  # fmt: skip


class OneModule(MetaPathFinder, Loader):
    """Imports one module as its mutant, and leaves all others to others."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        words = Path(mutant.path).with_suffix("").parts
        self._package = words[-1] == "__init__"
        self._name = ".".join(words[:-1] if self._package else words)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = spec_from_loader(fullname, self, is_package=self._package)
        if spec is not None and self._package:
            spec.submodule_search_locations = [str((SOURCE / self._mutant.path).parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(compiled(self._mutant, root=SOURCE), module.__dict__)


def main() -> int:
    options = _options()
    every = [mutant for path in _core() for mutant in mutants(path, root=SOURCE)]
    chosen = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    with tempfile.TemporaryDirectory(prefix="kindling-mutation-") as folder:
        _prepare(Path(folder))
        results = _try(chosen)
    survivors = sorted(
        (one for one in chosen if results[one] == "survived"), key=lambda one: (one.path, one.line)
    )
    tried, left = (Counter(one.path for one in some) for some in (chosen, survivors))
    noticed = 1 - len(survivors) / len(chosen)
    report = {
        "mutants": len(every),
        "tried": len(chosen),
        "seed": options.seed,
        "noticed": round(noticed, 4),
        "results": dict(sorted(Counter(results.values()).items())),
        "modules": {path: {"tried": tried[path], "survived": left[path]} for path in sorted(tried)},
        "survivors": list(map(str, survivors)),
    }
    (ROOT / "bench" / "mutation.json").write_text(json.dumps(report, indent=2) + "\n")
    print("\n".join(map(str, survivors)))
    print(f"{len(chosen)} of {len(every)} mutants tried, {noticed:.1%} noticed, {len(survivors)} survived")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Break the core in one place at a time and run its tests.")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    return parser.parse_args()


def _core() -> list[str]:
    kinds = sorted((SOURCE / "kindling" / "kinds").rglob("*.py"))
    found = [SOURCE / "kindling" / "engine" / f"{name}.py" for name in ENGINE] + kinds
    return [str(path.relative_to(SOURCE)) for path in found]


def _tests(path: str) -> list[str]:
    """Those that bear a module's name or its kind's, then all that is near, then what knows all kinds."""
    module = Path(path)
    if module.parent.name == "kinds":
        globs = [f"test_{module.stem}*.py", "test_conditions.py", "test_*_children.py", "test_*_status.py"]
    elif module.parent.parent.name == "kinds":
        globs = [f"test_{module.parent.name}*.py", "test_recorded_children.py"]
    else:
        near = (*ENGINE, "quantity", "mycustomresource_reconcile")
        globs = [f"test_{module.stem}*.py", *(f"test_{name}*.py" for name in near)]
    nearest = dict.fromkeys(str(test) for glob in globs for test in sorted(UNIT.glob(glob)))
    return [*nearest, "tests/model", *(["tests/unit/schema/test_every_kind.py"] if "kinds" in path else [])]


def _prepare(folder: Path) -> None:
    """Import what takes long, but nothing of ours; no failing example is kept, or made smaller."""
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(SOURCE)]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    from hypothesis import Phase, configuration, settings

    configuration.set_hypothesis_home_dir(folder)
    settings.register_profile("mutation", phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("mutation")


def _try(chosen: Sequence[Mutant]) -> dict[Mutant, str]:
    """Each in a process of its own, a few at a time; progress on the standard error."""
    began, waiting, running = time.monotonic(), list(reversed(chosen)), dict[int, Mutant]()
    results: dict[Mutant, str] = {}
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            mutant = waiting.pop()
            running[_start(mutant)] = mutant
        pid, status = os.wait()
        mutant = running.pop(pid)
        results[mutant] = _meaning(status)
        passed = time.monotonic() - began
        left = passed / len(results) * (len(chosen) - len(results))
        told = f"{len(results)}/{len(chosen)}, {passed:.0f} s, {left:.0f} s left"
        print(f"{told}: {results[mutant]:<9} {mutant}", file=sys.stderr, flush=True)
    return results


def _start(mutant: Mutant) -> int:
    """The process that runs the tests over the mutant."""
    if pid := os.fork():
        return pid
    signal.alarm(PATIENCE_SECONDS)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    import pytest

    sys.meta_path.insert(0, OneModule(mutant))
    words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", "--tb=no"]
    os._exit(int(pytest.main([*words, *_tests(mutant.path)])))


def _meaning(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "timed out" if os.WTERMSIG(status) == signal.SIGALRM else "crashed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "noticed"


if __name__ == "__main__":
    sys.exit(main())

"""Do the tests of the core bite? `python3 -m bench.mutation` breaks it in one place at a time and runs them.

Its own, since the tools that there are take other layouts for granted (mutmut: a package at the root or in
`src`) or start Python again for each mutant (cosmic-ray: a second and a half of imports, thousands of times).
Here one process has imported all that takes long; a child of it, forked for each mutant, gets the changed
module by an import hook and runs the tests that are nearest first, the model last, until one fails.

A sample is tried, the same with each seed, so that scores can be compared. `bench/mutation.json` has the
score and the survivors, which are for reading: what changes nothing that can be seen is no fault of a test.
`--again` says which of those the tests notice by now.
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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

from bench.mutants import Mutant, compiled, lasting, mutants

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "operator" / "src"
UNIT = ROOT / "tests" / "unit" / "operator"
ENGINE = ("compare", "plan", "queue", "reconciliation", "resync", "store", "worker", "writing")
REPORT = ROOT / "bench" / "mutation.json"
SAMPLE = 600
PROCESSES = 2
TIMEOUT_SECONDS = 180
"""Tests that take longer are taken to hang: the mutant counts as noticed."""

SLOW_IMPORTS = (
    "pytest", "hypothesis.stateful", "yaml", "kopf", "aiohttp.web", "psycopg", "orjson", "uvloop",
    "prometheus_client", "_pytest.assertion.rewrite", "_hypothesis_pytestplugin",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MutationReport:
    """The content of `bench/mutation.json`."""

    mutants: int
    tried: int
    seed: int
    noticed: float
    results: dict[str, int]
    modules: dict[str, dict[str, int]]
    survivors: list[str]

    @classmethod
    def read(cls) -> MutationReport:
        return cls(**json.loads(REPORT.read_text()))

    @classmethod
    def of(cls, results: Mapping[Mutant, str], *, mutants: int, seed: int) -> MutationReport:
        survivors, tried = _survivors(results), Counter(one.path for one in results)
        return cls._made(tried, Counter(results.values()), survivors, mutants=mutants, seed=seed)

    def again(self, results: Mapping[Mutant, str], *, mutants: int) -> MutationReport:
        """`results` of all places that bear a survivor's text; of several, as many are left as there were."""
        were, there = Counter(map(lasting, self.survivors)), {one.lasting for one in results}
        survivors: list[Mutant] = []
        for one in _survivors(results):
            if were[one.lasting] > sum(one.lasting == other.lasting for other in survivors):
                survivors.append(one)
        gone = [text.partition(":")[0] for text in were.elements() if text not in there]
        tried = Counter({path: counts["tried"] for path, counts in self.modules.items()}) - Counter(gone)
        found = Counter(self.results) - Counter(survived=len(self.survivors))
        found += Counter(
            survived=len(survivors),
            gone=len(gone),
            noticed=len(self.survivors) - len(survivors) - len(gone),
        )
        return self._made(tried, found, survivors, mutants=mutants, seed=self.seed)

    @classmethod
    def _made(
        cls,
        tried: Counter[str],
        results: Counter[str],
        survivors: Sequence[Mutant],
        *,
        mutants: int,
        seed: int,
    ) -> MutationReport:
        left = Counter(one.path for one in survivors)
        return cls(
            mutants=mutants,
            tried=tried.total(),
            seed=seed,
            noticed=round(1 - left.total() / tried.total(), 4),
            results=dict(sorted(results.items())),
            modules={path: {"tried": tried[path], "survived": left[path]} for path in sorted(tried)},
            survivors=list(map(str, survivors)),
        )


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
    before = MutationReport.read() if options.again else None
    if before is None:
        chosen = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    else:
        survived = set(map(lasting, before.survivors))
        chosen = [one for one in every if one.lasting in survived]
    with tempfile.TemporaryDirectory(prefix="kindling-mutation-") as folder:
        _prepare(Path(folder))
        tests = dict.fromkeys(test for path in _core() for test in _tests(path))
        if os.waitpid(_start(None, list(tests)), 0)[1] != 0:
            print("The tests fail without a mutant, so they would notice any: fix them.", file=sys.stderr)
            return 1
        results = _try(chosen)
    if before is None:
        report = MutationReport.of(results, mutants=len(every), seed=options.seed)
    else:
        report = before.again(results, mutants=len(every))
    REPORT.write_text(json.dumps(asdict(report), indent=2) + "\n")
    print("\n".join(report.survivors))
    left = len(report.survivors)
    print(f"{report.tried} of {report.mutants} mutants tried, {report.noticed:.1%} noticed, {left} survived")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Break the core in one place at a time and run its tests.")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument(
        "--again",
        action="store_true",
        help="try only the survivors that bench/mutation.json lists, wherever their text is found by now, "
        "and bring its score and list up to date; what is found nowhere any more counts as never tried",
    )
    return parser.parse_args()


def _survivors(results: Mapping[Mutant, str]) -> list[Mutant]:
    survived = (one for one, result in results.items() if result == "survived")
    return sorted(survived, key=lambda one: (one.path, one.line, one.number))


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
        near = (*ENGINE, "config", "quantity", "mycustomresource_reconcile")
        globs = [f"test_{module.stem}*.py", *(f"test_{name}*.py" for name in near)]
    nearest = dict.fromkeys(str(test) for glob in globs for test in sorted(UNIT.glob(glob)))
    return [*nearest, "tests/model", *(["tests/unit/schema/test_every_kind.py"] if "kinds" in path else [])]


def _prepare(folder: Path) -> None:
    """Import what takes long, but nothing of ours.

    No failing example is kept or made smaller, and none fails for being slow: it may be the machine that is.
    """
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(SOURCE)]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    from hypothesis import Phase, configuration, settings

    configuration.set_hypothesis_home_dir(folder)
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", phases=phases, database=None, deadline=None)
    settings.load_profile("mutation")


def _try(chosen: Sequence[Mutant]) -> dict[Mutant, str]:
    """Each in a process of its own, a few at a time; progress on the standard error."""
    began, waiting, running = time.monotonic(), list(reversed(chosen)), dict[int, Mutant]()
    results: dict[Mutant, str] = {}
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            mutant = waiting.pop()
            running[_start(mutant, _tests(mutant.path))] = mutant
        pid, status = os.wait()
        mutant = running.pop(pid)
        results[mutant] = _meaning(status)
        passed = time.monotonic() - began
        left = passed / len(results) * (len(chosen) - len(results))
        progress = f"{len(results)}/{len(chosen)}, {passed:.0f} s, {left:.0f} s left"
        print(f"{progress}: {results[mutant]:<9} {mutant}", file=sys.stderr, flush=True)
    return results


def _start(mutant: Mutant | None, tests: Sequence[str]) -> int:
    """The process that runs the tests over the mutant, or over what is there."""
    if pid := os.fork():
        return pid
    signal.alarm(TIMEOUT_SECONDS)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, OneModule(mutant))
    words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", "--tb=no"]
    os._exit(int(pytest.main([*words, *tests])))


def _meaning(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "timed out" if os.WTERMSIG(status) == signal.SIGALRM else "crashed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "noticed"


if __name__ == "__main__":
    sys.exit(main())

"""`test`: all that the tests need, then the linters, then the tests.

What it sets up is what `up` does and more: the API server and etcd that some tests run as processes,
and the development packages. Linting comes first because it takes seconds; a failure there ends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra import bootstrap, paths, processes
from infra.bootstrap import Toolchain
from infra.cli import host_inventory, setup_steps
from infra.cli.arguments import Command
from infra.cli.stacks import profile
from infra.drivers import engine as engines
from infra.drivers import images
from infra.errors import KindlingError
from infra.progress import Progress

STACK = "test"
TOOLS = (
    *setup_steps.UP_TOOLS,
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kstatus",
    "versitygw",
    "helm",
    "actionlint",
)
REQUIREMENTS = "requirements-dev.txt"
OTHER_REQUIREMENTS = (
    "requirements.txt",
    "policy/requirements.txt",
    "operator/requirements.txt",
    "operator/images/pulsar-consumer/requirements.txt",
)
"""Of the stack that some tests bring up, of the policy pack, and of the commands that run the operator or a
handler here: no test is to wait for the index.
"""
WORKERS = ("-n", "5", "--durations=40", "--durations-min=10")
"""For a run of everything. Three of them have the cluster, and mostly wait for it; the others compute, on two
cores. It ends with what took longest.
"""

UNITS = paths.REPOSITORY / "tests" / "unit"

# Their settings are in pyproject.toml.
LINTERS = (("ruff", "check"), ("ruff", "format", "--check"), ("mypy",), ("lint-imports",))


def run(command: Command) -> int:
    """Exit status of the first linter that fails, else pytest's."""
    progress = Progress()
    toolchain = Toolchain(progress=progress)
    units = only_units(command.rest)
    python, environment = (_modest if units else _provision)(toolchain, progress)
    linters: list[tuple[Path | str, ...]] = [(python.with_name(name), *rest) for name, *rest in LINTERS]
    if not units:
        # Of the workflows. It finds them by itself.
        linters.append((toolchain.ensure("actionlint"),))
    for program, *rest in linters:
        said = " ".join([Path(program).name, *map(str, rest)])
        progress.say(f"  … {said}")
        # What mypy knows of a module is good in another checkout, where its content is the same.
        own = {"MYPY_CACHE_DIR": str(paths.cache_dir() / "mypy")}
        status = processes.run_foreground([program, *rest], env={**environment, **own}, cwd=paths.REPOSITORY)
        if status != 0:
            raise KindlingError(
                f"`{said}` ended with status {status}",
                why="its findings are above",
                remedy="fix them; the tests run when the linters are content.",
            )
    args = [*workers(command.rest), *command.rest]
    return processes.run_foreground([python, "-m", "pytest", *args], env=environment, cwd=paths.REPOSITORY)


def workers(rest: Sequence[str]) -> Sequence[str]:
    """Several, unless a file or folder is named, or how many, or the terminal is wanted (`-s`, `--pdb`)."""
    alone = any(
        word in ("-s", "--pdb", "--lf", "--last-failed")
        or word.startswith(("-n", "--numprocesses"))
        or (paths.REPOSITORY / word.partition("::")[0]).exists()
        for word in rest
    )
    return () if alone else WORKERS


def only_units(rest: Sequence[str]) -> bool:
    """Whether all that is named lies among the unit tests, most of which need Python's packages alone."""
    named = [paths.REPOSITORY / word.partition("::")[0] for word in rest if not word.startswith("-")]
    named = [path for path in named if path.exists()]
    return bool(named) and all(UNITS in path.parents or path == UNITS for path in named)


def _modest(toolchain: Toolchain, progress: Progress) -> tuple[Path, dict[str, str]]:
    """The development environment, with what tools there are: a test that lacks one says so."""
    python = bootstrap.virtualenv.ensure(REQUIREMENTS, progress=progress)
    there = [str(state.path.parent) for state in toolchain.survey(TOOLS) if state.path is not None]
    return python, _variables(python, os.pathsep.join(there))


@contextmanager
def _own_state() -> Iterator[None]:
    """As the tests' stack sees the machine: what a run that was interrupted left behind is its own.

    It is cleared up when the next one begins with its stack.
    """
    before = os.environ.get("KINDLING_STATE")
    os.environ["KINDLING_STATE"] = str(paths.tests_dir() / "state")
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINDLING_STATE"]
        else:
            os.environ["KINDLING_STATE"] = before


def _provision(toolchain: Toolchain, progress: Progress) -> tuple[Path, dict[str, str]]:
    """Everything in place; the development environment's interpreter and the variables to run it with."""
    with _own_state():
        machine = host_inventory.inspect_host(
            profile.of(STACK), toolchain=toolchain, tools=TOOLS, requirements=REQUIREMENTS
        )
    progress.say(f"{setup_steps.table(machine.parts)}\n")
    for blocker in machine.blockers:
        raise blocker
    progress.plan(
        [step for step in machine.steps if step not in (host_inventory.CREATE, host_inventory.CHECK)]
    )
    python = bootstrap.virtualenv.ensure(REQUIREMENTS, progress=progress)
    if not bootstrap.apt.has_postgresql():
        # The operator's way of logging in is tested against a server, not against an idea of one.
        with progress.step("Install PostgreSQL from the distribution"):
            bootstrap.apt.install_postgresql()
    if not bootstrap.apt.has_memcached():
        # So is the look at a cache's statistics.
        with progress.step("Install memcached from the distribution"):
            bootstrap.apt.install_memcached()
    if not bootstrap.apt.has_registry():
        # What is pushed to a registry and pulled from one goes by a real one.
        with progress.step("Install a registry of images from the distribution"):
            bootstrap.apt.install_registry()
    if not bootstrap.apt.has_prometheus():
        # So are the rules for it, and every query of the dashboards.
        with progress.step("Install Prometheus from the distribution"):
            bootstrap.apt.install_prometheus()
    for requirements in OTHER_REQUIREMENTS:
        bootstrap.virtualenv.ensure(requirements, progress=progress)
    search = toolchain.path(TOOLS)
    toolchain.pulumi_home()
    engine = engines.install_engine(progress)
    images.ensure_node_image(engine, progress=progress)
    images.ensure_base_image(engine, progress=progress)
    return python, _variables(python, search)


def _variables(python: Path, search: str) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(python.parent), search, os.environ.get("PATH", "")]),
        # lint-imports looks for the packages below operator/ as Python does.
        "PYTHONPATH": os.pathsep.join(
            [
                str(paths.REPOSITORY),
                *(str(paths.REPOSITORY / "operator" / name) for name in ("src", "plugin")),
            ]
        ),
        # Of a thousand programs that tests start, each would compile its modules again.
        "PYTHONDONTWRITEBYTECODE": "",
    }

"""What `infra test` hands to pytest beside its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths, processes
from infra.bootstrap import apt, virtualenv
from infra.bootstrap.toolchain import Toolchain
from infra.cli import arguments, host_inventory
from infra.cli.commands import run_tests
from infra.cli.commands.run_tests import WORKERS, only_units, workers
from infra.drivers import engine as engines
from infra.drivers import images


@pytest.mark.parametrize("rest", [(), ("--thorough",), ("-k", "plan"), ("--durations=40", "-x")])
def test_a_run_of_everything_has_several_workers(rest: tuple[str, ...]) -> None:
    assert workers(rest) == WORKERS


@pytest.mark.parametrize(
    "rest",
    [
        ("tests/unit",),
        ("-k", "plan", "tests/unit/infra/test_run_tests.py"),
        ("tests/unit/infra/test_run_tests.py::test_x",),
        ("-s",),
        ("--pdb",),
        ("-n", "4"),
        ("-n0",),
    ],
)
def test_what_is_named_or_watched_runs_in_one_process(rest: tuple[str, ...]) -> None:
    assert workers(rest) == ()


@pytest.mark.parametrize(
    ("rest", "units"),
    [
        (("tests/unit",), True),
        (("tests/unit", "-k", "plan"), True),
        (("tests/unit/infra/test_run_tests.py::test_x", "-x"), True),
        (("tests/unit", "tests/model"), False),
        (("tests",), False),
        (("-k", "plan"), False),
        ((), False),
    ],
)
def test_unit_tests_alone_need_no_tools(rest: tuple[str, ...], units: bool) -> None:
    assert only_units(rest) is units


def test_for_one_unit_test_nothing_is_built_and_nothing_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever it is, and whatever is missing: engine, tools, images, packages."""

    def forbidden(*words: object, **_: object) -> object:
        raise AssertionError(words)

    ran: list[list[object]] = []
    for module, name in (
        (host_inventory, "inspect_host"),
        (engines, "install_engine"),
        (apt, "install"),
        (Toolchain, "ensure"),
        (images, "ensure_node_image"),
    ):
        monkeypatch.setattr(module, name, forbidden)
    monkeypatch.setattr(virtualenv, "ensure", lambda *_, **__: tmp_path / "bin" / "python")

    def run_foreground(words: list[object], **_: object) -> int:
        ran.append(words)
        return 0

    monkeypatch.setattr(processes, "run_foreground", run_foreground)
    assert run_tests.run(arguments.parse(["test", "tests/unit/infra/test_run_tests.py"])) == 0
    assert ran[-1][1:] == ["-m", "pytest", "tests/unit/infra/test_run_tests.py"]


@pytest.mark.parametrize("own", [None, "/somebody/kindling"])
def test_what_an_interrupted_run_left_is_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str | None
) -> None:
    """A cluster with the mark of another state directory belongs to another run, and is in the way."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if own is None:
        monkeypatch.delenv("KINDLING_STATE", raising=False)
    else:
        monkeypatch.setenv("KINDLING_STATE", own)
    before = paths.state_dir()
    seen: list[Path] = []

    def inspect_host(stack: str, **_: object) -> object:
        seen.append(paths.state_dir())
        raise LookupError(stack)

    monkeypatch.setattr(host_inventory, "inspect_host", inspect_host)
    with pytest.raises(LookupError):
        run_tests.run(arguments.parse(["test"]))
    assert seen == [before / "tests" / "state"]
    assert paths.state_dir() == before

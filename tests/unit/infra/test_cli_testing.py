"""What `infra test` hands to pytest beside its own words."""

from __future__ import annotations

import pytest

from infra.cli.testing import WORKERS, workers


@pytest.mark.parametrize("rest", [(), ("--thorough",), ("-k", "plan"), ("--durations=40", "-x")])
def test_a_run_of_everything_has_several_workers(rest: tuple[str, ...]) -> None:
    assert workers(rest) == WORKERS


@pytest.mark.parametrize(
    "rest",
    [
        ("tests/unit",),
        ("-k", "plan", "tests/unit/infra/test_cli_testing.py"),
        ("tests/unit/infra/test_cli_testing.py::test_x",),
        ("-s",),
        ("--pdb",),
        ("-n", "4"),
        ("-n0",),
    ],
)
def test_what_is_named_or_watched_runs_in_one_process(rest: tuple[str, ...]) -> None:
    assert workers(rest) == ()

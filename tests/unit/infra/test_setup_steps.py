"""What is decided of a machine: whether it can do, how long it will take, how that reads."""

from __future__ import annotations

from pathlib import Path

from infra.cli.commands.up import next_steps, timings
from infra.cli.setup_steps import (
    GIB,
    SOURCES,
    Component,
    DiskNeed,
    HostReport,
    build_bytes,
    disk_errors,
    estimate,
    table,
)
from infra.errors import KindlingError
from infra.progress import Step


def need(folder: str, size: float, *, device: int = 1, free: float = 10) -> DiskNeed:
    return DiskNeed(Path(folder), device, round(free * GIB), round(size * GIB))


def test_disk_space_on_separate_disks_is_not_added_up() -> None:
    assert disk_errors([need("/cache", 6), need("/engine", 6, device=2)]) == []


def test_disk_space_on_one_disk_is_added_up() -> None:
    (error,) = disk_errors([need("/cache", 6), need("/engine", 6)])
    assert "/cache and /engine" in error.what
    assert "12.0 GiB" in error.why
    assert "10.0 GiB" in error.why
    assert "KINDLING_CACHE" in error.remedy


def test_each_full_disk_is_an_error_of_its_own() -> None:
    assert len(disk_errors([need("/cache", 11), need("/engine", 11, device=2)])) == 2


def test_a_full_disk_does_not_matter_where_nothing_is_to_be_written() -> None:
    assert disk_errors([need("/cache", 0, free=0)]) == []


def test_what_only_needs_exactly_what_is_free_fits() -> None:
    assert disk_errors([need("/cache", 10, free=10)]) == []


def test_builds_need_their_sources_too_and_nothing_needs_nothing() -> None:
    assert build_bytes([]) == 0
    assert build_bytes([Step("a", 100.0)]) > SOURCES
    assert build_bytes([Step("a", 100.0), Step("b", 100.0)]) > build_bytes([Step("a", 100.0)])


def test_blockers_are_problems_and_disk_errors() -> None:
    problems = KindlingError("no engine")
    machine = HostReport("dev", (), needs=(need("/cache", 11),), problems=(problems,))
    assert [error.what for error in machine.blockers] == ["no engine", "too little disk space for /cache"]


def test_the_table_lines_up_and_says_what_will_be_done() -> None:
    shown = table(
        [
            Component("kind", "0.33.0, in the cache"),
            Component("pulumi", "missing", "build it", (Step("Build pulumi", 230.0),)),
        ]
    )
    head, kind, pulumi = shown.splitlines()
    assert kind.index("0.33.0") == pulumi.index("missing") == head.index("now")
    assert kind.endswith("-")
    assert pulumi.endswith("build it (about 3 min 50 s)")


def test_the_outlook_adds_the_steps_up() -> None:
    assert estimate([Step("a", 100.0), Step("b", 20.0)]) == "about 2 min 0 s in all on two cores"
    assert estimate([]) == "a few seconds"


def test_times_end_with_their_sum() -> None:
    assert timings({"a": 1.0, "bb": 61.0}).splitlines()[-1].split(maxsplit=2)[2] == "1 min 2 s"


def test_the_farewell_shows_no_password_and_names_the_stack() -> None:
    shown = next_steps("test", samples=True)
    assert "exec --stack test kubectl" in shown
    assert "password123" not in shown
    assert "psql" not in next_steps("dev", samples=False)

"""What all suites share: `--thorough`, which asks for all that takes too long to be run each time."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="also run what takes long: whole sweeps, soaks, faults of minutes (docs/reliability.md)",
    )


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """For a test that draws more, or waits longer, when it is asked to."""
    return bool(pytestconfig.getoption("thorough"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("thorough"):
        skip = pytest.mark.skip(reason="takes long: --thorough")
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(skip)

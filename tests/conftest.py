"""What all suites share: `--thorough`, which asks for all that takes too long to be run each time, and lanes.

Run by several workers (`-n 2`, as `infra test` does), a suite or a file stays with one of them: what the
session or a module shares is set up once, and the one cluster has one user.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ALONE = "tests/cluster/"
"""Of this folder, whose stack is one per machine, everything is done by one worker, which begins with it."""
APART = ("tests/cluster/test_backup_images",)
"""But for these files of it, which need a container engine and no stack."""


# A shell without job control, or nohup, starts a background command with SIGINT ignored. All our programs
# would inherit that, and the tests that interrupt them would fail.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# API servers, etcd, Pulumi and kubectl collect garbage after each doubling of a small heap: a fifth of their
# processor time, which is a quarter of that of all suites.
os.environ.setdefault("GOGC", "400")


# A busy machine is no failure: no drawn example is a test of how long it takes. Said here for all of them.
settings.register_profile("kindling", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kindling")


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


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole files, in the order of the collection, and one folder as if it were one file."""

    def _split_scope(self, nodeid: str) -> str:
        alone = nodeid.startswith(ALONE) and not nodeid.startswith(APART)
        return ALONE if alone else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """A hook of pytest-xdist."""
    config.option.loadscopereorder = False
    return Lanes(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        # One of several workers: what takes longest begins first, so that none is left with it at the end.
        suites = list(config.getini("testpaths"))
        items.sort(key=lambda item: -suites.index("/".join(item.nodeid.split("/")[:2])))
    if not config.getoption("thorough"):
        skip = pytest.mark.skip(reason="takes long: --thorough")
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(skip)

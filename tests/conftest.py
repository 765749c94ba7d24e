"""What all suites share: `--thorough`, which asks for all that takes too long to be run each time, and lanes.

Run by several workers (`-n 5`, as `infra test` does), a file stays with one of them: what a module shares is
set up once. The one cluster has three users.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.cluster.sharing import EXCLUSIVE, SECOND, THIRD

CLUSTER = "tests/cluster/"
"""Of this folder, whose stack is one per machine, three workers do everything, which begin with it."""
LANES = {CLUSTER + "second": SECOND, CLUSTER + "third": THIRD}
APART = ("tests/cluster/test_backup_images", "tests/cluster/test_existing")
"""But for these files of it, which need a container engine and no stack."""
LONGEST_SECONDS = 1800
"""A test that hangs fails, with its threads' stacks, and the run goes on. The first one that has the cluster
alone waits for the other lanes.
"""


# A shell without job control, or nohup, starts a background command with SIGINT ignored. All our programs
# would inherit that, and the tests that interrupt them would fail.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# API servers, etcd, Pulumi and kubectl collect garbage after each doubling of a small heap: a fifth of their
# processor time, which is a quarter of that of all suites.
os.environ.setdefault("GOGC", "400")


# gRPC starts its threads again in a forked child. Popen forks where it is given a `user` (elsewhere it uses
# vfork), and such a child crashes now and then before it runs its program.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


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


def lane(nodeid: str) -> str:
    """What one worker does without another: a file, or all that it shares a stack with."""
    file = nodeid.partition("::")[0]
    if not file.startswith(CLUSTER) or file.startswith(APART):
        return file
    return next((own for own, files in LANES.items() if file.removeprefix(CLUSTER) in files), CLUSTER)


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole files, in the order of the collection, and most of one folder as if it were three."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """A hook of pytest-xdist."""
    config.option.loadscopereorder = False
    return Lanes(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        # One of several workers: what takes longest begins first, so that none is left with it at the end.
        suites = list(config.getini("testpaths"))

        def begins(item: pytest.Item) -> tuple[int, bool, bool]:
            own, suite = lane(item.nodeid), "/".join(item.nodeid.split("/")[:2])
            last = own == CLUSTER and item.path.name in EXCLUSIVE
            return -suites.index(suite), own not in (CLUSTER, *LANES), last

        items.sort(key=begins)
    if not config.getoption("thorough"):
        skip = pytest.mark.skip(reason="takes long: --thorough")
        for item in items:
            item.add_marker(pytest.mark.timeout(LONGEST_SECONDS))
            if item.get_closest_marker("thorough"):
                item.add_marker(skip)

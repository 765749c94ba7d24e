"""One environment for the whole folder: stack `test`, brought up as a user would, and taken down.

State and kubeconfig are the tests' own, beside a developer's, and stay in one place, so that a run
killed half-way is cleared up by the next. The cache is shared: bytes built once are not built twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from infra import paths
from tests.cluster.consumers import make as make
from tests.cluster.consumers import put as put
from tests.cluster.sharing import EXCLUSIVE, SharedStack
from tests.cluster.stack import STACK, Environment


@pytest.fixture(scope="package")
def shared_stack(testrun_uid: str) -> SharedStack:
    folder = paths.tests_dir() / "stack"
    folder.mkdir(parents=True, exist_ok=True)
    return SharedStack(folder, run=testrun_uid if "PYTEST_XDIST_WORKER" in os.environ else str(os.getpid()))


@pytest.fixture(scope="package")
def environment(shared_stack: SharedStack) -> Iterator[Environment]:
    """Stack `test`, up; destroyed after the folder's last test, whatever happened.

    Not at the session's end: other suites would share the machine with a cluster that nobody uses.
    """
    home = paths.tests_dir()
    home.mkdir(parents=True, exist_ok=True)
    made = Environment(home)
    with shared_stack.joined(up=lambda: made.ok("up", STACK), down=lambda: made.ok("destroy", STACK)):
        yield made


@pytest.fixture(scope="module", autouse=True)
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """For the files that others would notice."""
    if request.path.name not in EXCLUSIVE:
        yield
        return
    request.getfixturevalue("environment")
    shared: SharedStack = request.getfixturevalue("shared_stack")
    with shared.alone():
        yield

"""One environment for the whole folder: stack `test`, brought up as a user would, and taken down.

State and kubeconfig are the tests' own, beside a developer's, and stay in one place, so that a run
killed half-way is cleared up by the next. The cache is shared: bytes built once are not built twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra import paths
from tests.cluster.consumers import make as make
from tests.cluster.consumers import put as put
from tests.cluster.stack import STACK, Environment


@pytest.fixture(scope="package")
def environment() -> Iterator[Environment]:
    """Stack `test`, up; destroyed after the folder's last test, whatever happened.

    Not at the session's end: other suites would share the machine with a cluster that nobody uses.
    """
    home = paths.tests_dir()
    home.mkdir(parents=True, exist_ok=True)
    made = Environment(home)
    made.ok("destroy", STACK)  # What an earlier, killed run left.
    try:
        made.ok("up", STACK)
        yield made
    finally:
        made.ok("destroy", STACK)

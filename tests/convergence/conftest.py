"""One stage for all sweeps: cluster, proxy, database and what was learnt of the stories last the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.convergence.stage import Stage, stage


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(directory=tmp_path_factory.mktemp("stage")) as running:
        yield running

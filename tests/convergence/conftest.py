"""One harness for all sweeps: cluster, proxy, database and reference runs last for the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.convergence.harness import Harness, running_harness


@pytest.fixture(scope="package")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with running_harness(directory=tmp_path_factory.mktemp("harness")) as running:
        yield running

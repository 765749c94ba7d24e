"""Fixtures of the tests against a real API server: one for the whole session, started on first use."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from tests.apiserver.apiclient import Api
from tests.apiserver.controlplane import ControlPlane, control_plane
from tests.apiserver.kinds import CRD_COLLECTION, KINDS

ESTABLISHED_SECONDS = 30.0


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver, empty at first."""
    with control_plane(directory=tmp_path_factory.mktemp("controlplane")) as running:
        yield running


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Iterator[Api]:
    """The API with every CRD of `crds/` established; objects that tests make may stay behind."""
    client = Api(plane)
    for kind in KINDS.values():
        client.create(CRD_COLLECTION, kind.manifest).accepted()
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    for kind in KINDS.values():
        while client.get(kind.collection).status != 200:
            assert time.monotonic() < deadline, (
                f"{kind.id} is not served: {client.get(kind.collection).message}"
            )
            time.sleep(0.05)
    yield client
    client.close()


@pytest.fixture(scope="session")
def new_name() -> Callable[[], str]:
    """Makes names that no other test uses, since all share one namespace."""
    numbers = itertools.count(1)
    return lambda: f"resource-{next(numbers)}"

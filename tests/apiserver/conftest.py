"""Fixtures of the tests against a real API server: one for the whole folder, started on first use."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.cluster import Cluster, cluster
from tests.apiserver.support.controlplane import ControlPlane, control_plane
from tests.apiserver.support.kinds import CRD_COLLECTION, KINDS
from tests.apiserver.support.operator_process import OperatorProcess, operator

ESTABLISHED_SECONDS = 30.0
# Nobody here knows the Services' names; the machine's resolver shall not take long to say so.
ENVIRONMENT = {"KINDLING_LOG_LEVEL": "DEBUG", "KINDLING_DEBUG": "1", "RES_OPTIONS": "timeout:1 attempts:1"}


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver, empty at first."""
    with control_plane(directory=tmp_path_factory.mktemp("controlplane")) as running:
        yield running


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def new_name() -> Callable[[], str]:
    """Makes names that no other test uses, since all share one namespace."""
    numbers = itertools.count(1)
    return lambda: f"resource-{next(numbers)}"


@pytest.fixture(scope="package")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, with controllers: everything but the operator, started on first use."""
    with cluster(directory=tmp_path_factory.mktemp("cluster")) as running:
        yield running


class Replica:
    """The operator's process with the rights that it is shipped with, and with the most detailed log."""

    process: OperatorProcess

    def __init__(self, plane: ControlPlane, *, mark: int) -> None:
        self.mark = mark
        """Where the audit log ended before its first request."""
        self._plane = plane
        self._stack = ExitStack()

    def start(self) -> None:
        """Start it, and wait until it holds the lease."""
        entered = operator(self._plane, env=ENVIRONMENT, kept=True)
        self.process = self._stack.enter_context(entered)
        self.process.wait_ready()

    def stop(self) -> None:
        """Without a webhook each child is as wanted once it is written: the comparison would be wrong."""
        said = self.process.log()
        self._stack.close()
        assert "was changed again after apply" not in said


@pytest.fixture(scope="module")
def replica(running_cluster: Cluster) -> Iterator[Replica]:
    """One replica for the tests of a module; what they leave behind, the next one's takes up."""
    running = Replica(running_cluster.operator_plane, mark=running_cluster.audit.mark())
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def namespace(running_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the module's own, gone after it."""
    name = request.module.__name__.rpartition(".")[2].replace("_", "-").removeprefix("test-")
    yield running_cluster.namespace(name)
    running_cluster.api.delete(f"/api/v1/namespaces/{name}")

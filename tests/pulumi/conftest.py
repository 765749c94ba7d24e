"""An API server with its controllers for each module of whole-program tests, and a machine beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controllers import controllers
from tests.apiserver.support.controlplane import ControlPlane, control_plane
from tests.pulumi.machine import Host, new_host


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """What stands for the cluster; whether Pods of it get ready is the test's to say (`kubelet`)."""
    with control_plane(directory=tmp_path_factory.mktemp("plane")) as running, controllers(running):
        yield running


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """For damage done by hand."""
    with closing(Api(plane)) as client:
        yield client


@pytest.fixture(scope="module")
def host(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A machine with nothing up, whose kind makes a cluster of that API server."""
    return new_host(tmp_path_factory.mktemp("host"), kubeconfig=plane.kubeconfig)

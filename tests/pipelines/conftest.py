"""Once for the session: the root file system of runners, and what their caches hold."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.errors import KindlingError
from infra.progress import Progress
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane, control_plane
from tests.apiserver.support.object_store import ObjectStore, object_store
from tests.pipelines import actions, root, stores
from tests.pipelines.actions import Hosting
from tests.pipelines.checkouts import Origin, check_out
from tests.pipelines.rest import GitHub, served
from tests.pipelines.stores import Caches

TOOLS = ("pulumi", "pulumi-resource-kubernetes", "kind", "kubectl")


@pytest.fixture(scope="package")
def session_folder() -> Iterator[Path]:
    """A folder on the cache's file system, so that cached files need not be copied; deleted afterwards."""
    root.folder().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="session-", dir=root.folder()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def origin(session_folder: Path) -> Origin:
    """The repository that jobs are run for."""
    return Origin(session_folder / "origin.git")


@pytest.fixture(scope="package")
def earlier(session_folder: Path, origin: Origin) -> tuple[Path, ...]:
    """What an earlier run left in its cache."""
    if os.geteuid() != 0:
        pytest.skip("only root makes other machines' users and file systems")
    try:
        root.ensure(Progress())
        actions.script_packages()
    except KindlingError as error:
        pytest.fail(str(error))
    if missing := stores.missing(TOOLS):
        pytest.fail(f"missing: {', '.join(missing)}; `python3 -m infra test` sets them up")
    checkout = session_folder / "checkout"
    check_out(origin.folder, origin.first, checkout, depth=1, owner=root.UID)
    return stores.lend(session_folder / "earlier", Progress(), checkout=checkout)


@pytest.fixture
def api_of_github() -> Iterator[GitHub]:
    with served() as github:
        yield github


@pytest.fixture
def hosting(tmp_path: Path, origin: Origin, earlier: tuple[Path, ...], api_of_github: GitHub) -> Hosting:
    """GitHub where an earlier run filled the caches, and nothing more has happened."""
    caches = Caches(tmp_path / "caches", earlier=earlier)
    return Hosting(origin.folder, caches, tmp_path / "artifacts", api_of_github)


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(directory=tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="package")
def cluster(plane: ControlPlane) -> Iterator[Api]:
    client = Api(plane)
    yield client
    client.close()

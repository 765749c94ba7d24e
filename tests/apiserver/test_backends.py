"""The life of a stack is the same on every backend: Pulumi's files, the same packed, a bucket on S3.

What a run must know before it changes anything (protection, whose cluster it is, whether a run was cut off)
it gets from Pulumi where no file has it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.existing import ROWS, SETTINGS, configure, new_stack, ok, refused
from tests.apiserver.support.object_store import ObjectStore, object_store
from tests.unit.infra.cli_machine import Machine
from tests.unit.infra.registry_server import registry

# A stack on files lives through most of it in test_existing_cluster_stack, each time, and one in a bucket
# through some of it in tests/pipelines.
pytestmark = pytest.mark.thorough
BACKENDS = ("files", "packed", "s3")
FOLDER = Path(".pulumi")
RECORD = FOLDER / "stacks" / "kindling"


@dataclass(frozen=True)
class Backend:
    """Where the records are, and the files that are in there."""

    folder: Path
    packed: bool = False
    marks: Path | None = None
    """Where an S3 server keeps what it knows of its objects."""

    def files(self) -> dict[str, bytes]:
        """All that is stored, by its place."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def records(self) -> list[str]:
        return [file for file in self.files() if file.startswith(str(RECORD))]

    def rewrite(self, edit: Callable[[str], str]) -> None:
        """Change the record, as nobody should."""
        record = self.folder / RECORD / ("staging.json.gz" if self.packed else "staging.json")
        content = record.read_bytes()
        text = (gzip.decompress(content) if self.packed else content).decode()
        changed = edit(text).encode()
        record.write_bytes(gzip.compress(changed) if self.packed else changed)
        if self.marks is not None:
            (self.marks / record.relative_to(self.folder) / "meta" / "checksums").unlink(missing_ok=True)

    def lock(self) -> None:
        """As a run of another machine that is at work."""
        lock = {"pid": 1, "username": "ada", "hostname": "elsewhere", "timestamp": "2026-01-01T00:00:00Z"}
        place = self.folder / FOLDER / "locks" / "organization" / "kindling" / "staging"
        place.mkdir(parents=True, exist_ok=True)
        (place / "0b7c1f0e.json").write_text(json.dumps(lock))

    def unlock(self) -> None:
        for lock in (self.folder / FOLDER / "locks").rglob("*.json"):
            lock.unlink()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "s3":
        store: ObjectStore = request.getfixturevalue("store")
        return Backend(store.folder, marks=store.marks)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Backend(folder, packed=request.param == "packed")


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, plane: ControlPlane, host: str, backend: Backend
) -> Machine:
    machine = new_stack(tmp_path, plane, host=host)
    if backend.marks is not None:
        store: ObjectStore = request.getfixturevalue("store")
        machine.extra |= {"PULUMI_BACKEND_URL": store.pulumi_backend, **store.variables}
    else:
        machine.extra["PULUMI_BACKEND_URL"] = f"file://{backend.folder}"
        if backend.packed:
            machine.extra["PULUMI_DIY_BACKEND_GZIP"] = "true"
    return machine


def kept(api: Api) -> tuple[int, int]:
    return api.get(ROWS).status, api.get(SETTINGS).status


def test_the_life_of_a_stack(machine: Machine, backend: Backend, api: Api, host: str, tmp_path: Path) -> None:
    """One after the other in one stack, as each `up` takes its seconds."""
    assert "to create" in ok(machine, "preview", "staging")
    assert backend.records() == [], "a preview before the first `up` leaves nothing"
    ok(machine, "up", "staging")
    assert backend.records(), "or nothing would be shown of this backend"
    previews_write_nothing_and_need_no_lock(machine, backend, api, host)
    a_plan_is_carried_out_once(machine, api, host, tmp_path / "plan.json")
    a_context_of_another_cluster_is_reported(machine, backend, api)
    a_run_that_was_cut_off_is_gone_on_from(machine, backend, api)
    configure(machine, host=host)
    ok(machine, "up", "staging")
    configure(machine, host=host, protect="auto")
    ok(machine, "up", "staging")
    message = refused(machine, "destroy", "staging")
    assert "stack `staging` is protected against destroy" in message
    assert "rows" in message
    assert kept(api) == (200, 200), "half a stack is worse than a whole one"
    configure(machine, host=host)
    ok(machine, "up", "staging")
    assert "Stack staging is gone." in ok(machine, "destroy", "staging")
    assert kept(api) == (404, 404)
    assert "nothing to destroy" in ok(machine, "destroy", "staging")
    assert backend.records() == []


def previews_write_nothing_and_need_no_lock(machine: Machine, backend: Backend, api: Api, host: str) -> None:
    """While another run holds the lock."""
    configure(machine, host=host, more="  kindling:replicas: 3\n")
    backend.lock()
    before = backend.files()
    assert "1 to " in ok(machine, "preview", "staging")
    assert "everything is as the last `up` left it" in ok(machine, "drift", "staging")
    assert backend.files() == before
    backend.unlock()
    configure(machine, host=host)
    api.request("DELETE", ROWS).accepted()
    drifted = machine.cli("drift", "staging")
    assert drifted.returncode == 3, drifted.stdout + drifted.stderr
    assert "rows: gone" in drifted.stdout
    ok(machine, "up", "staging")
    assert kept(api) == (200, 200), "`up` takes back what others did, whichever the backend"


def a_plan_is_carried_out_once(machine: Machine, api: Api, host: str, plan: Path) -> None:
    configure(machine, host=host, more="  kindling:replicas: 3\n")
    ok(machine, "preview", "staging", "--save-plan", str(plan))
    ok(machine, "up", "staging", "--plan", str(plan))
    assert api.get(ROWS).accepted()["data"]["replicas"] == "3"
    message = refused(machine, "up", "staging", "--plan", str(plan))
    assert "cannot be carried out" in message
    assert "the stack was last changed" in message


def a_context_of_another_cluster_is_reported(machine: Machine, backend: Backend, api: Api) -> None:
    here = api.get("/api/v1/namespaces/kube-system").accepted()["metadata"]["uid"]
    there = "00000000-0000-0000-0000-000000000000"
    backend.rewrite(lambda text: text.replace(here, there))
    for verb in ("up", "destroy"):
        message = refused(machine, verb, "staging")
        assert "leads to another cluster than the one stack `staging` is in" in message
    assert kept(api) == (200, 200)
    backend.rewrite(lambda text: text.replace(there, here))


def a_run_that_was_cut_off_is_gone_on_from(machine: Machine, backend: Backend, api: Api) -> None:
    """What it was creating stands in the record."""

    def cut_off(text: str) -> str:
        content: dict[str, Any] = json.loads(text)
        latest = content["checkpoint"]["latest"]
        (rows,) = (item for item in latest["resources"] if item["urn"].endswith("::rows"))
        latest["resources"].remove(rows)
        latest["pending_operations"] = [{"type": "creating", "resource": rows}]
        return json.dumps(content)

    api.request("DELETE", ROWS).accepted()
    backend.rewrite(cut_off)
    assert "is half-made" in refused(machine, "drift", "staging")
    ok(machine, "up", "staging")
    assert kept(api) == (200, 200)
    assert "everything is as the last `up` left it" in ok(machine, "drift", "staging")

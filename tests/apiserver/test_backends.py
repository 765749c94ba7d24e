"""The life of a stack is the same on every backend: Pulumi's files, the same packed, a bucket on S3.

What a run must know before it touches anything (protection, whose cluster it is, what was cut off) it asks of
Pulumi where no file tells.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.apiclient import Api
from tests.apiserver.controlplane import ControlPlane
from tests.apiserver.existing import ROWS, SETTINGS, configure, new_stack, ok, refused
from tests.apiserver.object_store import ObjectStore, object_store
from tests.unit.infra.cli_machine import Machine
from tests.unit.infra.registry_server import registry

BACKENDS = ("files", "packed", "s3")
FOLDER = Path(".pulumi")
RECORD = FOLDER / "stacks" / "kindling"


@dataclass(frozen=True)
class Backend:
    """Where the records are, and the files that are in there."""

    folder: Path
    packed: bool = False

    def files(self) -> dict[str, bytes]:
        """All that is stored, by its place."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def rewrite(self, edit: Callable[[str], str]) -> None:
        """Change the record, as nobody should."""
        record = self.folder / RECORD / ("staging.json.gz" if self.packed else "staging.json")
        content = record.read_bytes()
        text = (gzip.decompress(content) if self.packed else content).decode()
        # In place: what the server notes beside the file stays true of it.
        changed = edit(text).encode()
        record.write_bytes(gzip.compress(changed) if self.packed else changed)

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
        return Backend(request.getfixturevalue("store").folder)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Backend(folder, packed=request.param == "packed")


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, plane: ControlPlane, host: str, backend: Backend
) -> Machine:
    machine = new_stack(tmp_path, plane, host=host)
    if "store" in request.fixturenames and backend.folder.name == "state":
        store: ObjectStore = request.getfixturevalue("store")
        machine.extra |= {"PULUMI_BACKEND_URL": store.pulumi_backend, **store.variables}
    else:
        machine.extra["PULUMI_BACKEND_URL"] = f"file://{backend.folder}"
        if backend.packed:
            machine.extra["PULUMI_DIY_BACKEND_GZIP"] = "true"
    return machine


def kept(api: Api) -> tuple[int, int]:
    return api.get(ROWS).status, api.get(SETTINGS).status


def test_a_protected_stack_is_refused_whole_and_one_that_is_not_goes_whole(
    machine: Machine, backend: Backend, api: Api, host: str
) -> None:
    configure(machine, host=host, more="  kindling:protect: true\n")
    ok(machine, "up", "staging")
    message = refused(machine, "destroy", "staging")
    assert "stack `staging` is protected against destroy" in message
    assert "rows" in message
    assert kept(api) == (200, 200)
    configure(machine, host=host)
    ok(machine, "up", "staging")
    assert "Stack staging is gone." in ok(machine, "destroy", "staging")
    assert kept(api) == (404, 404)
    assert "nothing to destroy" in ok(machine, "destroy", "staging")


def test_a_context_that_leads_elsewhere_stops_whatever_would_change_something(
    machine: Machine, backend: Backend, api: Api
) -> None:
    ok(machine, "up", "staging")
    here = api.get("/api/v1/namespaces/kube-system").accepted()["metadata"]["uid"]
    there = "00000000-0000-0000-0000-000000000000"
    backend.rewrite(lambda text: text.replace(here, there))
    for verb in ("up", "destroy"):
        message = refused(machine, verb, "staging")
        assert "leads to another cluster than the one stack `staging` is in" in message
    assert kept(api) == (200, 200)
    backend.rewrite(lambda text: text.replace(there, here))
    ok(machine, "destroy", "staging")


def test_what_only_looks_writes_nothing_and_waits_for_nobody(
    machine: Machine, backend: Backend, api: Api, host: str
) -> None:
    """Before the first `up`, after it, and while somebody else's run holds the lock."""
    assert "to create" in ok(machine, "preview", "staging")
    assert [file for file in backend.files() if file.startswith(str(RECORD))] == []
    ok(machine, "up", "staging")
    configure(machine, host=host, more="  kindling:replicas: 3\n")
    before = backend.files()
    for locked in (False, True):
        if locked:
            backend.lock()
            before = backend.files()
        assert "1 to " in ok(machine, "preview", "staging")
        assert "everything is as the last `up` left it" in ok(machine, "drift", "staging")
        assert backend.files() == before
    backend.unlock()
    configure(machine, host=host)
    api.request("DELETE", ROWS).accepted()
    drifted = machine.cli("drift", "staging")
    assert (drifted.returncode, "rows: gone" in drifted.stdout) == (3, True), drifted.stdout + drifted.stderr
    ok(machine, "up", "staging")
    assert kept(api) == (200, 200), "`up` takes back what others did, whichever the backend"
    ok(machine, "destroy", "staging")


def test_a_plan_is_carried_out_once_and_refused_as_stale(
    machine: Machine, backend: Backend, api: Api, host: str, tmp_path: Path
) -> None:
    ok(machine, "up", "staging")
    configure(machine, host=host, more="  kindling:replicas: 3\n")
    plan = str(tmp_path / "plan.json")
    ok(machine, "preview", "staging", "--save-plan", plan)
    ok(machine, "up", "staging", "--plan", plan)
    assert api.get(ROWS).accepted()["data"]["replicas"] == "3"
    message = refused(machine, "up", "staging", "--plan", plan)
    assert "can not be carried out" in message
    assert "the stack was last changed" in message
    ok(machine, "destroy", "staging")


def test_a_run_that_was_cut_off_is_gone_on_from(machine: Machine, backend: Backend, api: Api) -> None:
    """What it was creating stands in the record, on whichever backend."""
    ok(machine, "up", "staging")

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
    assert "cleared up after a run that was cut off" in ok(machine, "up", "staging")
    assert kept(api) == (200, 200)
    ok(machine, "destroy", "staging")


def test_backends_are_what_they_are_said_to_be(machine: Machine, backend: Backend) -> None:
    """Or the file would be read everywhere, and nothing be shown."""
    ok(machine, "up", "staging")
    stored = sorted(Path(name).name for name in backend.files() if name.startswith(str(RECORD)))
    assert ("staging.json.gz" if backend.packed else "staging.json") in stored
    assert os.environ.get("PULUMI_BACKEND_URL") is None
    ok(machine, "destroy", "staging")

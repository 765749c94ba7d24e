"""A later operator beside real controllers: whose Pods it restarts, and which image a replaced Pod runs.

No server answers here, so none of them gets Ready: the first restart halts the line, and each Pod that is
replaced all the same would be one too many.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import LEASE, POD, STATEFUL_SET, Ref

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import POSTGRESQL, REPOSITORY
from tests.apiserver.support.operator_process import operator
from tests.archives import unpack

KIND = KINDS_BY_NAME[POSTGRESQL.id]
OLD, NEW = "kindling.invalid/postgres:1", "kindling.invalid/postgres:2"
SPECS: Mapping[str, Json] = {
    "auto-1": {},
    "auto-2": {"updates": "Auto"},
    "auto-3": {},
    "ephemeral": {"storage": {"ephemeral": True}},
    "manual": {"updates": "Manual"},
    "window": {"maintenanceWindow": {"schedule": "0 0 29 2 *", "duration": "1m"}},
}
AUTOS = ("auto-1", "auto-2", "auto-3")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's source as it was in the commit before this one."""
    folder = tmp_path_factory.mktemp("before")
    archive = folder / "tree.tar"
    subprocess.run(
        ["git", "archive", f"--output={archive}", "HEAD~1", "operator/src"],
        cwd=REPOSITORY,
        timeout=60,
        check=True,
    )
    with tarfile.open(archive) as tar:
        unpack(tar, folder)
    return folder / "operator" / "src"


class Databases:
    """The resources of `SPECS` in a namespace, and what has become of them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    @contextmanager
    def operator(self, image: str, *, source: Path | None = None) -> Iterator[None]:
        """Run one with that image of its own, and wait until it has looked at all of them."""
        env = {"KINDLING_IMAGE_POSTGRES": image, "RES_OPTIONS": "timeout:1 attempts:1"}
        with operator(
            self.cluster.operator_plane, namespaces=self.namespace, env=env, source=source, kept=True
        ) as running:
            running.wait_ready()
            yield
            self.cluster.audit.wait_quiet()

    def pod(self, name: str) -> Json:
        return self.cluster.get(Ref(POD, self.namespace, f"{name}-0")) or {}

    def uid(self, name: str) -> str:
        return str(self.pod(name).get("metadata", {}).get("uid", ""))

    def runs(self, name: str) -> str:
        containers = self.pod(name).get("spec", {}).get("containers", [{}])
        return str(containers[0].get("image", ""))

    def workload(self, name: str) -> Json:
        found = self.cluster.get(Ref(STATEFUL_SET, self.namespace, name))
        assert found is not None
        return found

    def strategy(self, name: str) -> Json:
        found: Json = self.workload(name)["spec"]["updateStrategy"]
        return found

    def comes(self, name: str) -> str:
        return str(self.workload(name)["spec"]["template"]["spec"]["containers"][0]["image"])

    def pending(self, name: str) -> str:
        status = (self.cluster.get(ref_to(KIND, self.namespace, name)) or {}).get("status") or {}
        return str(find_condition(status, "RestartPending").get("reason", ""))

    def wait(self, what: str, *names: str, until: object, of: str) -> None:
        """Until `what` of each is so: `runs`, `pending`, `comes`."""
        for name in names or SPECS:
            wait_until(
                lambda name=name: getattr(self, what)(name) == until,  # type: ignore[misc]
                seconds=60,
                what=lambda name=name: f"{of}: {name} {what} {getattr(self, what)(name)!r}",  # type: ignore[misc]
            )

    def replace_pod(self, name: str) -> None:
        """Delete the Pod, and wait for another."""
        old = self.uid(name)
        self.cluster.delete(Ref(POD, self.namespace, f"{name}-0"))
        wait_until(lambda: self.uid(name) not in ("", old), seconds=60, what=f"another Pod {name}-0")


@pytest.fixture
def databases(running_cluster: Cluster, request: pytest.FixtureRequest, before: Path) -> Iterator[Databases]:
    """Made by the operator of the commit before, with their Pods."""
    name = request.node.name.replace("_", "-").removeprefix("test-")
    made = Databases(running_cluster, running_cluster.namespace(name))
    with made.operator(OLD, source=before):
        for each, spec in SPECS.items():
            old = {key: value for key, value in spec.items() if key in ("storage",)}
            running_cluster.create(KIND, name, each, old)
        made.wait("runs", until=OLD, of="before")
    for each, spec in SPECS.items():
        running_cluster.merge(ref_to(KIND, name, each), {"spec": spec})
    yield made
    running_cluster.api.delete(f"/api/v1/namespaces/{name}")


def test_same_image_restarts_nothing(databases: Databases) -> None:
    uids = {name: databases.uid(name) for name in SPECS}
    with databases.operator(OLD):
        databases.wait("comes", until=OLD, of="upgrade")
        at_rest = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        if all(databases.pending(name) == "" for name in SPECS):  # no other template than the commit before
            databases.wait("strategy", until=at_rest, of="upgrade")
    assert {name: databases.uid(name) for name in SPECS} == uids


def test_another_image(databases: Databases) -> None:
    cluster, namespace = databases.cluster, databases.namespace
    uids = {name: databases.uid(name) for name in SPECS}
    with databases.operator(NEW):
        databases.wait("comes", until=NEW, of="upgrade")
        wait_until(
            lambda: [databases.runs(name) for name in AUTOS].count(NEW) == 1,
            seconds=60,
            what=lambda: f"one of them restarted: {[databases.runs(name) for name in AUTOS]}",
        )
        databases.wait("pending", "ephemeral", until="NextRestart", of="ephemeral data")
        databases.wait("pending", "manual", until="Manual", of="by hand")
        databases.wait("pending", "window", until="AwaitingWindow", of="a window years away")
    (first,) = [name for name in AUTOS if databases.runs(name) == NEW]
    lease = cluster.get(Ref(LEASE, "kindling-system", "kindling-operator"))
    assert lease is not None
    assert lease["metadata"]["annotations"]["kindling.dev/turn"].endswith(f"/{namespace}/{first}")
    with databases.operator(NEW):  # the next leader knows whose turn it is
        pass
    held = [name for name in SPECS if name != first]
    assert {name: databases.uid(name) for name in held} == {name: uids[name] for name in held}
    others = [name for name in AUTOS if name != first]
    assert {databases.pending(name) for name in others} == {"Queued"}

    # A replaced Pod runs this without anybody's help.
    for name, image in (("ephemeral", NEW), (others[0], NEW), ("manual", OLD)):
        databases.replace_pod(name)
        databases.wait("runs", name, until=image, of="replaced")

    with databases.operator(NEW):
        databases.wait("pending", "ephemeral", others[0], until="", of="replaced")
        for name in ("manual", "window", others[1]):
            word = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
            template = {"metadata": {"annotations": word}}
            cluster.merge(Ref(STATEFUL_SET, namespace, name), {"spec": {"template": template}})
            databases.wait("runs", name, until=NEW, of="kubectl rollout restart")
        at_rest = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        databases.wait("strategy", until=at_rest, of="at rest")
        databases.wait("pending", until="", of="at rest")
    for name in SPECS:
        status = databases.workload(name)["status"]
        assert status["currentRevision"] == status["updateRevision"], name

"""The operator's process beside hostile, frozen and honest servers: others are as quick, the Lease is kept.

A job leads to a server on this machine by its namespace: the hostile of each sort, and one real PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from kindling.kube.resources import Ref
from kindling.prober import jobs

from tests.apiserver.conftest import ENVIRONMENT
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import ACCOUNT, KINDS_BY_NAME, NAMESPACE, Cluster, ref_to
from tests.apiserver.support.kinds import MEMCACHED, MY_CUSTOM_RESOURCE, POSTGRESQL
from tests.apiserver.support.operator_process import SOURCE, OperatorProcess, operator
from tests.convergence.database import database, drop, lets_in
from tests.convergence.mounts import admit_operator, pod_of
from tests.unit.operator.conftest import Files
from tests.unit.operator.hostile import SORTS, all_sorts

EACH = 2
"""Resources for each of the eleven sorts of hostile server."""
OTHERS = 50
MEASURED = BEFORE, BESIDE, AFTER = "before", "beside", "after"
"""The namespaces of the others."""
"""New resources of each of two kinds that need no server."""
SECONDS = 120.0
PROMISED_SECONDS = 15.0
CHECKED_SECONDS = 7.0
"""A check is begun five seconds after the one before."""
SLACK_SECONDS = 5.0
"""A machine that does other things beside this one is not as quick each time."""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{ACCOUNT}"
HONEST = "honest"
REASONS = {
    "cleartext": "UnsafeAuthentication",
    "md5": "UnsafeAuthentication",
    "trust": "UnsafeAuthentication",
    "hang": "NotResponding",
    "iterations": "NotResponding",
}


# What each sort does comes after TLS, which these servers do not have.
PLAIN: Json = {"tls": {"enabled": False}}


@dataclass
class Addresses:
    """Between the operator and its prober: leads each job to a server on this machine, by its namespace.

    As a cluster's name service would. To the real server one at a time, since all share its superuser.
    """

    ports: dict[str, int]
    behind: Path
    enters: Callable[[str, str], None]
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            job = jobs.job(await reader.readline())
            if job.request.namespace == HONEST:
                async with self._alone:
                    if not job.quick:
                        await asyncio.to_thread(self.enters, HONEST, job.request.pod)
                    await self._pass_on(job, reader, writer)
            else:
                await self._pass_on(job, reader, writer)
        finally:
            writer.close()

    async def _pass_on(
        self, job: jobs.Job, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answering, asking = await asyncio.open_unix_connection(self.behind, limit=jobs.LONGEST_LINE)
        asking.write(replace(job, host="127.0.0.1", port=self.ports[job.request.namespace]).line())
        leaving = asyncio.create_task(reader.read(1))
        answer = asyncio.create_task(answering.readline())
        await asyncio.wait({leaving, answer}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            writer.write(answer.result())
        for task in (leaving, answer):
            task.cancel()
        asking.close()


@contextmanager
def prober(addresses: Addresses, path: Path) -> Iterator[None]:
    """The real one, as the container in the cluster, and the way to it at `path`."""
    words = [sys.executable, "-m", "kindling.prober", str(addresses.behind)]
    process = subprocess.Popen(
        words, env={"PYTHONPATH": str(SOURCE)}, stdin=subprocess.PIPE, start_new_session=True
    )
    with suppress(OSError):  # As the container's request: less than half of what the operator's is.
        Path(f"/proc/{process.pid}/autogroup").write_text("5")
    over = threading.Event()

    async def serve() -> None:
        await asyncio.start_unix_server(addresses.take, path=path, limit=jobs.LONGEST_LINE)
        await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        process.terminate()
        process.wait(timeout=30)


@dataclass(frozen=True)
class Place:
    cluster: Cluster
    files: Files
    process: OperatorProcess

    def others(self, namespace: str) -> float:
        """The seconds until a hundred new resources, of kinds that need no server, are Ready."""
        self.cluster.namespace(namespace)
        began = time.monotonic()
        refs = []
        for number in range(OTHERS):
            for id in (MEMCACHED.id, MY_CUSTOM_RESOURCE.id):
                self.cluster.create(KINDS_BY_NAME[id], namespace, f"other-{number}")
                refs.append(ref_to(KINDS_BY_NAME[id], namespace, f"other-{number}"))
        for ref in refs:
            self.wait(ref, "True", since=began, seconds=SECONDS)
        return time.monotonic() - began

    def wait(self, ref: Ref, status: str, *, since: float, seconds: float) -> float:
        """Until Ready has that status; the seconds that it took."""
        while (ready := self.cluster.ready(ref)).get("status") != status:
            assert time.monotonic() - since < seconds, f"{ref}: {ready}\n{self.process.log()[-4000:]}"
            time.sleep(0.05)
        return time.monotonic() - since

    def lease(self) -> Json:
        """Who holds it, since when, and how often it changed hands."""
        spec: Json = self.cluster.api.get(LEASE).accepted()["spec"]
        return {name: spec.get(name) for name in ("holderIdentity", "acquireTime", "leaseTransitions")}

    def renewed(self) -> str:
        return str(self.cluster.api.get(LEASE).accepted()["spec"]["renewTime"])

    @contextmanager
    def lag(self) -> Iterator[list[float]]:
        """Meanwhile, how long the operator's event loop takes for its own health page, the longest first."""
        took: list[float] = []
        over = threading.Event()

        def ask() -> None:
            while not over.wait(0.2):
                began = time.monotonic()
                self.process.get("/healthz")
                took.append(time.monotonic() - began)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield took
        finally:
            over.set()
            thread.join()
            took.sort(reverse=True)

    def computed(self) -> float:
        """Seconds of processor time that the operator has had."""
        words = Path(f"/proc/{self.process.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def place(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory: Path = tmp_path_factory.mktemp("hostile")
    with ExitStack() as stack:
        files = stack.enter_context(database())
        api = stack.enter_context(closing(Api(running_cluster.plane)))
        ports = {sort.replace("_", "-"): port for sort, port in stack.enter_context(all_sorts()).items()}

        def enters(namespace: str, pod: str) -> None:
            if (found := pod_of(api, namespace, pod)) is not None:
                admit_operator(api, files, found)

        addresses = Addresses(
            ports={**ports, HONEST: files.port},
            behind=directory / "behind",
            enters=enters,
        )
        stack.enter_context(prober(addresses, directory / "socket"))
        for namespace in addresses.ports:
            running_cluster.namespace(namespace)
        env = {**ENVIRONMENT, "KINDLING_PROBER": str(directory / "socket"), "KINDLING_LOG_LEVEL": "INFO"}
        # Not `kept`: one that loses its lease ends, and is not started again.
        process = stack.enter_context(operator(running_cluster.operator_plane, env=env))
        process.wait_ready()
        yield Place(running_cluster, files, process)
        for namespace in (*addresses.ports, *MEASURED):
            running_cluster.api.delete(f"/api/v1/namespaces/{namespace}")


def test_a_hundred_others_are_as_quick_beside_hostile_servers_of_every_sort(place: Place) -> None:
    """Compared with as many before there is a hostile one, and after the last: the machine may be busy."""
    kind = KINDS_BY_NAME[POSTGRESQL.id]
    took: dict[str, float] = {}

    def measure(name: str) -> None:
        computed = place.computed()
        with place.lag() as lag:
            took[name] = place.others(name)
        computed = place.computed() - computed
        print(f"{name}: {took[name]:.1f} s, of the operator's {computed:.1f}; lag at most {lag[0]:.2f} s")

    measure(BEFORE)
    held = place.lease()
    refs = {}
    for sort in SORTS:
        for number in range(EACH):
            namespace = sort.replace("_", "-")
            place.cluster.create(kind, namespace, f"db-{number}", {"password": "lovelace-1815", **PLAIN})
            refs[ref_to(kind, namespace, f"db-{number}")] = REASONS.get(sort, "LoginFailed")
    for ref, reason in refs.items():
        assert place.cluster.wait_ready_reason(ref, reason, seconds=SECONDS)["status"] == "False"
    renewed = place.renewed()
    measure(BESIDE)
    assert place.process.ended() is None, place.process.log()[-4000:]
    assert place.lease() == held
    assert place.renewed() > renewed
    assert place.process.value("kindling_reconcile_errors_total", error="UnhandledException") == 0
    for ref in refs:  # They go on.
        assert place.cluster.ready(ref)["status"] == "False"
        place.cluster.delete(ref)
    for ref in refs:
        wait_until(partial(gone, place.cluster, ref), seconds=SECONDS, what=f"{ref} gone")
    measure(AFTER)
    assert took[BESIDE] <= 2 * max(took[BEFORE], took[AFTER]) + SLACK_SECONDS


def gone(cluster: Cluster, ref: Ref) -> bool:
    return cluster.get(ref) is None


def test_a_frozen_server_is_not_ready_within_seconds_and_comes_back(place: Place) -> None:
    """While the kubelet says that its Pod is ready."""
    kind = KINDS_BY_NAME[POSTGRESQL.id]
    place.cluster.create(kind, HONEST, "db", {"defaultUser": "ada", **PLAIN})
    ref = ref_to(kind, HONEST, "db")
    place.wait(ref, "True", since=time.monotonic(), seconds=SECONDS)
    time.sleep(CHECKED_SECONDS)
    frozen = _processes(place.files)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        took = place.wait(ref, "False", since=began, seconds=60)
        found = place.cluster.get(ref)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    assert found is not None
    assert place.cluster.ready(ref)["reason"] == "NotResponding"
    assert found["status"]["pgPhase"] == "Failed"
    print(f"not Ready after {took:.1f} s")
    assert took <= PROMISED_SECONDS
    place.wait(ref, "True", since=time.monotonic(), seconds=SECONDS)


def test_a_dropped_database_shows_and_is_made_again(place: Place) -> None:
    kind = KINDS_BY_NAME[POSTGRESQL.id]
    place.cluster.create(kind, HONEST, "dropped", {"defaultUser": "eve", "password": "first", **PLAIN})
    ref = ref_to(kind, HONEST, "dropped")
    place.wait(ref, "True", since=time.monotonic(), seconds=SECONDS)
    drop(place.files, "eve")
    began = time.monotonic()
    while not lets_in(place.files, user="eve", password="first"):
        assert time.monotonic() - began < PROMISED_SECONDS, place.cluster.ready(ref)
        time.sleep(0.1)
    place.wait(ref, "True", since=began, seconds=SECONDS)


def _processes(server: Files) -> list[int]:
    parent = int((server.mount / "pgdata" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]

"""How a real server stops; its probes take it for alive while it recovers, and for dead when it is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from kindling.kinds.postgresql import serve, workload
from kindling.kinds.postgresql.initdb import INITDB, PGDATA
from kindling.kube.resources import STATEFUL_SET, Object

from tests.unit.operator.conftest import IS_READY, SUPERUSER_PASSWORD, Files, page
from tests.unit.operator.postgresqls import KIND, observed, postgresql, volume
from tests.unit.operator.test_postgres_port import as_superuser

REJECTING = 1


def container() -> Object:
    (made,) = (c for c in KIND.desired(postgresql(), observed(volume())) if c.type == STATEFUL_SET)
    found: Object = made.body["spec"]["template"]["spec"]["containers"][0]
    return found


def passes(files: Files, probe: str) -> bool:
    """As the kubelet asks: a page, or a connection."""
    asked = container()[f"{probe}Probe"]
    assert container()["ports"] == [
        {"name": "postgresql", "containerPort": 5432, "protocol": "TCP"},
        {"name": "ready", "containerPort": 8008, "protocol": "TCP"},
    ]
    if "httpGet" in asked:
        assert asked["httpGet"]["port"] == "ready"
        return page(files, asked["httpGet"]["path"], seconds=asked["timeoutSeconds"]) == 200
    assert asked["tcpSocket"] == {"port": "postgresql"}
    try:
        with socket.create_connection(("127.0.0.1", files.port), timeout=asked["timeoutSeconds"]):
            return True
    except OSError:
        return False


def until(true: Callable[[], bool], *, pause: float = 0.1) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(pause)


def recovering(postmaster: int) -> int | None:
    """The process of that server which replays the log, while there is one."""
    for task in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((task / "stat").read_text().rpartition(")")[2].split()[1])
            title = (task / "cmdline").read_text()
        except (OSError, ValueError):
            continue
        if parent == postmaster and title.startswith("postgres: startup"):
            return int(task.name)
    return None


def connected(files: Files) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host="127.0.0.1",
        port=files.port,
        user="kindling",
        password=SUPERUSER_PASSWORD,
        dbname="template1",
        sslmode="disable",
        autocommit=True,
    )


def started(files: Files) -> subprocess.Popen[bytes]:
    assert files.run(INITDB) == 0
    process = files.start(serve.command({"spec": {}}, workload.SERVER, seconds=60))
    until(lambda: passes(files, "readiness"))
    return process


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_recovering_server_is_alive_and_not_ready_and_a_stopped_one_is_dead(files: Files) -> None:
    files.configure({"checkpoint_timeout": "1h"})
    server = started(files)
    try:
        assert (passes(files, "readiness"), passes(files, "liveness")) == (True, True)
        as_superuser(files, "CREATE TABLE kept AS SELECT generate_series(1, 300000) AS row")
        client = connected(files)
        os.kill(client.info.backend_pid, signal.SIGKILL)
        client.close()
        until(lambda: recovering(files.server()) is not None, pause=0)
        replaying = recovering(files.server())
        assert replaying is not None
        os.kill(replaying, signal.SIGSTOP)  # as long as it takes
        try:
            until(lambda: files.run(IS_READY) == REJECTING)
            assert passes(files, "liveness")
            # Nor does its own file show it: that has the state of the start.
            assert (files.mount / "pgdata" / "postmaster.pid").read_text().split()[-1] == "ready"
            until(lambda: not passes(files, "readiness"))
        finally:
            os.kill(replaying, signal.SIGCONT)
        until(lambda: passes(files, "readiness"))
        assert as_superuser(files, "SELECT count(*) FROM kept") == 300000
        assert files.run(workload.STOP) == 0
        assert server.wait(timeout=60) == 0
        assert not passes(files, "liveness")
    finally:
        server.kill()
        server.wait()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_server_that_recovers_as_it_starts_is_alive_and_not_ready(files: Files) -> None:
    """There is no startup probe: nothing but liveness keeps it from being killed while it replays its log."""
    files.configure({"checkpoint_timeout": "1h"})
    server = started(files)
    as_superuser(files, "CREATE TABLE kept AS SELECT generate_series(1, 300000) AS row")
    before = files.server()
    server.kill()
    server.wait()
    until(lambda: not Path(f"/proc/{before}").exists())
    server = files.start(serve.command({"spec": {}}, workload.SERVER, seconds=60))
    try:
        found: list[int] = []

        def held() -> bool:
            with suppress(FileNotFoundError, IndexError):  # nor is it written in one step
                replaying = recovering(files.server())
                if replaying is not None:
                    os.kill(replaying, signal.SIGSTOP)  # as long as it takes
                    found.append(replaying)
            return bool(found)

        until(held, pause=0)
        try:
            assert (passes(files, "liveness"), passes(files, "readiness")) == (True, False)
        finally:
            os.kill(found[0], signal.SIGCONT)
        until(lambda: passes(files, "readiness"))
        assert as_superuser(files, "SELECT count(*) FROM kept") == 300000
    finally:
        server.kill()
        server.wait()


def test_stop_waits_for_no_client_and_for_the_checkpoint(files: Files) -> None:
    """As the kubelet does: the hook, then SIGTERM, by which alone the server would wait for its clients."""
    assert container()["lifecycle"]["preStop"]["exec"]["command"] == workload.STOP
    server = started(files)
    try:
        client = connected(files)
        client.execute("SELECT 1")
        assert files.run(workload.STOP) == 0
        server.terminate()
        assert server.wait(timeout=60) == 0
        client.close()
        said = files.root / "control.log"
        with said.open("wb") as log:
            assert files.start(["pg_controldata", PGDATA], log=log.fileno()).wait(timeout=30) == 0
        assert "shut down\n" in said.read_text()
    finally:
        server.kill()
        server.wait()

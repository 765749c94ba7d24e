"""Whether a real server takes logins, as the kubelet asks it over HTTP, beside pg_isready's word."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from kindling.kinds.postgresql import serve, workload
from kindling.kinds.postgresql.initdb import INITDB

from tests.unit.operator.conftest import IS_READY, Files, page
from tests.unit.operator.test_postgres_life import connected, passes, until
from tests.unit.operator.test_postgres_port import as_superuser

NO_ANSWER = 2
"""pg_isready's status for a server that does not answer."""


@contextmanager
def contained(files: Files) -> Iterator[subprocess.Popen[bytes]]:
    """The first process of the Pod's container, which nobody has asked yet."""
    assert files.run(INITDB) == 0
    with (files.root / "server.log").open("ab") as log:
        process = files.start(serve.command({"spec": {}}, workload.SERVER, seconds=60), log=log.fileno())
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        finally:
            process.kill()


@contextmanager
def served(files: Files) -> Iterator[subprocess.Popen[bytes]]:
    """With a server that has started."""
    with contained(files) as process:
        until(lambda: passes(files, "readiness"))
        yield process


def said(files: Files) -> str:
    return (files.root / "server.log").read_text()


def test_nothing_is_ready_before_the_server_and_after_it(files: Files) -> None:
    assert page(files) == 0
    with served(files) as process:
        assert (page(files), files.run(IS_READY)) == (200, 0)
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert (page(files), files.run(IS_READY)) == (0, NO_ANSWER)


def test_whoever_asks_while_a_server_starts_is_answered_once_it_takes_logins(files: Files) -> None:
    """The kubelet would ask only after the probe's period again."""
    with contained(files):
        while True:
            came = time.monotonic()
            found = page(files)
            if found == 200:
                break
            assert found == 0 or time.monotonic() - came > 2, "with nobody there, or after seconds"


def test_a_server_without_a_place_for_one_more_is_ready(files: Files) -> None:
    files.configure({"max_connections": "5", "superuser_reserved_connections": "0"})
    with served(files), ExitStack() as sessions:
        for _ in range(5):
            sessions.enter_context(connected(files))
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            connected(files)
        assert page(files) == 200
        assert files.run(IS_READY) == 0


def test_a_server_that_is_frozen_is_not_ready(files: Files) -> None:
    """The kernel takes its connections all the same."""
    with served(files):
        server = files.server()
        os.kill(server, signal.SIGSTOP)
        try:
            until(lambda: page(files) == 503, pause=1.0)
            assert files.run([*IS_READY, "--timeout=1"]) == NO_ANSWER
        finally:
            os.kill(server, signal.SIGCONT)
        until(lambda: page(files) == 200)


def test_the_servers_log_says_nothing_of_it(files: Files) -> None:
    with served(files):
        before = said(files)
        for _ in range(3):
            until(lambda: page(files) == 200, pause=1.1)
        assert said(files) == before


def test_a_crowd_that_asks_at_once_logs_in_once_a_second(files: Files) -> None:
    files.configure({"log_connections": "on"})
    with served(files):
        as_superuser(files, "SELECT 1")
        before = said(files).count("application_name=kindling")
        with ThreadPoolExecutor(20) as pool:
            assert set(pool.map(lambda _: page(files), range(200))) == {200}
        assert said(files).count("application_name=kindling") - before < 10


def test_a_port_that_another_container_has_is_named(files: Files) -> None:
    assert files.run(INITDB) == 0
    with socket.create_server(("", files.ready_port)), (files.root / "server.log").open("ab") as log:
        process = files.start(serve.command({"spec": {}}, workload.SERVER, seconds=60), log=log.fileno())
        assert process.wait(timeout=30) == 1
    assert f":{files.ready_port}: bind: address already in use" in said(files)

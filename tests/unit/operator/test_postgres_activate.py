"""What takes the first connections to a stopped server: they wait, call it, and get their rows."""

from __future__ import annotations

import re
import signal
import socket
import socketserver
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import psycopg
import pytest
from kindling.kinds.postgresql import activator
from kindling.kube.resources import DEPLOYMENT, Object
from postgres_backup import waking

from tests.ports import free_port
from tests.unit.operator import postgres_init
from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.postgresqls import KIND, observed, postgresql, volume
from tests.unit.operator.test_postgres_life import until

READY, CALLED = 200, 503
ENDS_QUIETLY = b""
ASKS_FOR_TLS = struct.pack(">ii", 8, 80877103)


@dataclass(frozen=True)
class Activator:
    port: int
    ready_port: int
    behind: int
    process: subprocess.Popen[bytes]

    def ready(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ready_port}/", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def connect(self, **how: object) -> psycopg.Connection[tuple[object, ...]]:
        wanted = {"sslmode": "disable", "connect_timeout": 60, **how}
        return psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=kindling dbname=template1",
            password=SUPERUSER_PASSWORD,
            autocommit=True,
            **wanted,  # type: ignore[arg-type]
        )

    def answer(self, first: bytes, *, seconds: float = 20.0) -> bytes:
        """What comes back to these bytes until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as raw:
            raw.sendall(first)
            try:
                return raw.recv(100)
            except ConnectionResetError:
                return ENDS_QUIETLY


def command() -> list[str]:
    """As its Pod has it."""
    cr = postgresql(hibernateAfter="5m", wakeOnConnection=True)
    (made,) = (child for child in KIND.desired(cr, observed(volume())) if child.type == DEPLOYMENT)
    found: Object = made.body["spec"]["template"]["spec"]["containers"][0]
    assert found["readinessProbe"]["httpGet"] == {"path": "/", "port": "ready"}
    words: list[str] = found["command"]
    return words


class _Pipe(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        port: int = self.server.leads_to  # type: ignore[attr-defined]
        with socket.create_connection(("127.0.0.1", port)) as server, ThreadPoolExecutor(2) as pool:
            pool.submit(_copy, self.request, server)
            pool.submit(_copy, server, self.request)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def serving(files: Files, gate: Activator) -> Iterator[None]:
    """A server behind its Service, by which nobody gets to one that is not ready."""
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    with files.running(), socketserver.ThreadingTCPServer(("127.0.0.1", gate.behind), _Pipe) as service:
        service.leads_to = files.port  # type: ignore[attr-defined]
        threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield
        finally:
            service.shutdown()


@contextmanager
def activating(*, seconds: int = activator.WAIT_SECONDS) -> Iterator[Activator]:
    port, ready_port, behind = free_port(), free_port(), free_port()
    cr = postgresql(hibernateAfter="5m", wakeOnConnection=True)
    host = f"{activator.server_name(cr)}.{cr['metadata']['namespace']}.svc"
    words = [
        word.replace(f"{host}:5432", f"127.0.0.1:{behind}")
        .replace("--port=5432", f"--port={port}")
        .replace("--ready=8008", f"--ready={ready_port}")
        .replace(f"--seconds={activator.WAIT_SECONDS}", f"--seconds={seconds}")
        for word in command()[1:]
    ]
    process = subprocess.Popen([postgres_init.program(), *words])
    made = Activator(port, ready_port, behind, process)
    try:
        # The kubelet's first answer, and long enough for its times to be ordered.
        until(lambda: made.ready() == READY)
        time.sleep(2)
        yield made
    finally:
        process.kill()
        process.wait(timeout=30)


def test_who_connects_to_a_stopped_server_gets_a_row_once_it_runs(files: Files) -> None:
    with activating() as gate, ThreadPoolExecutor(20) as pool:
        assert gate.ready() == READY
        rows = [pool.submit(_row, gate, number) for number in range(20)]
        until(lambda: gate.ready() == CALLED)
        time.sleep(1)
        assert not any(row.done() for row in rows)
        with serving(files, gate):
            assert [row.result(timeout=60) for row in rows] == list(range(20))
            until(lambda: gate.ready() == READY)
            assert _row(gate, 7) == 7, "while it runs, it is passed on at once"


def test_a_session_goes_on_for_as_long_as_both_like(files: Files) -> None:
    with activating() as gate, serving(files, gate), gate.connect() as session:
        session.execute("CREATE TEMPORARY TABLE t AS SELECT g FROM generate_series(1, 300000) g")
        with session.cursor() as cursor, cursor.copy("COPY t TO STDOUT") as out:
            assert sum(len(bytes(part)) for part in out) > 1_000_000
        with session.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
            copy.write(b"1\n" * 500_000)
        assert session.execute("SELECT count(*) FROM t").fetchone() == (800_000,)
        time.sleep(6)  # longer than any time limit of a probe
        assert session.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("how", [{"sslmode": "prefer"}, {"sslmode": "allow"}])
def test_however_a_client_begins(files: Files, how: dict[str, object]) -> None:
    with activating() as gate, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_row, gate, 3, **how)
        until(lambda: gate.ready() == CALLED)
        with serving(files, gate):
            assert waiting.result(timeout=60) == 3


def test_tls_that_begins_at_once_calls_it_too(files: Files) -> None:
    """As with sslnegotiation=direct, which psql has from release 17 on."""
    with activating() as gate, ThreadPoolExecutor(1) as pool:
        hello = b"\x16\x03\x01" + struct.pack(">H", 512) + b"\x01" + bytes(511)
        waiting = pool.submit(gate.answer, hello, seconds=60)
        until(lambda: gate.ready() == CALLED)
        with serving(files, gate):
            waiting.result(timeout=60)


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ii", 8, 99),
        struct.pack(">ii", 2**31 - 1, 3 << 16),
        struct.pack(">ii", 4, 3 << 16),
        struct.pack(">iiii", 16, 80877102, 1, 2),
    ],
    ids=["http", "protocol 0", "too long", "too short", "cancel"],
)
def test_what_is_no_client_calls_nobody_and_is_let_go(first: bytes) -> None:
    with activating() as gate:
        assert gate.answer(first) == ENDS_QUIETLY
        assert gate.ready() == READY


def test_who_says_nothing_calls_nobody() -> None:
    with activating() as gate, ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(socket.create_connection(("127.0.0.1", gate.port)))
        last = stack.enter_context(socket.create_connection(("127.0.0.1", gate.port), timeout=20))
        time.sleep(1)
        assert gate.ready() == READY
        assert last.recv(1) == ENDS_QUIETLY, "it has ten seconds to say something"


def test_who_gave_up_has_called_all_the_same() -> None:
    """A client that waits a moment and tries again later: the kubelet asks once a second."""
    with activating() as gate:
        with socket.create_connection(("127.0.0.1", gate.port)) as client:
            client.sendall(ASKS_FOR_TLS)
            time.sleep(0.3)
        time.sleep(1.5)
        assert gate.ready() == CALLED
        until(lambda: gate.ready() == READY)


def test_it_waits_no_longer_than_it_is_given() -> None:
    with activating(seconds=3) as gate:
        before = time.monotonic()
        assert gate.answer(ASKS_FOR_TLS) == ENDS_QUIETLY
        assert 3 <= time.monotonic() - before < 6


def test_a_crowd_beyond_its_places_is_refused_and_the_others_wait(files: Files) -> None:
    with activating() as gate:
        with ExitStack() as stack:
            crowd = [
                stack.enter_context(socket.create_connection(("127.0.0.1", gate.port))) for _ in range(512)
            ]
            for each in crowd:
                each.sendall(ASKS_FOR_TLS)
            until(lambda: gate.ready() == CALLED)
            assert gate.answer(ASKS_FOR_TLS) == ENDS_QUIETLY
            crowd[0].settimeout(0.1)
            with pytest.raises(TimeoutError):
                crowd[0].recv(1)
        until(lambda: gate.ready() == READY)
        with serving(files, gate):
            assert _row(gate, 5) == 5


def test_a_run_of_a_backup_starts_it_and_the_servers_log_says_nothing(files: Files) -> None:
    with activating() as gate, ThreadPoolExecutor(1) as pool:
        woken = pool.submit(waking.wake, "127.0.0.1", 60, port=gate.port)
        until(lambda: gate.ready() == CALLED)
        assert not woken.done()
        with serving(files, gate):
            woken.result(timeout=60)
            time.sleep(0.5)
            said = (files.root / "server.log").read_text().partition("ready to accept connections")[2]
            assert not re.search("FATAL|ERROR|could not|incomplete", said)


def test_a_run_of_a_backup_goes_on_where_nobody_answers() -> None:
    assert waking.SECONDS == activator.WAIT_SECONDS
    waking.wake("127.0.0.1", 5, port=free_port())
    with activating() as gate:
        before = time.monotonic()
        waking.wake("127.0.0.1", 2, port=gate.port)
        assert time.monotonic() - before < 5


def test_it_ends_with_its_last_session_and_takes_no_more(files: Files) -> None:
    with activating() as gate, serving(files, gate):
        with gate.connect() as session:
            gate.process.send_signal(signal.SIGTERM)
            time.sleep(1)
            assert session.execute("SELECT 1").fetchone() == (1,)
            with pytest.raises(psycopg.OperationalError):
                gate.connect(connect_timeout=5)
        assert gate.process.wait(timeout=10) == 0


def test_a_server_that_ends_ends_its_sessions(files: Files) -> None:
    with activating() as gate:
        with serving(files, gate):
            session = gate.connect()
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
        session.close()


def test_what_it_can_be_given() -> None:
    said = subprocess.run(
        [postgres_init.program(), "activate", "--port=1"], capture_output=True, check=False, timeout=30
    )
    assert said.returncode == 1
    assert b"give --" in said.stderr


def _row(gate: Activator, number: int, **how: object) -> object:
    with gate.connect(**how) as session:
        (found,) = session.execute("SELECT %s::int", [number]).fetchone() or (None,)
        return found

"""A real server that is restarted within its Pod by the program that runs it: under load, where it fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from kindling.kinds.postgresql import serve
from kindling.kinds.postgresql.initdb import REFUSED
from kindling.kinds.postgresql.parameters import conf

from tests.unit.operator import postgres_init
from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_life import connected, until
from tests.unit.operator.test_postgres_parameters import Database, pending
from tests.unit.operator.test_postgres_port import as_superuser
from tests.unit.operator.test_postgres_ready import said, served

EACH = 0.02
"""How often somebody logs in."""
SECONDS = 5
"""How long a program in the server's place has to end, in the tests below."""


@contextmanager
def container_of(files: Files) -> Iterator[subprocess.Popen[bytes]]:
    """The first process of the Pod's container, with a server that answers."""
    with served(files) as process:
        assert Database(files).ask({}).ok  # the user's database is made now, while nobody uses its template
        yield process


def refused_for(files: Files, done: threading.Event) -> list[float]:
    """When logins failed, one of which is tried each EACH seconds."""
    moments = []
    while not done.is_set():
        try:
            connected(files).close()
        except psycopg.OperationalError:
            moments.append(time.monotonic())
        time.sleep(EACH)
    return moments


@contextmanager
def clients(files: Files, count: int) -> Iterator[list[psycopg.Connection[tuple[object, ...]]]]:
    made = [connected(files) for _ in range(count)]
    try:
        yield made
    finally:
        for client in made:
            client.close()


def test_server_with_lasting_clients_is_back_within_a_second(files: Files) -> None:
    database = Database(files)
    with container_of(files) as process, clients(files, 3) as lasting:
        lasting[0].execute("CREATE TABLE kept AS SELECT generate_series(1, 200000) AS row")
        lasting[1].execute("BEGIN")
        lasting[1].execute("SELECT count(*) FROM kept")
        done, moments = threading.Event(), list[float]()
        watching = threading.Thread(target=lambda: moments.extend(refused_for(files, done)), daemon=True)
        watching.start()
        before = files.server()
        answer = database.ask({"max_connections": "50", "work_mem": "5MB"}, restart=True)
        done.set()
        watching.join()
        assert answer.ok, answer
        assert answer.facts["restarted"] == ["max_connections"]
        assert (
            "restarted" not in database.ask({"max_connections": "50", "work_mem": "5MB"}, restart=True).facts
        )
        assert [database.shows(name) for name in ("max_connections", "work_mem")] == ["50", "5MB"]
        assert process.poll() is None
        assert files.server() != before
        assert as_superuser(files, "SELECT count(*) FROM kept") == 200000
        assert "database system was not properly shut down" not in said(files)
        lasts = moments[-1] - moments[0] + EACH if moments else 0.0
        print(f"refused for {lasts:.2f} s, {len(moments)} logins")
        assert lasts < 1
        with pytest.raises(psycopg.OperationalError):
            lasting[2].execute("SELECT 1")


def test_restarted_once_more_it_has_what_was_asked_last_and_the_container_is_the_same(files: Files) -> None:
    database = Database(files)
    with container_of(files) as process:
        for value in ("50", "60"):
            assert database.ask({"max_connections": value}, restart=True).ok
            assert database.shows("max_connections") == value
        assert database.ask({}, restart=True).ok
        assert database.shows("max_connections") == "100"
        assert process.poll() is None


def test_without_the_word_nothing_is_restarted(files: Files) -> None:
    database = Database(files)
    with container_of(files):
        before = files.server()
        assert pending(database.ask({"max_connections": "50"})) == ("RestartPending", ["max_connections"])
        assert files.server() == before


def test_parameters_with_which_it_would_not_start_are_never_in_force(files: Files) -> None:
    """They are tried while the server runs on."""
    database = Database(files)
    with container_of(files):
        before, lasting = files.server(), connected(files)
        values = {"max_connections": "5", "superuser_reserved_connections": "5"}
        answer = database.ask(values, restart=True)
        assert answer.reason == "InvalidParameter", answer
        assert "does not start with spec.parameters as they are together" in answer.message
        assert lasting.execute("SELECT 1").fetchone() == (1,)
        lasting.close()
        assert files.server() == before
        assert "max_connections" not in database.auto_conf()
        assert database.ask({"max_connections": "50"}, restart=True).ok
        assert not (files.mount / "pgdata" / REFUSED).exists()


def test_server_that_passes_the_trial_and_does_not_start_has_those_from_before_again(files: Files) -> None:
    """Pages that the machine does not have: the trial asks for no memory. (Never more memory than there is: a
    machine that overcommits gives it, and is brought down.)
    """
    database = Database(files)
    with container_of(files) as process:
        assert database.ask({"max_connections": "50"}, restart=True).ok
        answer = database.ask({"max_connections": "50", "huge_pages": "on"}, restart=True)
        assert answer.reason == "InvalidParameter", answer
        assert database.shows("max_connections") == "50"
        assert process.poll() is None
        assert "it has those from before again" in said(files)


def request(files: Files, words: str) -> None:
    path = files.root / "sockets" / serve.FILE
    as_superuser(files, f"COPY (SELECT '{words}') TO '{path}'")
    until(lambda: not path.exists())


def parameters(values: dict[str, str]) -> str:
    return b64encode(conf(values).encode()).decode()


def test_request_for_another_server_than_this_one_ends_none(files: Files) -> None:
    """One that was acted upon, or is from before the container, names a server that is gone."""
    database = Database(files)
    with container_of(files):
        lines = (files.mount / "pgdata" / "postmaster.pid").read_text().split("\n")
        assert database.ask({"max_connections": "50"}, restart=True).ok
        before = files.server()
        for words in (f"{lines[0]} {lines[2]}", f"{before} {int(lines[2]) - 100}", f"{before}", "? ? ?"):
            request(files, f"{words} {parameters({'max_connections': '60'})}")
        assert (files.server(), database.shows("max_connections")) == (before, "50")
        assert said(files).count("a request to restart cannot be read") == 2


def test_nothing_is_restarted_in_a_loop(files: Files) -> None:
    """For what it was started with just now."""
    database = Database(files)
    with container_of(files):
        assert database.ask({"max_connections": "50"}, restart=True).ok
        lines = (files.mount / "pgdata" / "postmaster.pid").read_text().split("\n")
        request(files, f"{lines[0]} {lines[2]} {parameters({'max_connections': '50'})}")
        until(lambda: "is not restarted for them again" in said(files))
        assert files.server() == int(lines[0])


def test_container_that_has_to_end_drops_its_clients_and_ends_well(files: Files) -> None:
    """Without the hook before, too: PostgreSQL itself would wait for them."""
    with container_of(files) as process, clients(files, 1) as lasting:
        lasting[0].execute("SELECT 1")
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert "received fast shutdown request" in said(files)


def test_signal_to_read_files_again_is_passed_on(files: Files) -> None:
    with container_of(files) as process:
        process.send_signal(signal.SIGHUP)
        until(lambda: "received SIGHUP, reloading configuration files" in said(files))


def test_server_that_was_killed_ends_its_container_with_the_same_status(files: Files) -> None:
    with container_of(files) as process:
        os.kill(files.server(), signal.SIGKILL)
        assert process.wait(timeout=30) == 128 + signal.SIGKILL


def test_server_ends_with_the_program_that_runs_it(files: Files) -> None:
    """As it would with a container whose first process ends."""
    with container_of(files) as process:
        server = files.server()
        process.kill()
        process.wait(timeout=30)
        until(lambda: not Path(f"/proc/{server}").exists() or is_zombie(server))


def is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_lock_file_of_a_process_that_is_no_server_keeps_none_from_starting(files: Files) -> None:
    """In the next container its number is a probe's, or a thread's of the program that runs the server."""
    with container_of(files):
        pass
    other = subprocess.Popen(["sleep", "60"], user=owner(files) if os.geteuid() == 0 else None)
    try:
        lines = [str(other.pid), str(files.mount / "pgdata"), "0", "5432", "", "", ""]
        (files.mount / "pgdata" / "postmaster.pid").write_text("\n".join(lines))
        with container_of(files) as process:
            assert process.poll() is None
    finally:
        other.kill()
        other.wait()


def owner(files: Files) -> int:
    return (files.mount / "pgdata").stat().st_uid


@contextmanager
def in_place_of_the_server(files: Files, code: str) -> Iterator[subprocess.Popen[str]]:
    """A program of ours that runs as the server would."""
    program = files.root / "program" / "server"
    program.write_text(f"#!{sys.executable}\nimport os, signal, subprocess, sys, time\n{code}")
    program.chmod(0o755)
    words = files.words(serve.command({"spec": {}}, [str(program)], seconds=SECONDS))
    (files.mount / "pgdata").mkdir()
    with subprocess.Popen(
        [postgres_init.program(), *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("code", "status"),
    [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGTERM)", 143)],
)
def test_status_is_the_servers_own(files: Files, code: str, status: int) -> None:
    with in_place_of_the_server(files, code) as process:
        assert process.wait(timeout=30) == status


def test_request_from_before_the_container_is_removed(files: Files) -> None:
    path = files.root / "sockets" / serve.FILE
    path.write_text("1 2 3\n")
    with in_place_of_the_server(files, f"sys.exit(os.path.exists({str(path)!r}))") as process:
        assert process.wait(timeout=30) == 0


IGNORES = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
ALIKE = """
def lock():
    with open(DATA + "/postmaster.pid", "w") as file:
        file.write(f"{os.getpid()}\\n\\n{time.time_ns()}\\n\\n\\n\\n\\nready\\n")
with open(DATA + "/started", "a") as file:
    file.write("x")
lock()
"""


@pytest.mark.parametrize(
    ("code", "words", "status"),
    [
        # Quit, it ends: it is started again, and the container goes on.
        (f"{IGNORES}; signal.signal(signal.SIGQUIT, lambda *_: os._exit(1))",
         ["has not ended within 5 seconds"], None),
        # Nothing but a kill ends it: the container is to start again.
        (f"{IGNORES}; signal.signal(signal.SIGQUIT, signal.SIG_IGN)",
         ["has not ended within 5 seconds", "does not end: it is killed"], 137),
    ],
)  # fmt: skip
def test_server_that_does_not_end_in_time(
    files: Files, code: str, words: list[str], status: int | None
) -> None:
    data = files.mount / "pgdata"
    (files.root / "program" / "postgres").write_text(f"#!{sys.executable}\n")  # what is tried passes
    (files.root / "program" / "postgres").chmod(0o755)
    body = f"DATA = {str(data)!r}\n{code}\n{ALIKE}\nwhile True: time.sleep(0.1)\n"
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{files.root / 'program'}:{before}"
    try:
        with in_place_of_the_server(files, body) as process:
            until(
                lambda: (
                    (data / "postmaster.pid").exists() and "ready" in (data / "postmaster.pid").read_text()
                )
            )
            lines = (data / "postmaster.pid").read_text().split("\n")
            (files.root / "sockets" / serve.FILE).write_text(f"{lines[0]} {lines[2]} {parameters({})}\n")
            if status is None:
                until(lambda: (data / "started").read_text() == "xx")
                assert process.poll() is None
                process.send_signal(signal.SIGQUIT)
            else:
                assert process.wait(timeout=40) == status
            printed = process.communicate(timeout=30)[0]
            assert all(word in printed for word in words), printed
    finally:
        os.environ["PATH"] = before


def test_process_that_has_lost_its_parent_leaves_nothing_behind(files: Files) -> None:
    """A child of the first process of a container, once its own parent is gone."""
    code = """import os, sys, time
from pathlib import Path
if not os.fork():
    os.setsid()
    if os.fork():
        sys.exit(0)
    time.sleep(0.3)
    os._exit(3)
os.wait()
time.sleep(2)
states = [path.read_text() for path in Path("/proc").glob("[0-9]*/status")]
sys.exit(any("State:\\tZ" in text for text in states))
"""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine gives no namespace of processes")
    program = files.root / "program" / "server"
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)
    words = files.words(serve.command({"spec": {}}, [str(program)], seconds=SECONDS))
    done = subprocess.run(
        [*unshare, postgres_init.program(), *words[1:]], timeout=30, check=False, capture_output=True
    )
    assert done.returncode == 0, done

"""A real PostgreSQL server for the tests, made and run by the very commands that our Pods run."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kindling.kinds import server_tls
from kindling.kinds.postgresql import config, hba, initdb, parameters, serve, server_log, workload

from tests.ports import free_port
from tests.unit.operator import postgres_init

SUPERUSER_PASSWORD = "the superuser's"
IS_READY = ["pg_isready", "--quiet", f"--host={initdb.SOCKETS}", "--port=5432", "--dbname=postgres"]
"""PostgreSQL's own word on whether it takes logins."""
USER = "nobody" if os.geteuid() == 0 else getpass.getuser()
"""PostgreSQL refuses to be root; `nobody` is on every machine."""

PROGRAMS: ContextVar[str] = ContextVar("PROGRAMS", default="")
"""The folder of PostgreSQL's programs, where it is not the machine's own."""


@dataclass(frozen=True)
class Files:
    """The Pod's folders on this machine; `run` calls a program of the image with its paths put right."""

    root: Path
    port: int
    ready_port: int = field(default_factory=free_port)

    @property
    def mount(self) -> Path:
        return self.root / "data"

    def words(self, command: list[str]) -> list[str]:
        places = {
            initdb.MOUNT: self.mount,
            initdb.CONFIG: self.root / "config",
            initdb.SUPERUSER_FILES: self.root / "superuser",
            server_tls.FILES: self.root / "tls",
            initdb.TRIAL: self.root / "tmp" / "trial",
            initdb.PROGRAM: self.root / "program" / "postgres-init",
            initdb.SOCKETS: self.root / "sockets",
            server_log.FILES: self.root / "tmp" / "logs",
        }
        out = []
        for word in command:
            for ours, here in places.items():
                word = word.replace(ours, str(here))
            word = word.replace(f"--ready={serve.READY_PORT}", f"--ready={self.ready_port}")
            out.append(word.replace("port=5432", f"port={self.port}"))
        return out

    def start(self, command: list[str], *, log: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words(command),
            env={"PATH": programs(), "LANG": "C.UTF-8", "PGDATA": str(self.mount / "pgdata")},
            cwd=self.root,
            user=USER if os.geteuid() == 0 else None,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def run(self, command: list[str]) -> int:
        return self.start(command).wait(timeout=60)

    def server(self) -> int:
        """The number of the server's process, by the file in its data."""
        return int((self.mount / "pgdata" / "postmaster.pid").read_text().split()[0])

    def install(self) -> None:
        """What the init container `install` does, whose image has the program and nothing else."""
        # By the tests' own user: whoever runs the server may not enter the cache.
        subprocess.run([postgres_init.program(), *self.words(initdb.INSTALL[1:])], check=True, timeout=60)

    def configure(self, values: Mapping[str, str]) -> None:
        """What the ConfigMap says of the parameters."""
        (self.root / "config" / initdb.PARAMETERS).write_text(parameters.conf(values))

    @contextmanager
    def running(self, *settings: str, log_format: str = "Text") -> Iterator[None]:
        """One life of the Pod: the init containers, then a server that answers; stopped at the end.

        All statements are in `server.log`, but for those of one who turns that off. `settings` stand on its
        command line, NAME=VALUE each: no file and no ALTER SYSTEM changes these. `log_format` is that of
        `spec.logging`.
        """
        with (self.root / "server.log").open("ab") as log:
            assert self.start(initdb.INITDB, log=log.fileno()).wait(timeout=60) == 0
            words = [word for each in ("log_statement=all", *settings) for word in ("-c", each)]
            cr = {"spec": {"logging": {"format": log_format}}}
            command = serve.command(cr, [*workload.SERVER, *words], seconds=60)
            process = self.start(command, log=log.fileno())
            try:
                deadline = time.monotonic() + 30
                while page(self) != 200:
                    assert process.poll() is None, (self.root / "server.log").read_text()
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                yield
                assert self.run(workload.STOP) == 0
                assert process.wait(timeout=30) == 0
            finally:
                process.kill()
                process.wait()


def page(files: Files, path: str = "/", *, seconds: float = 5.0) -> int:
    """The status with which the program answers the kubelet; 0 where nobody does in time."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{files.ready_port}{path}", timeout=seconds) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def programs() -> str:
    """PATH with PostgreSQL's programs, and where they are by themselves nothing else."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    path = PROGRAMS.get() or (str(debian[-1]) if debian else os.environ.get("PATH", "/usr/bin:/bin"))
    for name in ("initdb", "postgres", "pg_isready", "pg_ctl", "psql", "pg_controldata"):
        if shutil.which(name, path=path) is None:
            pytest.fail(f"{name} is missing: these tests run PostgreSQL's own programs")
    return path


@contextmanager
def files_of_a_pod() -> Iterator[Files]:
    """Folders of a Pod that was not started yet, gone in the end."""
    port = free_port()
    # Not pytest's folder, which only its own user may enter; short, for the socket's path.
    root = Path(tempfile.mkdtemp(prefix="kindling-"))
    try:
        root.chmod(0o755)
        for name in ("data", "config", "superuser", "program", "sockets", "tmp", "tls"):
            (root / name).mkdir()
            (root / name).chmod(0o777)
        (root / "config" / "pg_hba.conf").write_text(hba.DEFAULT)
        (root / "config" / "pg_ident.conf").write_text(config.IDENT.replace(" postgres ", f" {USER} "))
        (root / "superuser" / "password").write_text(SUPERUSER_PASSWORD)
        made = Files(root=root, port=port)
        made.configure({})
        made.install()
        yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def files() -> Iterator[Files]:
    with files_of_a_pod() as made:
        yield made


@pytest.fixture
def server(files: Files) -> Iterator[Files]:
    """A fresh server that answers."""
    with files.running():
        yield files

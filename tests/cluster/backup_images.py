"""The images `postgres` and `postgres-backup` on a container engine, with an S3 server: no cluster.

A Pod is two containers with shared volumes, as the StatefulSet has it; a run of a Job is one more. They are
on the host's network, so that the store on its loopback is there for them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psycopg
from kindling.kinds.postgresql.archiver import INIT

from infra.bootstrap.toolchain import Toolchain
from infra.components.images import operands
from infra.drivers.engine import ContainerEngine
from infra.processes import ProgramError
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import background
from tests.cluster.built_image import built
from tests.ports import free_port

DATA, SOCKETS = "/var/lib/postgresql/data", "/var/run/postgresql"
PGDATA = f"{DATA}/pgdata"
BUCKET, ACCESS, SECRET = "backups", "canary-access", "canary-secret-key"
PASSPHRASE = "canary-passphrase"
SUPERUSER_PASSWORD = "canary:super\\user"
READER, READER_SECRET = "reader", "canary-reader-key"
RUN_SECONDS = 120
INCREMENTAL = {"type": "incremental", "uid": "11111111-2222-3333-4444-555555555555", "target": "ns/db"}
"""What a backup run is asked for; the first is full all the same."""


def certificate(folder: Path, subject: str) -> None:
    """`tls.crt` and `tls.key` in the folder: one self-signed pair of localhost that is its own authority."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-subj", f"/CN={subject}", "-keyout", str(folder / "tls.key")]
    words += ["-addext", "subjectAltName=DNS:localhost", "-out", str(folder / "tls.crt")]
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Gateway:
    """The program of a store, which can be gone, or stand still."""

    words: list[str | Path]
    port: int
    log: Path
    _running: ExitStack = field(default_factory=ExitStack)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = self._running.enter_context(background(self.words, log=self.log))
        self._process = program.process

        def answers() -> bool:
            assert program.process.poll() is None, self.log.read_text()
            return listens(self.port)

        wait_until(answers, seconds=30, what=self.log.read_text)

    def stop(self) -> None:
        self._running.close()

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Nothing listens."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It takes connections, and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


def flip(file: Path) -> None:
    """Change a byte in the middle, or change it back."""
    with file.open("r+b") as handle:
        handle.seek(file.stat().st_size // 2)
        byte = handle.read(1)
        handle.seek(-1, 1)
        handle.write(bytes([byte[0] ^ 0xFF]))


class Store(Protocol):
    """What a Pod and its runs know of a store."""

    @property
    def ca(self) -> Path: ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be in no log and no message."""

    def options(self) -> dict[str, str]:
        """pgBackRest's, of this store alone."""

    def files(self) -> dict[str, str]:
        """What the options refer to, beside `ca.crt`."""

    def store(self, path: str, **changes: Any) -> dict[str, Any]:
        """What store.json says."""

    def mount(self, *, writes: bool) -> list[str]:
        """The words by which a container has the store, where that is a volume."""

    def segment(self, path: str, name: str) -> Path | None:
        """The file of a segment of the log; None where it is not in the store, or the store has no files."""


@dataclass(frozen=True)
class S3:
    """`folder` has the bucket's objects as files."""

    port: int
    folder: Path
    ca: Path
    gateway: Gateway
    secrets: tuple[str, ...] = (SECRET, READER_SECRET)

    def options(self) -> dict[str, str]:
        return {
            "repo1-type": "s3",
            "repo1-s3-bucket": BUCKET,
            "repo1-s3-endpoint": "localhost",
            "repo1-storage-port": str(self.port),
            "repo1-s3-region": "us-east-1",
            "repo1-s3-uri-style": "path",
            "repo1-s3-key": ACCESS,
            "repo1-s3-key-secret": SECRET,
        }

    def files(self) -> dict[str, str]:
        return {}

    def mount(self, *, writes: bool) -> list[str]:
        return []

    def segment(self, path: str, name: str) -> Path | None:
        found = list(self.folder.glob(f"{path[1:]}/archive/main/*/*/{name}-*"))
        return found[0] if found else None

    def store(self, path: str, **changes: Any) -> dict[str, Any]:
        """What store.json says."""
        return {
            "url": f"s3://{BUCKET}/prefix",
            "endpoint": f"https://localhost:{self.port}",
            "region": "us-east-1",
            "accessKeyId": ACCESS,
            "secretAccessKey": SECRET,
            "ca": True,
            "path": path,
            **changes,
        }


def new_pod(store: Store, scratch: Path) -> Pod:
    """One of this store, of which nothing is made yet."""
    engine = ContainerEngine.detect()
    name = f"kindling-backup-{secrets.token_hex(4)}"
    postgres, runner = (built(engine, operands()[image], name) for image in ("postgres", "postgres-backup"))
    return Pod(engine, postgres=postgres, runner=runner, store=store, scratch=scratch, name=name)


@contextmanager
def running_pod(store: Store, scratch: Path) -> Iterator[Pod]:
    """One with a server that runs and archives; gone in the end."""
    made = new_pod(store, scratch)
    try:
        made.create()
        made.start()
        yield made
    finally:
        made.destroy()


@contextmanager
def s3(folder: Path) -> Iterator[S3]:
    """VersityGW over a folder, with a bucket and a user who may read it."""
    program = Toolchain().ensure("versitygw")
    for name in ("data", "marks", "users", "tls"):
        (folder / name).mkdir(parents=True)
    (folder / "data" / BUCKET).mkdir()
    certificate(folder / "tls", "store")
    port = free_port()
    words: list[str | Path] = [program, "--port", f"127.0.0.1:{port}", "--access", ACCESS, "--secret", SECRET]
    words += [
        "--cert",
        folder / "tls/tls.crt",
        "--key",
        folder / "tls/tls.key",
        "--iam-dir",
        folder / "users",
    ]
    words += ["--quiet", "posix", "--sidecar", folder / "marks", folder / "data"]
    gateway = Gateway(words, port, folder / "log")
    gateway.start()
    try:
        made = S3(port, folder / "data" / BUCKET, folder / "tls/tls.crt", gateway)
        _reader(program, made)
        yield made
    finally:
        gateway.stop()


def _reader(program: Path, server: S3) -> None:
    url = f"https://localhost:{server.port}"
    admin: list[str | Path] = [program, "admin", "--allow-insecure", "-a", ACCESS, "-s", SECRET, "-er", url]
    user = ["create-user", "-a", READER, "-s", READER_SECRET, "-r", "user"]
    subprocess.run([*admin, *user], check=True, capture_output=True, timeout=60)
    allowed = {
        "Effect": "Allow",
        "Principal": [READER],
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"],
    }
    client(server).put_bucket_policy(
        Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    )


def client(server: S3) -> Any:
    """A client of the store, as its owner."""
    import botocore.session

    return botocore.session.get_session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=f"https://localhost:{server.port}",
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        verify=str(server.ca),
    )


@dataclass(frozen=True)
class Ended:
    """How a run ended: its status, its termination message, what is in its log."""

    status: int
    said: dict[str, Any]
    log: str

    @property
    def reason(self) -> str:
        return str(self.said["reason"])


@dataclass
class Pod:
    """One database with its archiver, and the runs on it. All that it makes begins with its `name`."""

    engine: ContainerEngine
    postgres: str
    runner: str
    store: Store
    scratch: Path
    name: str = field(default_factory=lambda: f"kindling-backup-{secrets.token_hex(4)}")
    port: int = field(default_factory=free_port)
    archiver_port: int = field(default_factory=free_port)

    @property
    def path(self) -> str:
        return f"/prefix/ns/{self.name}/1"

    @property
    def tls(self) -> Path:
        """The folder of its own certificate: databases may share `scratch`."""
        return self.scratch / self.name

    def config(self, *, host: bool, path: str = "", **changes: str) -> str:
        """pgbackrest.conf: with `host` for a run, which has the database elsewhere, else for the Pod."""
        tls = "/etc/kindling/backup/tls"
        values = {
            **self.store.options(),
            "repo1-path": path or self.path,
            "repo1-storage-ca-file": "/etc/kindling/backup/ca.crt",
            "repo1-cipher-type": "aes-256-cbc",
            "repo1-cipher-pass": PASSPHRASE,
            "repo1-bundle": "y",
            "repo1-block": "y",
            "repo1-retention-full": "2",
            "compress-type": "zst",
            "start-fast": "y",
            "process-max": "2",
            "archive-async": "y",
            "archive-timeout": "5",
            "io-timeout": "5",
            "log-level-file": "off",
            "lock-path": "/tmp/pgbackrest",
            "spool-path": "/tmp/pgbackrest",
            **changes,
        }
        lines = ["[global]", *(f"{name}={value}" for name, value in values.items())]
        if host:
            lines += [
                "[main]",
                "pg1-host=localhost",
                "pg1-host-type=tls",
                f"pg1-host-port={self.archiver_port}",
            ]
            lines += [f"pg1-host-{sort}-file={tls}.crt" for sort in ("ca", "cert")]
            lines += [f"pg1-host-key-file={tls}.key"]
        else:
            lines += [f"tls-server-{sort}-file={tls}.crt" for sort in ("ca", "cert")]
            lines += [f"tls-server-key-file={tls}.key", "tls-server-auth=main=main"]
            lines += ["tls-server-address=127.0.0.1", f"tls-server-port={self.archiver_port}", "[main]"]
        lines += [f"pg1-path={PGDATA}", f"pg1-socket-path={SOCKETS}", f"pg1-port={self.port}"]
        return "\n".join([*lines, "pg1-user=kindling", "pg1-database=postgres", ""])

    def put(self, volume: str, files: Mapping[str, str]) -> None:
        """Make a volume's files again, with the modes and owners of a Secret's in a Pod."""
        folder = Path(self.scratch, secrets.token_hex(4))
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        words = ["--user=0:0", "--volume", f"{folder}:/from:ro", "--volume", f"{self.name}-{volume}:/to"]
        install = [
            "install",
            "-o",
            "0",
            "-g",
            "999",
            "-m",
            "0440",
            "-t",
            "/to",
            *(f"/from/{name}" for name in files),
        ]
        self.engine.run("run", "--rm", *words, self.runner, *install)
        shutil.rmtree(folder)

    def secrets_of(self, config: str) -> dict[str, str]:
        pair = {name: (self.tls / name).read_text() for name in ("tls.crt", "tls.key")}
        files = self.store.files()
        return {"pgbackrest.conf": config, "ca.crt": self.store.ca.read_text(), **files, **pair}

    def _mounts(self, *names: str) -> list[str]:
        places = {"data": DATA, "sockets": SOCKETS, "tmp": "/tmp", "archive": "/etc/kindling/backup"}
        return [word for name in names for word in ("--volume", f"{self.name}-{name}:{places[name]}")]

    def create(self) -> None:
        """The data directory, the Secret of the archiver."""
        self.tls.mkdir()
        certificate(self.tls, "main")
        self.put("archive", self.secrets_of(self.config(host=False)))
        mode = ["chmod", "1777", "/tmp", SOCKETS]
        self.engine.run("run", "--rm", "--user=0:0", *self._mounts("tmp", "sockets"), self.postgres, *mode)
        initdb = ["initdb", f"--pgdata={PGDATA}", "--username=kindling", "--auth=trust", "--data-checksums"]
        self.engine.run(
            "run", "--rm", *self._mounts("data", "tmp"), self.postgres, *initdb, "--encoding=UTF8"
        )

    def start(self, *, archive: bool = True, more: Mapping[str, str] | None = None) -> None:
        """The server, with the archiver beside it, and with `more` parameters."""
        mounts = [*self._mounts("data", "sockets", "tmp", "archive"), "--network=host", "--read-only"]
        push = "pgbackrest --config=/etc/kindling/backup/pgbackrest.conf --stanza=main archive-push %p"
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "archive_mode": "on" if archive else "off",
            "archive_timeout": "60",
            "archive_command": push,
            "unix_socket_directories": SOCKETS,
            **(more or {}),
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        named = ["run", "--detach", "--name"]
        self.engine.run(
            *named,
            f"{self.name}-server",
            *mounts,
            *self.store.mount(writes=True),
            self.postgres,
            *INIT,
            "postgres",
            "-D",
            PGDATA,
            *words,
        )
        server = ["pgbackrest", "--config=/etc/kindling/backup/pgbackrest.conf", "server"]
        self.engine.run(*named, f"{self.name}-archiver", *mounts, self.runner, *server)
        wait_until(self._answers, seconds=60, what=lambda: self.logs("server"))
        wait_until(lambda: listens(self.archiver_port), seconds=60, what=lambda: self.logs("archiver"))

    def logs(self, part: str) -> str:
        words: list[str | Path] = [self.engine.program, "logs", f"{self.name}-{part}"]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, env={**os.environ, **self.engine.env_vars()}
        )
        return f"{done.stdout}{done.stderr}"

    def _answers(self) -> bool:
        try:
            return bool(self.sql("SELECT true"))
        except psycopg.OperationalError:
            return False

    def stop(self) -> None:
        for part in ("server", "archiver"):
            self.engine.run("stop", "--time", "30", f"{self.name}-{part}")
            self.engine.run("rm", "--force", f"{self.name}-{part}")

    def destroy(self) -> None:
        for container in self.engine.run("ps", "--all", "--format", "{{.Names}}").split():
            if container.startswith(self.name):
                self.engine.run("rm", "--force", container)
        for volume in self.engine.run("volume", "ls", "--quiet").split():
            if volume.startswith(self.name):
                self.engine.run("volume", "rm", "--force", volume)
        for image in (self.postgres, self.runner):
            if image.endswith(f":{self.name}"):
                self.engine.remove_image(image)

    def sql(self, query: str, *, port: int = 0, database: str = "postgres") -> Any:
        """The first value; each call is a transaction of its own."""
        with psycopg.connect(
            host="127.0.0.1",
            port=port or self.port,
            user="kindling",
            dbname=database,
            sslmode="disable",
            autocommit=True,
        ) as connection:
            done = connection.execute(query.encode())
            row = done.fetchone() if done.description else None
            return row[0] if row else None

    def archived(self) -> str:
        """Close the segment, and wait until the server knows it in the store; returns its name.

        After three failures the server tries again in a minute.
        """
        name = self._close()
        query = f"SELECT last_archived_wal >= '{name}' FROM pg_stat_archiver"
        wait_until(lambda: bool(self.sql(query)), seconds=90, what=lambda: self.logs("server")[-3000:])
        return name

    def switch(self) -> str:
        """Close the segment, and wait until it is in the store; returns its name."""
        name = self._close()
        wait_until(lambda: bool(self.segment(name)), seconds=60, what=lambda: f"{name} is not in the store")
        return name

    def _close(self) -> str:
        # There is nothing to close of a segment that has nothing yet.
        self.sql("SELECT pg_logical_emit_message(true, 'test', '')")
        name = str(self.sql("SELECT pg_walfile_name(pg_current_wal_lsn())"))
        self.sql("SELECT pg_switch_wal()")
        return name

    def segment(self, name: str) -> Path | None:
        """A segment's file in the store."""
        return self.store.segment(self.path, name)

    def run(
        self,
        action: str,
        request: Mapping[str, Any],
        *,
        config: Mapping[str, str] | None = None,
        store: Mapping[str, Any] | None = None,
        secret: Mapping[str, str] | None = None,
        target: Mapping[str, str] | None = None,
        volume: str = "",
        progress_port: int = 0,
        seconds: float = RUN_SECONDS,
    ) -> Ended:
        """One run of a Job; `config` and `store` change what is right, `secret` the files themselves.

        `target` are those that open the server which databases are loaded into.
        """
        name = f"run-{secrets.token_hex(4)}"
        files = self.secrets_of(self.config(host=True, **(config or {})))
        files["store.json"] = json.dumps(self.store.store(self.path, **(store or {})))
        self.put(name, {**files, **(secret or {})})
        asked = self.scratch / name
        asked.mkdir()
        (asked / "request.json").write_text(json.dumps(request))
        asked.chmod(0o755)
        message = self.scratch / f"{name}.message"
        message.touch()
        message.chmod(0o666)
        words = ["run", "--rm", "--name", f"{self.name}-{name}", "--network=host", "--read-only"]
        words += ["--tmpfs", "/tmp:mode=1777", "--env", f"KINDLING_PROGRESS_PORT={progress_port}"]
        words += [
            "--volume",
            f"{self.name}-{name}:/etc/kindling/backup:ro",
            "--volume",
            f"{asked}:/etc/kindling/request:ro",
        ]
        words += ["--volume", f"{message}:/dev/termination-log"]
        words += ["--volume", f"{self.name}-{volume or name + '-data'}:{DATA}"]
        words += self.store.mount(writes=action in ("backup", "delete"))
        if target is not None:
            self.put("target", target)
            words += ["--volume", f"{self.name}-target:/etc/kindling/target:ro"]
        done = subprocess.run(
            [self.engine.program, *words, self.runner, "python3", "-m", "postgres_backup", action],
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, **self.engine.env_vars()},
        )
        log = done.stdout + done.stderr
        said = message.read_text()
        assert said, log
        for canary in (PASSPHRASE, SUPERUSER_PASSWORD, *self.store.secrets):
            assert canary not in said + log
        assert len(said) <= 4096
        print(said)
        return Ended(done.returncode, json.loads(said), log)

    @contextmanager
    def serving(self, volume: str) -> Iterator[int]:
        """A server on what was restored; its port."""
        port, name = free_port(), f"{self.name}-{volume}-server"
        words = ["-D", PGDATA, "-c", f"port={port}", "-c", "listen_addresses=127.0.0.1"]
        mounts = ["--volume", f"{self.name}-{volume}:{DATA}", "--network=host"]
        words += ["-c", "unix_socket_directories=/tmp"]
        self.engine.run("run", "--detach", "--name", name, *mounts, self.postgres, "postgres", *words)
        try:

            def answers() -> bool:
                try:
                    return bool(self.sql("SELECT true", port=port))
                except psycopg.OperationalError:
                    return False

            wait_until(answers, seconds=60, what=lambda: self.engine.run("logs", name))
            yield port
        finally:
            self.engine.run("rm", "--force", name)

    def listing(self, volume: str) -> list[str]:
        """What lies on a volume."""
        mounts = ["--volume", f"{self.name}-{volume}:{DATA}"]
        try:
            return self.engine.run("run", "--rm", *mounts, self.runner, "ls", DATA).split()
        except ProgramError:
            return []

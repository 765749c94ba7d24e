"""A real memcached with TLS and logins for the tests, run by the very command that our Pods run."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kindling.kinds import certificates
from kindling.kinds.certificates import Pair
from kindling.kinds.memcached import workload
from kindling.kinds.memcached.spec import read
from kindling.kube.resources import DEPLOYMENT

from tests.ports import free_port, wait_listening
from tests.unit.operator.caches import USER
from tests.unit.operator.go_programs import compiled
from tests.unit.operator.memcacheds import KIND, memcached, observed

NAME = "cache.ns.svc"
ROOT = "/etc/kindling"
"""Where our Pods have the files."""
ON = {"enabled": True}


def authority(entropy: bytes = b"one") -> Pair:
    return certificates.make_authority(entropy, name="authority", now=datetime.now(UTC) - timedelta(days=30))


def issued(
    by: Pair, *, host: str = NAME, life: timedelta = timedelta(days=2), entropy: bytes = b"pair"
) -> Pair:
    """A pair for this host. One that lives shortly has ended already."""
    now = datetime.now(UTC) if life > timedelta(hours=1) else datetime.now(UTC) - timedelta(days=1)
    return certificates.make_server(entropy, authority=by, name="cache", hosts=[host], now=now, life=life)


@dataclass(frozen=True)
class SecuredCache:
    """A memcached of this machine; `process` is the name of its process, which no other has."""

    port: int
    folder: Path
    tls: bool
    auth: bool
    process: str

    def put(self, pair: Pair) -> None:
        """As the kubelet does: from one moment to the next."""
        for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
            self.write(self.folder / "tls" / name, text)

    def logins(self, *passwords: str) -> None:
        lines = "".join(f"memcached:{password}\n" for password in passwords)
        self.write(self.folder / "auth" / "users", lines)

    def write(self, path: Path, text: str) -> None:
        """Replaces the file at once."""
        new = path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o644)
        new.replace(path)

    def said(self, *lines: str, password: str | None = None, trusts: str | None = None) -> bytes:
        """What it answers to each of these lines, each read before the next is sent.

        :raises OSError: where it takes no connection, or has no certificate of the authority.
        """
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), 10))
            if trusts is not None:
                context = ssl.create_default_context(cadata=trusts)
                connection = stack.enter_context(context.wrap_socket(connection, server_hostname=NAME))
            answer = b""
            if password is not None:
                words = f"memcached {password}"
                lines = (f"set login 0 0 {len(words)}\r\n{words}", *lines)
            for line in lines:
                connection.sendall(f"{line}\r\n".encode())
                part = connection.recv(65536)
                if not part:
                    raise ConnectionError("it closed the connection")
                answer += part
            return answer

    def accepts(self, password: str, *, trusts: str | None = None) -> bool:
        return self.said(password=password, trusts=trusts) == b"STORED\r\n"

    def container(self, name: str, **spec: Any) -> list[str]:
        """What our Pods run beside it in the container of that name, with the files where they are here."""
        tls, auth = {"enabled": self.tls}, {"enabled": self.auth}
        cr = memcached(containerPort=self.port, tls=tls, auth=auth, **spec)
        (found,) = (child for child in KIND.desired(cr, observed()) if child.type == DEPLOYMENT)
        containers = found.body["spec"]["template"]["spec"]["containers"]
        (words,) = (each["command"] for each in containers if each["name"] == name)
        return [
            str(word).replace(ROOT, str(self.folder)).replace("localhost:", "127.0.0.1:") for word in words
        ]


@contextmanager
def running(
    *, pair: Pair | None = None, passwords: tuple[str, ...] = (), listen: str = "127.0.0.1"
) -> Iterator[SecuredCache]:
    """On a free port, with this certificate and these logins."""
    program = shutil.which("memcached")
    if program is None:
        pytest.fail("memcached is missing: `python3 -m infra test` installs it")
    folder = Path(tempfile.mkdtemp(prefix="kindling-cache-"))
    try:
        port, process = free_port(), f"cache-{os.urandom(4).hex()}"
        cache = SecuredCache(port, folder, pair is not None, bool(passwords), process)
        for each in (folder, folder / "tls", folder / "auth"):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        if pair is not None:
            cache.put(pair)
        if passwords:
            cache.logins(*passwords)
        # The kernel names a process by the file that it was started from.
        (folder / process).symlink_to(program)
        cr = memcached(
            memoryMB=16, containerPort=port, tls={"enabled": cache.tls}, auth={"enabled": cache.auth}
        )
        words = [word.replace(ROOT, str(folder)) for word in workload.command(read(cr))]
        command = [str(folder / process), *words[1:], f"--user={USER}", f"--listen={listen}"]
        with subprocess.Popen(command) as server:
            try:
                wait_listening(port, server)
                yield cache
            finally:
                server.kill()
    finally:
        shutil.rmtree(folder)


@contextmanager
def reloading(cache: SecuredCache) -> Iterator[subprocess.Popen[bytes]]:
    """The program of our Pods that has it read its files again, which looks at them more often here."""
    _, *words = cache.container(workload.RELOAD)
    command = [str(compiled("memcached-exporter")), *words, f"--process={cache.process}", "--period=100ms"]
    with subprocess.Popen(command) as program:
        try:
            yield program
        finally:
            program.terminate()
            assert program.wait(timeout=30) != 1

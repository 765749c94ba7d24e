"""What answers where the caches are: the program as its Pod runs it, beside real caches and clients."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from kindling.kinds.memcached import discovery, servers
from kindling.kube.resources import DEPLOYMENT
from pymemcache.client.base import Client

from infra.bootstrap.toolchain.golang import Go
from tests.ports import free_port
from tests.unit.operator import caches
from tests.unit.operator.go_programs import IMAGE, compiled, serving
from tests.unit.operator.memcacheds import KIND, memcached, observed, running

KEY = "AmazonElastiCache:cluster"
LONGEST = 1024
LOOK_SECONDS = 2.5
"""Within which the program has read the file again."""
SECONDS = 15.0


def command() -> list[str]:
    """As its Pod has it."""
    made = KIND.desired(memcached(discovery=True), observed(running()))
    (found,) = (child for child in made if child.type == DEPLOYMENT and child.ref.name == "cache-discovery")
    (container,) = found.body["spec"]["template"]["spec"]["containers"]
    words: list[str] = container["command"]
    return words


@dataclass(frozen=True)
class Discovery:
    port: int
    file: Path

    def lists(self, *found: tuple[str, int]) -> None:
        """Have the file name these, as the kubelet does: all of it at once."""
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps([{"host": host, "port": port} for host, port in found]))
        written.rename(self.file)

    def said(self, line: str, *, ends: bytes = b"END\r\n") -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS) as raw:
            raw.sendall(line.encode() + b"\r\n")
            found = b""
            while not found.endswith(ends):
                chunk = raw.recv(4096)
                assert chunk, found
                found += chunk
            return found

    def cluster(self) -> tuple[int, list[str]]:
        """The version and the caches, read as pymemcache reads any answer."""
        client = Client(("127.0.0.1", self.port), timeout=SECONDS)
        try:
            found = client.raw_command(b"config get cluster", b"\n\r\nEND\r\n")
        finally:
            client.close()
        head, version, nodes = found.decode().split("\n")
        assert head == f"CONFIG cluster 0 {len(version) + len(nodes) + 2}\r"
        return int(version), nodes.split(" ")


@contextmanager
def answering(file: Path, *found: tuple[str, int]) -> Iterator[Discovery]:
    port = free_port()
    name, word, *options = command()
    assert options == [f"--listen=:{discovery.PORT}", f"--servers=/servers/{servers.JSON}"]
    made = Discovery(port, file)
    made.lists(*found)
    with serving(name, [word, f"--listen=127.0.0.1:{port}", f"--servers={file}"], port=port):
        yield made


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_cache_by_its_name_its_address_and_its_port(tmp_path: Path) -> None:
    listed = [("localhost", 11211), ("10.0.0.1", 80), ("fd00::1", 11211), ("nowhere.invalid", 1)]
    with answering(tmp_path / "list", *listed) as it:
        version, nodes = it.cluster()
        assert nodes[1:] == ["10.0.0.1|10.0.0.1|80", "fd00::1|fd00::1|11211", "nowhere.invalid||1"]
        name, address, port = nodes[0].split("|")
        assert (name, port) == ("localhost", "11211")
        assert address in ("127.0.0.1", "::1"), "some clients connect to nothing else"
        assert abs(version - time.time()) < 60


def test_the_version_rises_with_each_change_and_with_nothing_else(tmp_path: Path) -> None:
    with answering(tmp_path / "list", ("10.0.0.1", 80)) as it:
        first = it.cluster()
        time.sleep(LOOK_SECONDS)
        assert it.cluster() == first
        seen = [first[0]]
        for number in range(2, 5):
            it.lists(("10.0.0.1", 80), ("10.0.0.2", number))
            until(lambda number=number: it.cluster()[1][-1] == f"10.0.0.2|10.0.0.2|{number}")  # type: ignore[misc]
            seen.append(it.cluster()[0])
        assert seen == sorted(set(seen))


@pytest.mark.parametrize("text", ["", "[]", "{", '[{"host": 1}]'])
def test_what_cannot_be_read_changes_nothing(tmp_path: Path, text: str) -> None:
    with answering(tmp_path / "list", ("10.0.0.1", 80)) as it:
        before = it.cluster()
        it.file.write_text(text)
        time.sleep(LOOK_SECONDS)
        assert it.cluster() == before
        it.file.unlink()
        time.sleep(LOOK_SECONDS)
        assert it.cluster() == before
        it.lists(("10.0.0.2", 80))
        until(lambda: it.cluster()[1] == ["10.0.0.2|10.0.0.2|80"])


def test_it_takes_no_connection_before_there_is_a_list(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "list"
    made = Discovery(port, file)

    def connects() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    name, word, *_ = command()
    with ExitStack() as stack:
        process = subprocess.Popen([compiled(name), word, f"--listen=127.0.0.1:{port}", f"--servers={file}"])
        stack.callback(process.wait, 10)
        stack.callback(process.terminate)
        time.sleep(1.0)
        assert not connects()
        made.lists(("10.0.0.1", 80))
        until(connects)
        assert made.cluster()[1] == ["10.0.0.1|10.0.0.1|80"]


def test_names_and_the_clock(tmp_path: Path) -> None:
    """In Go, beside a copy of the program: no test is to change an image's content."""
    module = tmp_path / "module"
    shutil.copytree(IMAGE / "memcached-exporter", module)
    shutil.copy(Path(__file__).parent / "go_tests" / "discovery_test.go", module)
    env = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
    done = subprocess.run(
        [Go.ensure().program, "test", "-count=1", "-v", "."],
        cwd=module,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS") == 3


def test_what_older_clients_ask_and_what_none_is_to_ask(tmp_path: Path) -> None:
    with answering(tmp_path / "list", ("10.0.0.1", 80)) as it:
        version, nodes = it.cluster()
        text = f"{version}\n{nodes[0]}\n"
        assert it.said(f"get {KEY}").decode() == f"VALUE {KEY} 0 {len(text)}\r\n{text}\r\nEND\r\n"
        assert it.said("version", ends=b"\r\n") == b"VERSION 1.4.14\r\n"
        for line in (f"gets {KEY}", "get other", "set a 0 0 1", "stats", "config get other", "flush_all"):
            assert it.said(line, ends=b"\r\n") == b"ERROR\r\n", "it keeps no items"
        with socket.create_connection(("127.0.0.1", it.port), timeout=SECONDS) as raw:
            raw.sendall(b"config get cluster\r\nconfig get cluster\r\nquit\r\n")
            assert b"".join(iter(lambda: raw.recv(4096), b"")).count(b"END\r\n") == 2


def test_a_question_without_an_end_ends_the_connection_and_a_silent_client_is_in_nobodys_way(
    tmp_path: Path,
) -> None:
    with answering(tmp_path / "list", ("10.0.0.1", 80)) as it, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", it.port), timeout=SECONDS))
        raw = stack.enter_context(socket.create_connection(("127.0.0.1", it.port), timeout=SECONDS))
        raw.sendall(b"x" * 4 * LONGEST)
        with suppress(ConnectionResetError):
            assert raw.recv(100) == b""
        assert it.cluster()[1] == ["10.0.0.1|10.0.0.1|80"]


def test_each_cache_holds_the_list_too_and_again_once_it_is_emptied(tmp_path: Path) -> None:
    """AWS's client for Java asks the caches, by a key."""
    with ExitStack() as stack:
        ports = [stack.enter_context(caches.running("127.0.0.1")).port for _ in range(2)]
        clients = [Client(("127.0.0.1", port), timeout=SECONDS) for port in ports]
        it = stack.enter_context(answering(tmp_path / "list", ("localhost", ports[0]), ("127.0.0.1", 1)))

        def held(client: Client) -> str:
            return (client.get(KEY) or b"").decode()

        def right(client: Client) -> bool:
            version, nodes = it.cluster()
            return held(client) == f"{version}\n{' '.join(nodes)}\n"

        until(lambda: right(clients[0]))
        assert held(clients[1]) == ""
        it.lists(*(("127.0.0.1", port) for port in ports))
        until(lambda: all(map(right, clients)))
        found = clients[0].raw_command(f"mg {KEY} t").decode()
        assert 0 < int(found.removeprefix("HD t")) <= 60, (
            "where nobody asks any more, no cache gives an old one"
        )
        clients[0].flush_all()
        assert held(clients[0]) == ""
        until(lambda: right(clients[0]))

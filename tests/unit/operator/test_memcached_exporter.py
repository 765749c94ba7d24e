"""The exporter of operator/images/exporters, run as our Pods run it, beside a real memcached and others."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import prometheus_client.parser
import pytest
from kindling.kinds.memcached import workload
from kindling.kube.resources import DEPLOYMENT

from tests.ports import free_port
from tests.unit.operator import caches
from tests.unit.operator.go_programs import compiled, serving
from tests.unit.operator.memcacheds import KIND, memcached, observed

GARBAGE = [b"ERROR\r\n", b"STAT pid\r\nEND\r\n", b"STAT a 1\r\n", b"", b"STAT a 1\r\n" * 10000]


def command(port: int) -> list[str]:
    """What the container runs beside a memcached on that port."""
    cr = memcached(containerPort=port, exporter={"enabled": True})
    (found,) = (child for child in KIND.desired(cr, observed()) if child.type == DEPLOYMENT)
    _, exporter = found.body["spec"]["template"]["spec"]["containers"]
    words: list[str] = exporter["command"]
    return words


@contextmanager
def exporter(port: int) -> Iterator[str]:
    """Its page's address, beside a memcached on that port of this machine."""
    own = free_port()
    name, *words = command(port)
    words = [word.replace(f":{workload.EXPORTER_PORT}", f"127.0.0.1:{own}") for word in words]
    with serving(name, [*words, "--timeout=500ms"], port=own):
        yield f"http://127.0.0.1:{own}"


def page(address: str) -> dict[tuple[str, ...], float]:
    """The figures by name and the values of their labels; each metric is there once, with help and type."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    families = list(prometheus_client.parser.text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation and family.type in ("counter", "gauge") for family in families)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert len(found) == len([line for line in text.splitlines() if not line.startswith("#")])
    return found


def test_the_page_has_what_memcached_says() -> None:
    with caches.running("127.0.0.1") as cache, exporter(cache.port) as address:
        before = page(address)
        assert before["memcached_up",] == 1
        cache.talk("set a 0 0 5", "hello", ends=b"STORED\r\n")
        cache.talk("set b 0 0 5", "hello", ends=b"STORED\r\n")
        unique = cache.talk("gets a", ends=b"END\r\n").split()[4].decode()
        cache.talk(f"cas a 0 0 2 {unique}", "me", ends=b"STORED\r\n")
        cache.talk(f"cas a 0 0 2 {unique}", "me", ends=b"EXISTS\r\n")
        cache.talk("cas none 0 0 2 1", "me", ends=b"NOT_FOUND\r\n")
        cache.talk("get none", ends=b"END\r\n")
        cache.talk("delete b", ends=b"DELETED\r\n")
        after, counters = page(address), cache.counters()
    commands = {key[1:]: value for key, value in after.items() if key[0] == "memcached_commands_total"}
    assert commands["set", "hit"] == 2
    assert (commands["cas", "hit"], commands["cas", "badval"], commands["cas", "miss"]) == (1, 1, 1)
    assert (commands["delete", "hit"], commands["delete", "miss"]) == (1, 0)
    assert commands["get", "hit"] == counters["get_hits"] == 1
    assert commands["get", "miss"] == counters["get_misses"] == 1
    assert after["memcached_current_items",] == counters["curr_items"] == 1
    assert after["memcached_current_bytes",] == counters["bytes"]
    assert after["memcached_limit_bytes",] == 16 * 2**20
    assert after["memcached_max_connections",] == 1024
    assert after["memcached_connections_total",] > before["memcached_connections_total",]
    assert [key for key in after if key[0] == "memcached_version"] == [("memcached_version", version())]


def version() -> str:
    said = subprocess.run(["memcached", "--version"], check=True, capture_output=True, text=True, timeout=10)
    return said.stdout.split()[-1]


def test_without_memcached_the_page_says_so_and_it_recovers() -> None:
    with caches.running("127.0.0.1") as cache:
        port = cache.port
    with exporter(port) as address:
        assert page(address) == {("memcached_up",): 0}
        assert page(address) == {("memcached_up",): 0}
        with socket.create_server(("127.0.0.1", port)) as server:
            threading.Thread(
                target=answer, args=(server, b"STAT curr_items 7\r\nEND\r\n"), daemon=True
            ).start()
            assert page(address)["memcached_current_items",] == 7


@pytest.mark.parametrize("said", GARBAGE, ids=[text[:12].decode() or "nothing" for text in GARBAGE])
def test_what_is_no_memcached_is_no_memcached(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server, said), daemon=True).start()
        with exporter(server.getsockname()[1]) as address:
            started = time.monotonic()
            assert page(address) == {("memcached_up",): 0}
            assert time.monotonic() - started < 5


def test_a_version_cannot_break_the_page_and_a_word_is_no_figure() -> None:
    said = b'STAT version 1"\\2\r\nSTAT curr_items many\r\nSTAT bytes nan\r\nSTAT uptime 3\r\nEND\r\n'
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server, said), daemon=True).start()
        with exporter(server.getsockname()[1]) as address:
            found = page(address)
    assert found == {
        ("memcached_up",): 1,
        ("memcached_version", '1"\\2'): 1,
        ("memcached_uptime_seconds",): 3,
    }


def answer(server: socket.socket, said: bytes) -> None:
    """The same to everybody; the connection stays open for longer than the exporter waits."""
    kept = []
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            kept.append(connection)
            with contextlib.suppress(OSError):
                connection.recv(100)
                connection.sendall(said)


def test_it_serves_its_metrics_alone() -> None:
    with exporter(1) as address:
        for path in ("/", "/debug/pprof/", "/metrics/a"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{address}{path}", timeout=10)


@pytest.mark.parametrize("words", [["--listen"], ["--other"], ["more"], ["--timeout=soon"]])
def test_it_refuses_what_it_does_not_know(words: Sequence[str]) -> None:
    done = subprocess.run(
        [compiled("memcached-exporter"), *words], capture_output=True, text=True, timeout=10, check=False
    )
    assert done.returncode == 1
    assert done.stderr

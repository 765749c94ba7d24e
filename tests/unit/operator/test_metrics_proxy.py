"""What is in front of postgres_exporter: its metrics and nothing else, and it is started again."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.operator.go_programs import compiled, serving

# Serves its pid and what the file had when it started, and says which paths it was asked for.
EXPORTER = """
import http.server, os, pathlib, sys
port, file, log = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
read = file.read_text() if file.exists() else ""
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with log.open("a") as paths:
            paths.write(self.path + "\\n")
        if self.path == "/metrics":
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
        else:
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(f"{os.getpid()} {read}".encode())
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


class Proxy:
    def __init__(self, folder: Path) -> None:
        self.port, self.behind = free_port(), free_port()
        self.file, self.log = folder / "password", folder / "paths"
        self.file.write_text("first")

    @property
    def words(self) -> list[str]:
        own = [
            f"--listen=127.0.0.1:{self.port}",
            f"--exporter=127.0.0.1:{self.behind}",
            f"--file={self.file}",
        ]
        child = [sys.executable, "-c", EXPORTER, str(self.behind), str(self.file), str(self.log)]
        return [*own, "--", *child]

    def get(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
            found: str = answer.read().decode()
        return found

    def page(self, *, but: str = "") -> tuple[str, str]:
        """pid of the exporter and what it has read, once it answers, and is another one than this."""
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                pid, _, read = self.get().partition(" ")
                if pid != but:
                    return pid, read
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    made = Proxy(tmp_path)
    with serving("metrics-proxy", made.words, port=made.port):
        yield made


def is_running(pid: str) -> bool:
    return Path("/proc", pid).exists()


def test_it_serves_the_metrics_and_passes_nothing_else_on(proxy: Proxy) -> None:
    proxy.page()
    for path in ("/", "/probe?target=postgresql://u:p@db/x", "/metrics/", "/metrics/../probe", "//probe"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            proxy.get(path)
    proxy.get("/metrics?collect[]=a&target=b")
    assert set(proxy.log.read_text().splitlines()) == {"/metrics"}
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}/metrics", data=b"a", timeout=10)


def test_an_exporter_that_ends_is_started_again(proxy: Proxy) -> None:
    pid, _ = proxy.page()
    subprocess.run(["kill", "-KILL", pid], check=True, timeout=10)
    assert proxy.page(but=pid)[0] != pid


def test_it_reads_a_changed_file_and_no_missing_one(proxy: Proxy) -> None:
    pid, read = proxy.page()
    assert read == "first"
    proxy.file.write_text("second")
    other, read = proxy.page(but=pid)
    assert (read, is_running(pid)) == ("second", False)
    proxy.file.unlink()
    time.sleep(6)
    assert proxy.page() == (other, "second")


def test_an_exporter_that_does_not_start_is_said(tmp_path: Path) -> None:
    made = Proxy(tmp_path)
    words = [*made.words[:3], "--", str(tmp_path / "none")]
    with serving("metrics-proxy", words, port=made.port), pytest.raises(urllib.error.HTTPError, match="502"):
        made.get()


def test_it_ends_with_its_exporter(tmp_path: Path) -> None:
    made = Proxy(tmp_path)
    with serving("metrics-proxy", made.words, port=made.port) as process:
        pid, _ = made.page()
        process.terminate()
        assert process.wait(timeout=10) == 0
    assert not is_running(pid)


@contextmanager
def taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_it_refuses_what_it_cannot_do() -> None:
    with taken() as address:
        for words in (["--listen", "127.0.0.1:0"], ["--other"], [f"--listen={address}", "--", "sleep", "60"]):
            done = subprocess.run(
                [compiled("metrics-proxy"), *words], capture_output=True, text=True, timeout=20, check=False
            )
            assert (done.returncode, bool(done.stderr)) == (1, True)

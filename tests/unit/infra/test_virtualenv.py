"""Locked packages by real pip, from an index that has no page of one for a moment, or at all."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra.bootstrap import virtualenv
from infra.errors import KindlingError

NAME = "one_file-1.0-py3-none-any.whl"


def wheel() -> bytes:
    info = "one_file-1.0.dist-info"
    files = {
        "one_file.py": b"VALUE = 1\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: one-file\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(body).digest()) for name, body in files.items()}
    record = [f"{name},sha256={found.decode().rstrip('=')}," for name, found in digests.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return made.getvalue()


class Index:
    """Of one package, whose page is missing the first `missing` times that it is asked for."""

    def __init__(self) -> None:
        self.missing, self.asked = 0, 0
        self.content = wheel()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = index.content if self.path == f"/{NAME}" else f'<a href="/{NAME}">{NAME}</a>'.encode()
                if self.path != f"/{NAME}":
                    index.asked += 1
                    if index.asked <= index.missing:
                        self.send_error(404)
                        return
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    made = Index()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{made.server.server_port}/")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(virtualenv, "PAUSES_SECONDS", (0.1, 0.1, 0.1))
    yield made
    made.server.shutdown()
    made.server.server_close()


def install(tmp_path: Path, content: bytes) -> Path:
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"one-file==1.0 --hash=sha256:{hashlib.sha256(content).hexdigest()}\n")
    virtualenv.pip_install_into(target=tmp_path / "target", requirements=lock)
    return tmp_path / "target" / "one_file.py"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_page_that_is_missing_for_a_moment_is_asked_for_again(
    tmp_path: Path, index: Index, missing: int
) -> None:
    index.missing = missing
    assert install(tmp_path, index.content).read_text() == "VALUE = 1\n"
    assert index.asked == missing + 1


def test_one_that_stays_missing_is_an_error_with_its_remedy(tmp_path: Path, index: Index) -> None:
    index.missing = 99
    with pytest.raises(KindlingError, match="could not be installed") as raised:
        install(tmp_path, index.content)
    assert "No matching distribution found for one-file==1.0" in str(raised.value.why)
    assert index.asked == len(virtualenv.PAUSES_SECONDS) + 1


def test_another_content_is_refused_at_once(tmp_path: Path, index: Index) -> None:
    with pytest.raises(KindlingError, match="could not be installed"):
        install(tmp_path, b"another")
    assert index.asked == 1

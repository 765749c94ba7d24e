"""The page with a run's progress, over a real connection."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from postgres_backup import programs, progress_page


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(progress_page.VARIABLE, "0")
    monkeypatch.setattr(programs, "_latest", programs._Latest())
    server = progress_page.serve()
    assert server is not None
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def page(address: str) -> Any:
    with urlopen(f"{address}/progress", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)


def test_it_has_the_last_line_of_the_log(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert page(address) == {}
    programs.progress("download", bytes=10, of=40)
    programs.progress("download", bytes=20, of=40)
    found = page(address)
    seconds = found.pop("seconds")
    assert found == json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 0 <= seconds < 60


def test_seconds_are_of_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("postgres_backup.programs.time.monotonic", lambda: now)
    programs.progress("download", bytes=0, of=40)
    now = 107.0
    programs.progress("download", bytes=20, of=40)
    assert programs.latest()["seconds"] == 7.0
    programs.progress("replay", bytes=0, of=16)
    assert programs.latest()["seconds"] == 0.0


def test_nothing_else_is_there(address: str) -> None:
    for path in ("/", "/progress/", "/../etc/passwd"):
        with pytest.raises(HTTPError) as error:
            urlopen(f"{address}{path}", timeout=10)
        assert error.value.code == 404
        error.value.close()


def test_without_a_port_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setenv(progress_page.VARIABLE, str(taken.getsockname()[1]))
        assert progress_page.serve() is None
    assert "progress is in this log alone" in capsys.readouterr().err

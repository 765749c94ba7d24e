"""Downloads from a repository that behaves, breaks off, forgets, lies or is not there: a real HTTP server."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra.drivers import maven
from infra.drivers.maven import Artifact
from infra.errors import KindlingError
from infra.paths import REPOSITORY

CONTENT = random.Random(1).randbytes(3 * maven.MIB + 17)
ARTIFACT = Artifact(
    "org.example.tools:tool:1.2:tar.gz:bin", size=len(CONTENT), sha512=hashlib.sha512(CONTENT).hexdigest()
)
PLAIN = replace(ARTIFACT, coordinates="org.example.tools:tool:1.2:jar:")
PATH = "/maven2/org/example/tools/tool/1.2/tool-1.2-bin.tar.gz"


@dataclass
class Repository:
    """A repository with one file; `cuts` are how many bytes each next answer sends before it hangs up."""

    content: bytes = CONTENT
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repository]:
    """The repository that the environment names, with an empty cache."""
    repository = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            repository.asked.append((self.path, wanted))
            if repository.statuses:
                self.send_error(repository.statuses.pop(0))
                return
            if self.path != PATH:
                self.send_error(404)
                return
            start = (
                int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and repository.ranges else 0
            )
            body = repository.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: repository.cuts.pop(0)] if repository.cuts else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    repository.address = f"http://127.0.0.1:{http.server_port}/maven2"
    monkeypatch.setenv("KINDLING_MAVEN_REPOSITORY", repository.address + "/")
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(maven, "PAUSE_SECONDS", 0)
    yield repository
    http.shutdown()
    http.server_close()
    thread.join()


def left(file: Path) -> list[str]:
    return [path.name for path in file.parent.iterdir()]


def test_it_is_downloaded_once(server: Repository) -> None:
    file = maven.fetch(ARTIFACT)
    assert file.read_bytes() == CONTENT
    assert left(file) == ["tool-1.2-bin.tar.gz"]
    assert maven.fetch(ARTIFACT) == file
    assert server.asked == [(PATH, None)]


def test_a_broken_download_goes_on_where_it_ended(server: Repository) -> None:
    server.cuts = [2 * maven.MIB, 100]
    assert maven.fetch(ARTIFACT).read_bytes() == CONTENT
    asked = [None, f"bytes={2 * maven.MIB}-", f"bytes={2 * maven.MIB + 100}-"]
    assert [wanted for _, wanted in server.asked] == asked


def test_a_repository_that_cannot_go_on_starts_again(server: Repository) -> None:
    server.ranges = False
    server.cuts = [2 * maven.MIB]
    assert maven.fetch(ARTIFACT).read_bytes() == CONTENT


def test_the_next_run_goes_on_where_this_one_gave_up(server: Repository) -> None:
    server.cuts = [maven.MIB, *[0] * (maven.ATTEMPTS - 1)]
    with pytest.raises(KindlingError) as raised:
        maven.fetch(ARTIFACT)
    assert f"{maven.MIB} of {len(CONTENT)} bytes" in raised.value.why
    assert not ARTIFACT.location.exists()
    server.asked.clear()
    assert maven.fetch(ARTIFACT).read_bytes() == CONTENT
    assert server.asked == [(PATH, f"bytes={maven.MIB}-")]


def test_another_file_is_refused_and_not_kept(server: Repository) -> None:
    server.content = bytes(len(CONTENT))
    with pytest.raises(KindlingError) as raised:
        maven.fetch(ARTIFACT)
    assert ARTIFACT.sha512 in raised.value.why
    assert hashlib.sha512(server.content).hexdigest() in raised.value.why
    assert left(ARTIFACT.location) == []
    server.content = CONTENT
    assert maven.fetch(ARTIFACT).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [b"Please log in", CONTENT * 2], ids=["short", "long"])
def test_a_file_of_another_size_is_refused_unread(server: Repository, content: bytes) -> None:
    """As from a network that answers everything with a page of its own."""
    server.cuts = [maven.MIB, *[0] * (maven.ATTEMPTS - 1)]
    with pytest.raises(KindlingError, match="could not be downloaded"):
        maven.fetch(ARTIFACT)
    server.content, server.ranges = content, False
    with pytest.raises(KindlingError, match=f"is {len(content)} bytes long, not {len(CONTENT)}"):
        maven.fetch(ARTIFACT)
    server.content, server.ranges = CONTENT, True
    server.asked.clear()
    assert maven.fetch(ARTIFACT).read_bytes() == CONTENT
    assert server.asked == [(PATH, f"bytes={maven.MIB}-")]


def test_a_missing_file_is_asked_for_once(server: Repository) -> None:
    other = replace(ARTIFACT, coordinates="org.example.tools:tool:1.3:tar.gz:bin")
    with pytest.raises(KindlingError) as raised:
        maven.fetch(other)
    assert raised.value.what == "tool 1.3 could not be downloaded"
    assert f"{server.address}/org/example/tools/tool/1.3/tool-1.3-bin.tar.gz" in raised.value.why
    assert "404" in raised.value.why
    assert "KINDLING_MAVEN_REPOSITORY" in raised.value.remedy
    assert len(server.asked) == 1


def test_a_repository_out_of_breath_is_asked_again(server: Repository) -> None:
    server.statuses = [503, 502]
    assert maven.fetch(ARTIFACT).read_bytes() == CONTENT


def test_nobody_there_is_one_error(server: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        monkeypatch.setenv("KINDLING_MAVEN_REPOSITORY", f"http://127.0.0.1:{unheard.getsockname()[1]}")
        with pytest.raises(KindlingError, match="Connection refused"):
            maven.fetch(ARTIFACT)


def test_what_is_no_address_is_one_error(server: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINDLING_MAVEN_REPOSITORY", "central")
    with pytest.raises(KindlingError, match="central/org/example"):
        maven.fetch(ARTIFACT)


def test_two_at_a_time_download_once(server: Repository) -> None:
    with ThreadPoolExecutor(2) as pool:
        files = list(pool.map(maven.fetch, [ARTIFACT, ARTIFACT]))
    assert [file.read_bytes() == CONTENT for file in files] == [True, True]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("mirrors", "expected"),
    [
        ("", maven.CENTRAL),
        (
            "<mirror><mirrorOf>central</mirrorOf><url>https://m.example/r/</url></mirror>",
            "https://m.example/r",
        ),
        ("<mirror><mirrorOf>*</mirrorOf><url>https://m.example/r</url></mirror>", "https://m.example/r"),
        (
            "<mirror><mirrorOf>a, external:*</mirrorOf><url>https://m.example</url></mirror>",
            "https://m.example",
        ),
        ("<mirror><mirrorOf>*,!central</mirrorOf><url>https://m.example</url></mirror>", maven.CENTRAL),
        ("<mirror><mirrorOf>other</mirrorOf><url>https://m.example</url></mirror>", maven.CENTRAL),
        # What Maven itself comes with.
        (
            "<mirror><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>",
            maven.CENTRAL,
        ),
    ],
)
@pytest.mark.parametrize("namespace", ["", ' xmlns="http://maven.apache.org/SETTINGS/1.2.0"'])
def test_mavens_own_mirror_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: str, mirrors: str, expected: str
) -> None:
    monkeypatch.delenv("KINDLING_MAVEN_REPOSITORY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert maven.repository() == maven.CENTRAL
    (tmp_path / ".m2").mkdir()
    settings = f"<settings{namespace}><mirrors>{mirrors}</mirrors></settings>"
    (tmp_path / ".m2" / "settings.xml").write_text(settings)
    assert maven.repository() == expected
    monkeypatch.setenv("KINDLING_MAVEN_REPOSITORY", "https://own.example/")
    assert maven.repository() == "https://own.example"


def test_settings_that_are_no_xml_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINDLING_MAVEN_REPOSITORY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(KindlingError, match=r"settings\.xml cannot be read"):
        maven.repository()


def test_the_brokers_image_is_made_of_what_its_folder_pins() -> None:
    folder = REPOSITORY / "infra/images/pulsar"
    artifact = maven.pinned(folder)
    assert artifact is not None
    assert f"type=bind,source={artifact.location.name}," in (folder / "Containerfile").read_text()
    assert artifact.name == "pulsar-server-distribution 4.0.4"
    assert len(bytes.fromhex(artifact.sha512)) == 64


def test_most_images_need_nothing(tmp_path: Path) -> None:
    assert maven.pinned(tmp_path) is None


def test_a_file_without_a_classifier_is_where_every_repository_has_it() -> None:
    assert PLAIN.path == "org/example/tools/tool/1.2/tool-1.2.jar"
    assert f"/maven2/{ARTIFACT.path}" == PATH

"""The kubectl plugin of a release: Python runs it, the same bytes wherever it is made, krew's manifest."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cli.arguments import Command
from infra.cli.commands import release
from infra.distribution import plugin
from infra.errors import KindlingError
from infra.paths import REPOSITORY

VERSION, COMMIT = "1.2.3", "a" * 40
ARCHIVE = f"kubectl-kindling-{VERSION}.tar.gz"
SOURCES = sorted((REPOSITORY / plugin.FOLDER / plugin.PACKAGE).rglob("*.py"))


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return plugin.files(REPOSITORY, version=VERSION, commit=COMMIT)


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a file on PATH: by its first line, in an environment of its own."""
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": "/",
    }
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=60)


def test_it_runs_by_its_first_line(made: dict[str, bytes], tmp_path: Path) -> None:
    release._write({plugin.NAME: made[plugin.NAME], "plain.txt": b"x"}, tmp_path / "out")
    done = run(tmp_path / "out" / plugin.NAME, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: kubectl kindling ")
    assert not os.access(tmp_path / "out" / "plain.txt", os.X_OK)


def test_it_has_each_source_and_the_release_of_it(made: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(made[plugin.NAME])) as found:
        texts = {name: found.read(name).decode() for name in found.namelist()}
    folder = REPOSITORY / plugin.FOLDER
    sources = {path.relative_to(folder).as_posix(): path.read_text() for path in SOURCES}
    values: dict[str, Any] = {}
    exec(texts.pop(plugin.RELEASE), values)
    assert (values["VERSION"], values["COMMIT"]) == (VERSION, COMMIT)
    assert texts.pop("__main__.py") == plugin.ENTRY
    sources.pop(plugin.RELEASE)
    assert texts == sources
    assert len(texts) > 15


def test_the_same_sources_make_the_same_bytes(made: dict[str, bytes], tmp_path: Path) -> None:
    """With other times, and with what Python leaves in the folders."""
    for path in SOURCES:
        copy = tmp_path / path.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (0, 0))
        (copy.parent / "__pycache__").mkdir(exist_ok=True)
        (copy.parent / "__pycache__" / "x.pyc").write_bytes(b"x")
    (tmp_path / "LICENSE").write_bytes((REPOSITORY / "LICENSE").read_bytes())
    assert plugin.files(tmp_path, version=VERSION, commit=COMMIT) == made
    other = plugin.files(tmp_path, version="1.2.4", commit=COMMIT)
    assert other[plugin.NAME] != made[plugin.NAME]


def test_a_checkout_that_lacks_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(KindlingError, match=r"operator/plugin/kubectl_kindling/release\.py is missing"):
        plugin.files(tmp_path, version=VERSION, commit=COMMIT)


def test_the_archive_has_the_program_as_one_that_can_be_run(made: dict[str, bytes]) -> None:
    with tarfile.open(fileobj=io.BytesIO(made[ARCHIVE]), mode="r:gz") as found:
        members = {member.name: member for member in found}
        file = found.extractfile(plugin.NAME)
        assert file is not None
        assert file.read() == made[plugin.NAME]
    assert members.keys() == {"LICENSE", plugin.NAME}
    assert members[plugin.NAME].mode == 0o755
    assert members["LICENSE"].mode == 0o644


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("", ARCHIVE),
        ("https://downloads.example.com/1.2.3", f"https://downloads.example.com/1.2.3/{ARCHIVE}"),
        ("https://downloads.example.com/1.2.3/", f"https://downloads.example.com/1.2.3/{ARCHIVE}"),
    ],
)
def test_krews_manifest_is_of_the_archive(url: str, uri: str) -> None:
    """The fields that krew requires of a manifest, and its rules for them."""
    made = plugin.files(REPOSITORY, version=VERSION, commit=COMMIT, url=url)
    found = yaml.safe_load(made["krew.yaml"])
    assert found["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert found["kind"] == "Plugin"
    assert found["metadata"]["name"] == plugin.NAME.removeprefix("kubectl-")
    assert found["spec"]["version"] == f"v{VERSION}"
    assert len(found["spec"]["shortDescription"]) <= 50
    for path in sorted((REPOSITORY / "crds").glob("*.yaml")):
        assert yaml.safe_load(path.read_text())["spec"]["names"]["kind"] in found["spec"]["description"]
    (platform,) = found["spec"]["platforms"]
    assert platform["uri"] == uri
    assert platform["sha256"] == hashlib.sha256(made[ARCHIVE]).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(made[ARCHIVE]), mode="r:gz") as archive:
        names = set(archive.getnames())
    assert {item["from"] for item in platform["files"]} == names
    assert platform["bin"] in names
    (expression,) = platform["selector"]["matchExpressions"]
    assert expression["values"] == ["darwin", "linux"]


@pytest.mark.parametrize(
    "url",
    ["http://downloads.example.com", "downloads", "https://", "https://user:word@downloads.example.com"],
)
def test_an_address_that_krew_would_not_take(url: str, tmp_path: Path) -> None:
    with pytest.raises(KindlingError) as raised:
        release.run(Command("release", version=VERSION, url=url, output=tmp_path / "out"))
    assert raised.value.what == f"--url cannot be `{url}`"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY / plugin.FOLDER)))
def test_it_needs_the_standard_library_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            names.append(str(node.module))
        for name in names:
            assert name.partition(".")[0] in {*sys.stdlib_module_names, plugin.PACKAGE}, (path, name)


def test_an_older_python_can_read_the_entry() -> None:
    """What runs before the check of its version has nothing that Python 3.6 could not read."""
    for name in ("__init__.py", "__main__.py"):
        text = (REPOSITORY / plugin.FOLDER / plugin.PACKAGE / name).read_text()
        ast.parse(text, feature_version=(3, 6))
        assert "from __future__" not in text
    ast.parse(plugin.ENTRY, feature_version=(3, 6))

"""Content hashes and hand-written archives: the two things that name and carry images."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from infra.bootstrap import image_archive
from infra.drivers.images import content_hash


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    (folder / "src").mkdir(parents=True)
    (folder / "Containerfile").write_text("FROM scratch\n")
    (folder / "src" / "a.py").write_text("a = 1\n")
    return folder


def test_times_and_caches_do_not_count(context: Path) -> None:
    before = content_hash(context)
    os.utime(context / "src" / "a.py", (0, 0))
    (context / "src" / "__pycache__").mkdir()
    (context / "src" / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert content_hash(context) == before


@pytest.mark.parametrize("change", ["byte", "name", "mode", "new", "moved boundary", "extra"])
def test_everything_that_reaches_the_image_counts(context: Path, change: str) -> None:
    before, extra = content_hash(context), []
    file = context / "src" / "a.py"
    if change == "byte":
        file.write_text("a = 2\n")
    elif change == "name":
        file.rename(file.with_name("b.py"))
    elif change == "mode":
        file.chmod(0o755)
    elif change == "new":
        (context / "new").touch()
    elif change == "moved boundary":
        # The same bytes in a row, cut into files at another place.
        (context / "Containerfile").write_text("FROM scratch\na")
        file.write_text(" = 1\n")
    else:
        extra = ["postgres:17"]
    assert content_hash(context, extra=extra) != before


def test_an_archive_is_what_engines_read(tmp_path: Path) -> None:
    binary = tmp_path / "tool"
    binary.write_bytes(b"\x7fELF")
    binary.chmod(0o755)
    images = [
        image_archive.SmallImage(
            "example/tool:1", {"/usr/local/bin/tool": binary}, entrypoint=("/usr/local/bin/tool",)
        ),
        image_archive.SmallImage("example/box:1", {"/bin/box": binary}, links={"/bin/sh": "box"}),
    ]
    target = tmp_path / "out" / "images.tar"
    image_archive.write(target, images)
    with tarfile.open(target) as tar:

        def member(name: str) -> bytes:
            content = tar.extractfile(name)
            assert content is not None
            return content.read()

        manifest = json.loads(member("manifest.json"))
        assert [entry["RepoTags"] for entry in manifest] == [["example/tool:1"], ["example/box:1"]]
        for entry in manifest:
            config = json.loads(member(entry["Config"]))
            assert entry["Config"] == hashlib.sha256(member(entry["Config"])).hexdigest() + ".json"
            digests = [f"sha256:{hashlib.sha256(member(layer)).hexdigest()}" for layer in entry["Layers"]]
            assert config["rootfs"]["diff_ids"] == digests
    assert [path.name for path in target.parent.iterdir()] == ["images.tar"]


def test_the_same_image_is_the_same_bytes(tmp_path: Path) -> None:
    binary = tmp_path / "tool"
    binary.write_bytes(b"\x7fELF")
    image = image_archive.SmallImage("example/tool:1", {"/tool": binary})
    image_archive.write(tmp_path / "one.tar", [image])
    os.utime(binary, (1, 1))
    image_archive.write(tmp_path / "two.tar", [image])
    layers = [
        json.loads(_read(tmp_path / name, "manifest.json"))[0]["Layers"] for name in ("one.tar", "two.tar")
    ]
    assert layers[0] == layers[1]


def _read(path: Path, name: str) -> bytes:
    with tarfile.open(path) as tar:
        content = tar.extractfile(name)
        assert content is not None
        return content.read()

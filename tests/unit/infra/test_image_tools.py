"""Images of a program that the toolchain builds: what their tag counts, and what their build gets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import Toolchain
from infra.bootstrap.toolchain import build as building
from infra.bootstrap.toolchain.tools import TOOLS
from infra.components.images import BROKER, OBJECT_STORE, OPERATOR, operands
from infra.drivers import image_tools, images
from infra.errors import KindlingError
from infra.paths import REPOSITORY

FOLDER = REPOSITORY / OBJECT_STORE.context


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pinned module, which the toolchain takes for its own."""
    copy = tmp_path / "toolchain"
    shutil.copytree(building.FOLDER / "versitygw", copy / "versitygw")
    monkeypatch.setattr(building, "FOLDER", copy)
    return copy / "versitygw"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program in a cache that has nothing else."""
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))
    target = building.location(TOOLS["versitygw"])
    target.parent.mkdir(parents=True)
    target.write_bytes(b"\x7fELF")
    target.chmod(0o755)
    return target


def test_the_object_store_is_of_a_program_and_no_other_image_is() -> None:
    assert image_tools.named(FOLDER) == "versitygw"
    assert image_tools.counted(FOLDER) == [building.location(TOOLS["versitygw"]).parent.name]
    for source in (OPERATOR, BROKER, *operands().values()):
        assert image_tools.named(REPOSITORY / source.context) is None
        assert image_tools.counted(REPOSITORY / source.context) == []
        assert image_tools.program(REPOSITORY / source.context) is None


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_other_pins_of_the_program_are_another_image(modules: Path, file: str) -> None:
    before = OBJECT_STORE.digest()
    assert OBJECT_STORE.digest() == before
    pins = modules / file
    pins.write_text(pins.read_text() + "\n")
    assert OBJECT_STORE.digest() != before


def test_it_has_no_base_so_another_one_is_the_same_image() -> None:
    assert OBJECT_STORE.digest(base="registry.example/debian:13") == OBJECT_STORE.digest()
    assert BROKER.digest(base="registry.example/debian:13") != BROKER.digest()


class Engine:
    """Builds nothing, and looks at what it is given."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.build_args: dict[str, str] = {}

    def has_image(self, ref: str) -> bool:
        raise AssertionError(f"{ref}: it needs no base")

    def build(
        self, *, context: Path, containerfile: Path, tag: str, build_args: dict[str, str], platform: str
    ) -> None:
        self.build_args = build_args
        self.files = {
            path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in context.iterdir()
        }

    def save(self, ref: str, archive: Path) -> None:
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_text(ref)


def test_its_build_gets_the_program_and_no_base(program: Path) -> None:
    engine = Engine()
    assert images.object_store_tool() == "versitygw"
    images.build_archive(
        engine,  # type: ignore[arg-type]
        name=OBJECT_STORE.image,
        tag=OBJECT_STORE.digest(),
        context=FOLDER,
        containerfile=REPOSITORY / OBJECT_STORE.containerfile,
        build_args={},
    )
    assert engine.files["versitygw"] == (b"\x7fELF", 0o755)
    assert engine.files.keys() == {"versitygw", "Containerfile", "tool.toml"}
    assert engine.build_args == {}
    # What is left of the build is the archive, beside which nothing has to be there.
    assert [path.name for path in program.parent.iterdir()] == ["versitygw"]
    assert images.object_store_tool() is None


def test_a_program_that_nobody_knows_is_named(tmp_path: Path) -> None:
    (tmp_path / image_tools.FILE).write_text('name = "minio"\n')
    with pytest.raises(KindlingError, match="no tool is called `minio`"):
        image_tools.counted(tmp_path)
    with pytest.raises(KindlingError, match="no tool is called `minio`"):
        Toolchain().build_key("minio")

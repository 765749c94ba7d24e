"""`release`: what it refuses, each with the field, the value and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra import processes
from infra.cli.arguments import Command
from infra.cli.commands import release
from infra.distribution import files, notes, variants, versions
from infra.distribution.variants import Places, VariantError
from infra.distribution.yaml_writer import Either, When
from infra.errors import KindlingError
from tests.unit.infra.releases import IMAGES
from tests.unit.infra.repository import commit, new_repository, work_in

GOOD = tuple(IMAGES.values())
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n- soon\n\n## 1.2.3\n\n### Added\n\n- much\n\n## 1.2.2\n\n- less\n"
)
UPGRADING = "# Upgrading\n\n## Upgrade notes\n\n### 1.2.3\n\nNothing.\n\n## More\n\nx\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean checkout; to render its release is not what these tests are about."""
    folder = new_repository(tmp_path / "repository")
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / "docs/upgrading.md").write_text(UPGRADING)
    commit(folder)
    work_in(folder, monkeypatch)
    monkeypatch.setattr(files, "image_names", lambda: tuple(IMAGES))
    monkeypatch.setattr(files, "of", lambda source, root: {"a/b": repr(source).encode()})
    return folder


def run(output: Path, *, version: str = "1.2.3", images: tuple[str, ...] = GOOD, dirty: bool = False) -> str:
    release.run(Command("release", version=version, images=images, output=output, allow_dirty=dirty))
    return (output / "a/b").read_text()


def refused(output: Path, *, version: str = "1.2.3", images: tuple[str, ...] = GOOD) -> KindlingError:
    with pytest.raises(KindlingError) as raised:
        run(output, version=version, images=images)
    assert raised.value.why
    assert raised.value.remedy
    return raised.value


def test_of_a_clean_checkout(repository: Path, tmp_path: Path) -> None:
    text = run(tmp_path / "new/out")
    assert processes.run(["git", "rev-parse", "HEAD"], timeout=30, cwd=repository).strip() in text
    assert "uncommitted=[]" in text
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]


@pytest.mark.parametrize(
    "version", ["1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "latest", "", "1.2.3-01"]
)
def test_a_version_that_is_none(repository: Path, tmp_path: Path, version: str) -> None:
    error = refused(tmp_path / "out", version=version)
    assert error.what == f"--version cannot be `{version}`"
    assert "1.2.3" in error.remedy
    assert "v1" not in error.remedy


@pytest.mark.parametrize(
    ("version", "pre"), [("0.1.0", False), ("1.0.0-rc.1", True), ("1.0.0+build.7", False)]
)
def test_a_version_that_is_one(version: str, pre: bool) -> None:
    versions.check(version)
    assert versions.is_prerelease(version) is pre


@pytest.mark.parametrize(
    ("images", "what", "why"),
    [
        ((GOOD[0].partition("@")[0] + ":1.2.3", *GOOD[1:]), "kindling-operator:1.2.3", "under the same tag"),
        (("kindling-operator@sha256:" + "a" * 64, *GOOD[1:]), "kindling-operator@", "under the same tag"),
        ((*GOOD, f"other={GOOD[0]}"), "other=", "none of the images of a release"),
        ((*GOOD, "registry.example.com/nginx@sha256:" + "a" * 64), "nginx", "none of the images"),
        ((*GOOD, GOOD[0]), GOOD[0], "already"),
        (GOOD[1:], "--images lacks operator", "the operator runs them"),
    ],
)
def test_images_that_are_wrong(
    repository: Path, tmp_path: Path, images: tuple[str, ...], what: str, why: str
) -> None:
    error = refused(tmp_path / "out", images=images)
    assert what in error.what
    assert why in error.why


def test_a_mirror_names_its_images(repository: Path, tmp_path: Path) -> None:
    mirrored = f"mirror.example.com/x/op@sha256:{'e' * 64}"
    assert mirrored in run(tmp_path / "out", images=(f"operator={mirrored}", *GOOD[1:]))


def test_an_output_that_is_not_empty(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    run(tmp_path / "out")
    error = refused(tmp_path / "out")
    assert error.what == f"--output cannot be `{tmp_path / 'out'}`"
    (tmp_path / "file").write_text("")
    assert "--output" in refused(tmp_path / "file").what


@pytest.mark.parametrize(
    "file", ["infra/rbac.py", "crds/new.yaml", "CHANGELOG.md", "docs/upgrading.md", "integrations/new.yaml"]
)
def test_files_of_no_commit(repository: Path, tmp_path: Path, file: str) -> None:
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).write_text("changed\n")
    error = refused(tmp_path / "out")
    assert error.why == file
    assert "--allow-dirty" in error.remedy
    assert not (tmp_path / "out").exists()
    assert f"uncommitted=['{file}']" in run(tmp_path / "out", dirty=True)


def test_files_that_are_no_part_of_a_release(repository: Path, tmp_path: Path) -> None:
    (repository / "docs/guide.md").write_text("changed\n")
    assert "uncommitted=[]" in run(tmp_path / "out")


def test_no_commit_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare").mkdir()
    work_in(tmp_path / "bare", monkeypatch)
    monkeypatch.setattr(files, "image_names", lambda: tuple(IMAGES))
    assert refused(tmp_path / "out").what == "this checkout is of no commit"


def test_a_failure_leaves_nothing(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "of", lambda source, root: {"a": b"", "a/b": b""})
    with pytest.raises(OSError, match="a"):
        run(tmp_path / "out/there")
    assert list((tmp_path / "out").iterdir()) == []


def section(version: str, document: str = CHANGELOG) -> str:
    return notes.section(document, version, level=2, file="CHANGELOG.md")


def test_a_section_ends_at_the_next_of_its_level() -> None:
    assert section("1.2.3") == "### Added\n\n- much"
    assert section("1.2.2") == "- less"
    assert section("2.0.0-rc.1") == "- soon", "not released yet"
    assert section("1.2.3", CHANGELOG.replace("## 1.2.3", "## [1.2.3] - 2026-12-01")) == "### Added\n\n- much"


@pytest.mark.parametrize("version", ["2.0.0", "1.2", "1.2.30"])
def test_a_version_that_a_document_does_not_know(version: str) -> None:
    with pytest.raises(KindlingError, match="Unreleased") as raised:
        section(version)
    assert raised.value.what == f"CHANGELOG.md says nothing of version `{version}`"
    assert f"## {version}" in raised.value.why


def test_an_empty_section_says_nothing() -> None:
    with pytest.raises(KindlingError, match=re.escape("says nothing of version `3.0.0`")):
        section("3.0.0", "## 3.0.0\n\n## 2.0.0\n\n- x\n")


A, B, AB = frozenset("A"), frozenset("B"), frozenset("AB")


def condition(kinds: object) -> str:
    return f"any {kinds}"


def test_what_differs_by_kind_is_under_a_condition() -> None:
    found = variants.of_kinds(
        {AB: {"x": [1, 2, 4], "y": 1}, A: {"x": [1, 2], "y": 1}, B: {"x": [1, 3, 4], "y": 1}}, condition
    )
    some, both = When("any ['A']", 2), When("any ['B']", 4)
    without = When("and (any ['B']) (not (any ['A']))", 3)
    assert found == {"x": [1, some, both, without], "y": 1}


@pytest.mark.parametrize(
    "found", [{AB: {"x": 1}, A: {"x": 2}, B: {"x": 1}}, {AB: {"x": []}, A: {"x": [1]}, B: {"x": [1]}}]
)
def test_what_no_condition_expresses_is_an_error(found: variants.Renderings) -> None:
    with pytest.raises(VariantError):
        variants.of_kinds(found, condition)


PLACES = Places(over="places", mark="PLACE", listed="ALL")


def test_what_differs_by_namespace_is_made_for_each() -> None:
    assert PLACES.of({"x": [1, 2]}, {"x": [1, "of PLACE"]}) == {
        "x": [1, Either("places", ("of PLACE",), (2,))]
    }
    assert PLACES.of([1], [1, "ALL"]) == [1, "ALL"]


@pytest.mark.parametrize(
    ("wide", "narrow"), [([1], [2]), ([1, 2], [1]), ({"x": 1}, {"y": 1}), ("a", "PLACE")]
)
def test_another_difference_of_namespaces_is_an_error(wide: object, narrow: object) -> None:
    with pytest.raises(VariantError):
        PLACES.of(wide, narrow)

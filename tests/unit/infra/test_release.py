"""Releases: which files of a commit count, what a stack records of its own, which checkout may run one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra import release
from infra.errors import KindlingError
from infra.release import Release
from tests.unit.infra.repository import commit, git, new_repository, work_in

IMAGES = {"operator": f"registry.example/k/kindling-operator@sha256:{'a' * 64}"}
GOOD = Release("c" * 40, "d" * 64, IMAGES, "staging")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = new_repository(tmp_path / "repository")
    work_in(folder, monkeypatch)
    return folder


def test_what_is_written_is_read() -> None:
    assert release.parse(release.written(GOOD), name="x") == GOOD


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "it is not JSON"),
        ("[]", "an object of commit, contents, images and source"),
        ({"more": 1}, "an object of commit, contents, images and source"),
        ({"commit": "main"}, "`commit` must be a commit in full, 40 hex digits, not `main`"),
        ({"commit": 7}, "`commit` must be a commit in full, 40 hex digits, not `7`"),
        ({"contents": "c" * 63}, "`contents` must be 64 hex digits"),
        ({"source": "a b"}, "`source` must be the name of a stack, not `a b`"),
        ({"images": {}}, "`images` must be references by name"),
        ({"images": {"operator": "registry.example/k/operator:1"}}, "each HOST/PATH@sha256:DIGEST"),
        ({"images": {"operator": 3}}, "each HOST/PATH@sha256:DIGEST"),
    ],
)
def test_what_is_no_release_is_named(text: str | dict[str, Any], wrong: str) -> None:
    if isinstance(text, dict):
        text = json.dumps({**json.loads(release.written(GOOD)), **text})
    with pytest.raises(KindlingError) as raised:
        release.parse(text, name="releases/prod.json")
    assert raised.value.what == "releases/prod.json is no release"
    assert wrong in raised.value.why


@pytest.mark.parametrize(
    "file",
    ["crds/one.yaml", "infra/rbac.py", "operator/src/kindling/__init__.py", "__main__.py", "Pulumi.yaml"],
)
def test_whatever_is_deployed_counts(repository: Path, file: str) -> None:
    before = release.contents()
    place = repository / file
    place.write_text(place.read_text() + "# more\n")
    changed = release.contents()
    place.chmod(0o755)
    assert len({before, changed, release.contents()}) == 3


def test_a_new_file_and_one_that_moved_count(repository: Path) -> None:
    before = release.contents()
    (repository / "crds" / "one.yaml").rename(repository / "crds" / "two.yaml")
    moved = release.contents()
    (repository / "samples").mkdir()
    (repository / "samples" / "new.yaml").touch()
    assert len({before, moved, release.contents()}) == 3


@pytest.mark.parametrize(
    "file",
    ["docs/guide.md", "Pulumi.prod.yaml", "releases/prod.json", "infra/__pycache__/x.pyc", "crds/.DS_Store"],
)
def test_what_only_says_where_and_what_tools_leave_does_not_count(repository: Path, file: str) -> None:
    before = release.contents()
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).write_text("another\n")
    assert release.contents() == before
    assert release.deployed().uncommitted == ()


def test_a_clone_has_the_same(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(repository), "clone")
    assert release.contents(tmp_path / "clone") == release.contents()


def test_a_stack_reports_its_commit_and_what_is_in_none(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert release.deployed() == release.Deployed(head, release.contents())
    (repository / "infra" / "rbac.py").write_text("# another\n")
    (repository / "infra" / "new.py").write_text("# new\n")
    # Ignored by Git, and yet deployed.
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "operator" / "src" / "x.log").write_text("x\n")
    assert set(release.deployed().uncommitted) == {"infra/rbac.py", "infra/new.py", "operator/src/x.log"}


def test_outside_of_a_repository_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_in(tmp_path, monkeypatch)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert release.deployed() == release.Deployed("", release.contents())


OUTPUTS: dict[str, Any] = {
    "images": IMAGES,
    "release": {"commit": "c" * 40, "contents": "d" * 64, "uncommitted": []},
}


def test_what_a_stack_reports_becomes_a_release() -> None:
    assert release.of_outputs(OUTPUTS, source="staging") == GOOD


@pytest.mark.parametrize(
    ("changed", "what", "why"),
    [
        ({"images": None}, "has no images that can be promoted", "and is missing"),
        ({"images": {}}, "has no images that can be promoted", "and is missing"),
        ({"images": {"operator": "localhost/kindling-operator:0123"}}, "has no images", "on its nodes alone"),
        ({"release": None}, "does not say which commit it was deployed from", "outside of a Git repository"),
        (
            {"release": {**OUTPUTS["release"], "commit": ""}},
            "does not say which commit it was deployed from",
            "outside of a Git repository",
        ),
        (
            {"release": {**OUTPUTS["release"], "uncommitted": ["infra/rbac.py", "crds/x.yaml"]}},
            "was deployed from commit cccccccccccc with changes that are in no commit",
            "infra/rbac.py, crds/x.yaml",
        ),
    ],
)
def test_what_cannot_be_found_again_is_not_promoted(changed: dict[str, Any], what: str, why: str) -> None:
    with pytest.raises(KindlingError) as raised:
        release.of_outputs({**OUTPUTS, **changed}, source="staging")
    assert raised.value.what.startswith("stack `staging`")
    assert what in raised.value.what
    assert why in raised.value.why
    assert "python3 -m infra up staging" in raised.value.remedy


def refusal(found: Release) -> KindlingError:
    with pytest.raises(KindlingError) as raised:
        release.check("prod", found)
    return raised.value


def test_only_a_releases_own_contents_may_run(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    own = Release(head, release.contents(), IMAGES, "staging")
    release.check("prod", own)
    release.check("prod", None)
    # What is no part of a release goes on.
    (repository / "docs" / "guide.md").write_text("another\n")
    (repository / "Pulumi.prod.yaml").write_text("config:\n  kindling:replicas: 3\n")
    commit(repository)
    release.check("prod", own)
    (repository / "infra" / "rbac.py").write_text("# fewer rights\n")
    reported = refusal(own)
    new = git(repository, "rev-parse", "HEAD")
    here = f"this checkout is commit {new[:12]} with changes (infra/rbac.py)"
    assert reported.what == f"stack `prod` runs the release of commit {head[:12]}, and {here}"
    newer = commit(repository)
    reported = refusal(own)
    assert reported.what.endswith(f"commit {head[:12]}, and this checkout is commit {newer[:12]}")
    assert "stack `staging` was proven with" in reported.why
    assert "python3 -m infra checkout prod FOLDER" in reported.remedy


def test_a_file_that_was_written_by_hand_is_reported(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    reported = refusal(Release(head, "0" * 64, IMAGES, "staging"))
    assert reported.what == "releases/prod.json is no release"
    assert reported.why == f"its `contents` are not those of commit {head[:12]}"

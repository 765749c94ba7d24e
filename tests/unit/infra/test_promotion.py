"""Promotion's edit of a settings file: that one key, and not a byte beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra import paths, promotion, settings
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.promotion import Change, changes, checked, with_images


def ref(name: str, letter: str = "a") -> str:
    return f"registry.example:5000/kindling/kindling-{name}@sha256:{letter * 64}"


IMAGES = {"operator": ref("operator"), "postgres": ref("postgres")}
HEAD = "# what it is\nconfig:\n  # one\n  kindling:cluster: existing  # ours\n"
TAIL = "  # two\n  kindling:protect: true\n\n# the end\n"


def images_of(text: str) -> object:
    return yaml.safe_load(text)["config"]["kindling:images"]


def test_an_empty_map_is_filled() -> None:
    after = with_images(f"{HEAD}  kindling:images: {{}}\n{TAIL}", IMAGES)
    lines = f"  kindling:images:\n    operator: {IMAGES['operator']}\n    postgres: {IMAGES['postgres']}\n"
    assert after == HEAD + lines + TAIL


def test_values_change_in_their_place_with_their_comments() -> None:
    before = (
        f"{HEAD}  kindling:images:  # by promote\n"
        f"    # the cache\n    memcached: {ref('memcached')}\n"
        f"    postgres: {ref('postgres', 'b')}  # checked by hand\n"
        f"    operator: {ref('operator', 'b')}\n{TAIL}"
    )
    assert with_images(before, IMAGES) == (
        f"{HEAD}  kindling:images:  # by promote\n"
        "    # the cache\n"
        f"    postgres: {ref('postgres')}  # checked by hand\n"
        f"    operator: {ref('operator')}\n{TAIL}"
    )


@pytest.mark.parametrize(
    "text", [HEAD + TAIL, "config:\n", "", "# nothing\n", "config:\n    kindling:a: 1\n"]
)
def test_a_file_without_the_key_gets_it(text: str) -> None:
    after = with_images(text, IMAGES)
    assert images_of(after) == IMAGES
    lines = after.splitlines()
    assert [line for line in text.splitlines() if line not in lines] == []


def test_twice_is_once() -> None:
    once = with_images(HEAD + TAIL, IMAGES)
    assert with_images(once, IMAGES) == once


names = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
maps = st.dictionaries(
    names, st.builds(ref, names, st.sampled_from("abcdef0123456789")), min_size=1, max_size=6
)
others = st.lists(
    st.one_of(
        st.builds("  kindling:{}: {}".format, names.filter(lambda n: n != "images"), st.integers()),
        st.builds("  # {}".format, names),
        st.just(""),
    ),
    max_size=5,
    unique=True,
)


@given(before=others, after=others, old=maps, new=maps)
def test_whatever_stands_around_stays(
    before: list[str], after: list[str], old: dict[str, str], new: dict[str, str]
) -> None:
    own = ["  kindling:images:", *(f"    {name}: {value}" for name, value in old.items())]
    text = "\n".join(["config:", *before, *own, *after]) + "\n"
    edited = with_images(text, new)
    assert images_of(edited) == new
    kept = [line for line in edited.splitlines() if not line.startswith("    ")]
    assert [line for line in kept if line] == [line for line in ["config:", *before, own[0], *after] if line]
    assert with_images(edited, new) == edited


def test_what_differs_is_told_by_name() -> None:
    before = {"a": ref("a"), "b": ref("b"), "c": ref("c")}
    after = {"a": ref("a"), "b": ref("b", "f"), "d": ref("d")}
    assert changes(before, after) == [
        Change("b", ref("b"), ref("b", "f")),
        Change("c", ref("c"), ""),
        Change("d", "", ref("d")),
    ]


@pytest.mark.parametrize(
    "images", [None, {}, "x", {"operator": "localhost/kindling-operator:0123456789ab"}, {"operator": 3}]
)
def test_only_digests_in_a_registry_can_be_promoted(images: object) -> None:
    with pytest.raises(KindlingError) as raised:
        checked(images, source="dev")
    assert "stack `dev`" in raised.value.what
    assert "infra up dev" in raised.value.remedy


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("Pulumi.yaml", "Pulumi.prod.yaml", "Pulumi.staging.yaml"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    monkeypatch.setattr(settings, "REPOSITORY", tmp_path)
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    return tmp_path


def test_the_repositorys_own_prod_is_promoted_to(repository: Path) -> None:
    file = repository / "Pulumi.prod.yaml"
    before = file.read_text()
    told = promotion.promote("staging", "prod", IMAGES)
    assert settings.read("prod").images.promoted == IMAGES
    assert f"operator: none -> registry.example:5000/kindling/kindling-operator@sha256:{'a' * 12}" in told
    comments = [line for line in before.splitlines() if "#" in line]
    assert comments == [line for line in file.read_text().splitlines() if "#" in line]
    written = file.read_text()
    assert "nothing was written" in promotion.promote("staging", "prod", IMAGES)
    assert file.read_text() == written
    assert list(repository.glob(".Pulumi*")) == []


def test_a_stack_that_builds_is_not_promoted_to(repository: Path) -> None:
    before = (repository / "Pulumi.staging.yaml").read_text()
    with pytest.raises(KindlingError, match="`staging` does not run promoted images"):
        promotion.promote("prod", "staging", IMAGES)
    assert (repository / "Pulumi.staging.yaml").read_text() == before


@pytest.mark.parametrize(
    "form",
    [
        "config: {kindling:images: {operator: x}}\n",
        "config:\n  kindling:images: {\n    operator: x}\n",
        'config:\n  "kindling:images": {}\n',
        "config:\n  kindling:images: &x\n    operator: a\n  kindling:other: *x\n",
    ],
)
def test_a_form_that_is_not_understood_is_left_as_it_is(tmp_path: Path, form: str) -> None:
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(form)
    with pytest.raises(KindlingError, match="can not be edited here"):
        promotion.write(file, IMAGES)
    assert file.read_text() == form


def test_the_other_half_answers_errors_as_what_they_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infra.promotion", "dev", "prod"],
        input="null",
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "has no images that can be promoted" in done.stdout

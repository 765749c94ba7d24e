"""PushedImage's life, as Pulumi's engine drives it; the registry and the push are tested with real ones."""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest
from pulumi.dynamic.dynamic import serialize_provider

from infra.drivers import images
from infra.errors import KindlingError
from infra.resources import host
from infra.resources.pushed_image import PushedImage, PushedImageProvider
from tests.unit.infra.fakes import FakeRegistry

REPOSITORY = "registry.example:5000/team/kindling-operator"
DIGEST = f"sha256:{'a' * 64}"
INPUTS: dict[str, Any] = {
    "name": "kindling-operator",
    "digest": "0123456789ab",
    "repository": REPOSITORY,
    "insecure": False,
    "context": "operator",
    "containerfile": "operator/Containerfile",
    "buildArgs": {},
    "platforms": {"linux/amd64": "0123456789ab"},
}
PROVIDER = PushedImageProvider()


@dataclass
class World:
    """A registry, and what was pushed to it; `has_engine` False is a machine that cannot push."""

    registry: FakeRegistry = field(default_factory=FakeRegistry)
    pushed: list[str] = field(default_factory=list)
    has_engine: bool = True
    failure: KindlingError | None = None

    def engine(self) -> World:
        if not self.has_engine:
            raise KindlingError("no container engine answers on this machine")
        return self

    def push(self, engine: object, *, repository: str, tag: str, insecure: bool, **_build: object) -> str:
        assert engine is self
        if self.failure is not None:
            raise self.failure
        self.pushed.append(f"{repository}:{tag}" + (" without TLS" if insecure else ""))
        self.hold()
        return DIGEST

    def hold(self) -> None:
        self.registry.held = {f"{REPOSITORY}:0123456789ab": DIGEST, f"{REPOSITORY}@{DIGEST}": DIGEST}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(host, "engine", world.engine)
    monkeypatch.setattr(host, "registry", lambda _repository, *, insecure: world.registry)
    monkeypatch.setattr(images, "push", world.push)
    return world


@pytest.fixture
def created(world: World) -> dict[str, Any]:
    """The state of an image that the registry has."""
    outs = PROVIDER.create(dict(INPUTS)).outs
    assert outs is not None
    world.pushed.clear()
    return outs


def test_the_state_names_the_provider_by_reference() -> None:
    pickled = base64.b64decode(serialize_provider(PROVIDER))
    assert len(pickled) < 200
    assert b"infra.resources.pushed_image" in pickled
    assert isinstance(pickle.loads(pickled), PushedImageProvider)
    assert PushedImage._resource_type_name == "dynamic/containers:PushedImage"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("context", "/etc"),
        ("context", "../elsewhere"),
        ("containerfile", "operator/Dockerfile"),
        ("repository", "kindling"),
    ],
)
def test_check_names_what_is_wrong(key: str, value: str) -> None:
    failures = PROVIDER.check({}, {**INPUTS, key: value}).failures
    assert [failure.property for failure in failures] == [key]
    assert value in failures[0].reason


def test_check_asks_neither_registry_nor_engine(world: World) -> None:
    world.registry.held, world.has_engine = None, False
    assert PROVIDER.check({}, dict(INPUTS)).failures == []


def test_create_pushes_and_is_known_by_digest(world: World) -> None:
    result = PROVIDER.create(dict(INPUTS))
    assert world.pushed == [f"{REPOSITORY}:0123456789ab"]
    assert result.id == f"{REPOSITORY}@{DIGEST}"
    assert result.outs == {**INPUTS, "ref": f"{REPOSITORY}@{DIGEST}"}


def test_create_takes_what_the_registry_has_without_an_engine(world: World) -> None:
    """Another stack's push, or that of a run that was cut off before it was written down."""
    world.hold()
    world.has_engine = False
    assert PROVIDER.create(dict(INPUTS)).id == f"{REPOSITORY}@{DIGEST}"
    assert world.pushed == []


def test_create_stops_before_it_builds_where_the_registry_does_not_answer(world: World) -> None:
    world.registry.held = None
    with pytest.raises(KindlingError, match=r"registry\.example:5000 does not answer"):
        PROVIDER.create(dict(INPUTS))
    assert world.pushed == []


def test_a_refused_push_is_repeated_by_the_next_create(world: World) -> None:
    """Half-made: layers may have arrived, but no manifest names them."""
    world.failure = KindlingError("the image could not be pushed")
    with pytest.raises(KindlingError):
        PROVIDER.create(dict(INPUTS))
    world.failure = None
    assert PROVIDER.create(dict(INPUTS)).id == f"{REPOSITORY}@{DIGEST}"


def test_unchanged_is_unchanged(world: World, created: dict[str, Any]) -> None:
    found = PROVIDER.diff("id", created, {**INPUTS, "ref": None})
    assert (found.changes, found.replaces) == (False, [])


@pytest.mark.parametrize(("key", "value"), [("digest", "ba9876543210"), ("repository", f"{REPOSITORY}-2")])
def test_other_content_or_another_place_is_another_image(
    world: World, created: dict[str, Any], key: str, value: str
) -> None:
    world.registry.asked.clear()
    found = PROVIDER.diff("id", created, {**INPUTS, key: value})
    assert (found.changes, found.replaces, found.delete_before_replace) == (True, [key], False)
    assert world.registry.asked == [], "what is replaced anyway need not be looked for"


def test_another_way_to_build_or_ask_is_an_update_that_keeps_the_image(
    world: World, created: dict[str, Any]
) -> None:
    news = {**INPUTS, "insecure": True}
    found = PROVIDER.diff("id", created, news)
    assert (found.changes, found.replaces) == (True, [])
    assert PROVIDER.update("id", created, news).outs == {**news, "ref": created["ref"]}
    assert world.pushed == []


def test_an_image_that_the_registry_lost_is_pushed_again(world: World, created: dict[str, Any]) -> None:
    world.registry.held = {}
    found = PROVIDER.diff("id", created, dict(INPUTS))
    assert (found.changes, found.replaces) == (True, ["ref"])


def test_a_preview_out_of_the_registrys_reach_says_nothing(world: World, created: dict[str, Any]) -> None:
    world.registry.held, world.has_engine = None, False
    assert PROVIDER.diff("id", created, dict(INPUTS)).changes is False


def test_a_tag_that_was_moved_by_somebody_changes_nothing(world: World, created: dict[str, Any]) -> None:
    """Foreign: what runs is named by its digest."""
    assert world.registry.held is not None
    world.registry.held[f"{REPOSITORY}:0123456789ab"] = f"sha256:{'f' * 64}"
    assert PROVIDER.diff("id", created, dict(INPUTS)).changes is False
    assert PROVIDER.read("id", created).outs == created


def test_read_distinguishes_present_gone_and_unknown(world: World, created: dict[str, Any]) -> None:
    assert PROVIDER.read("id", created).id == "id"
    world.registry.held = {}
    assert PROVIDER.read("id", created).id == ""
    world.registry.held = None
    with pytest.raises(KindlingError):
        PROVIDER.read("id", created)


def test_delete_leaves_the_image_to_other_stacks(world: World, created: dict[str, Any]) -> None:
    world.registry.asked.clear()
    world.has_engine = False
    PROVIDER.delete("id", created)
    assert world.registry.asked == []

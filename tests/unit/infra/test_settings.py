"""A stack's settings: what is taken, and that what is refused is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import settings
from infra.errors import KindlingError
from infra.paths import REPOSITORY

GOOD = {
    "cluster": "kind",
    "nodeImage": "auto",
    "workers": "0",
    "apiServerPort": "0",
    "replicas": "2",
    "logLevel": "info",
    "watchNamespaces": "[]",
    "samples": "false",
    "broker": "false",
}


def getter(**changed: str | None) -> Callable[[str], str | None]:
    return {**GOOD, **changed}.get


def test_every_value_is_read() -> None:
    found = settings.load(
        getter(
            nodeImage="registry.example:5000/node:v1.34.4",
            workers="3",
            apiServerPort="6443",
            replicas="1",
            logLevel="debug",
            watchNamespaces='["team-a", "team-b"]',
            samples="true",
            broker="true",
        ),
        stack="dev",
    )
    assert found.cluster == settings.ClusterSettings(
        source="kind",
        name="kindling-dev",
        node_image="registry.example:5000/node:v1.34.4",
        workers=3,
        api_server_port=6443,
    )
    assert found.cluster.context == "kind-kindling-dev"
    assert found.operator == settings.OperatorSettings(
        replicas=1, log_level="debug", watch_namespaces=("team-a", "team-b")
    )
    assert found.samples.enabled
    assert found.broker.enabled


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("cluster", "existing", "kind"),
        ("cluster", None, "kind"),
        ("nodeImage", "", "`auto`"),
        ("nodeImage", "kindest/node", "a tag or a digest"),
        ("nodeImage", "kindest/node:latest", "a tag or a digest"),
        ("nodeImage", "kindest/node: v1", "a tag or a digest"),
        ("nodeImage", "kindest/node@sha256:abc", "a tag or a digest"),
        ("workers", "-1", "from 0 to 8"),
        ("workers", "9", "from 0 to 8"),
        ("workers", "1.5", "from 0 to 8"),
        ("apiServerPort", "80", "from 1024 to 65535"),
        ("apiServerPort", "65536", "from 1024 to 65535"),
        ("apiServerPort", "https", "from 1024 to 65535"),
        ("replicas", "0", "from 1 to 5"),
        ("replicas", "two", "from 1 to 5"),
        ("replicas", "", "from 1 to 5"),
        ("logLevel", "verbose", "debug, info, warning, error"),
        ("logLevel", "INFO", "debug, info, warning, error"),
        ("watchNamespaces", "default", "a list of namespace names"),
        ("watchNamespaces", '{"a": 1}', "a list of namespace names"),
        ("watchNamespaces", '["Team"]', "a list of namespace names"),
        ("watchNamespaces", '["a", "a"]', "each named once"),
        ("watchNamespaces", "[7]", "a list of namespace names"),
        ("samples", "yes", "true, false"),
        ("broker", "True", "true, false"),
    ],
)
def test_a_wrong_value_is_named(key: str, value: str | None, allowed: str) -> None:
    with pytest.raises(KindlingError) as raised:
        settings.load(getter(**{key: value}), stack="staging")
    message = str(raised.value)
    assert f"kindling:{key}" in message
    assert "`staging`" in message
    assert allowed in message
    assert "Pulumi.staging.yaml" in message
    assert ("is not set" if value is None else f"`{value}`") in message


@pytest.mark.parametrize(
    "reference",
    ["kindest/node:v1.34.4", "localhost/kind-node:v1.34.4-abc_1", f"h:5000/a/b@sha256:{'0' * 64}", "node:1"],
)
def test_a_reference_with_tag_or_digest_is_taken(reference: str) -> None:
    assert settings.load(getter(nodeImage=reference), stack="dev").cluster.node_image == reference


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of settings files alone, with the real defaults."""
    (tmp_path / "Pulumi.yaml").write_text((REPOSITORY / "Pulumi.yaml").read_text())
    monkeypatch.setattr(settings, "REPOSITORY", tmp_path)
    return tmp_path


def test_a_file_lies_over_the_defaults(repository: Path) -> None:
    text = "config:\n  kindling:replicas: 3\n  kindling:watchNamespaces: [a]\n  kindling:samples: true\n"
    (repository / "Pulumi.big.yaml").write_text(text)
    found = settings.read("big")
    assert found.operator == settings.OperatorSettings(replicas=3, log_level="info", watch_namespaces=("a",))
    assert found.cluster.name == "kindling-big"
    assert found.samples.enabled


def test_an_empty_file_is_all_defaults(repository: Path) -> None:
    (repository / "Pulumi.plain.yaml").write_text("")
    assert settings.read("plain") == settings.load(getter(), stack="plain")


def test_the_file_and_the_program_are_told_the_same(repository: Path) -> None:
    """Pulumi hands booleans and lists to the program as JSON; `read` must too."""
    (repository / "Pulumi.a.yaml").write_text(
        "config:\n  kindling:watchNamespaces: [x, y]\n  kindling:samples: true\n"
    )
    told = getter(watchNamespaces=json.dumps(["x", "y"]), samples="true")
    assert settings.read("a") == settings.load(told, stack="a")


def test_stacks_are_the_files(repository: Path) -> None:
    for name in ("prod", "dev", "eu.west"):
        (repository / f"Pulumi.{name}.yaml").touch()
    assert settings.stacks() == ["dev", "eu.west", "prod"]


def test_an_unknown_stack_is_told_which_there_are(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").touch()
    with pytest.raises(KindlingError, match=r"no stack `prod`[\s\S]*the stacks are dev"):
        settings.read("prod")


def test_a_misspelt_key_is_refused(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").write_text("config:\n  kindling:replica: 3\n  aws:region: x\n")
    with pytest.raises(KindlingError, match=r"kindling:replica of stack `dev`[\s\S]*replicas"):
        settings.load(getter(), stack="dev")


@pytest.mark.parametrize("text", ["config: [", "config: 3\n", "- a\n"])
def test_a_broken_file_is_named(repository: Path, text: str) -> None:
    (repository / "Pulumi.dev.yaml").write_text(text)
    with pytest.raises(KindlingError, match=r"Pulumi\.dev\.yaml"):
        settings.read("dev")


@pytest.mark.parametrize("stack", settings.stacks())
def test_every_stack_of_the_repository_is_right(stack: str) -> None:
    assert settings.read(stack).stack == stack

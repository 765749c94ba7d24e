"""Whose cluster a stack is in, read without YAML's reader, agrees with the settings themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths, settings
from infra.cli import machine, plain
from infra.cli.execute import words


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    return tmp_path / "Pulumi.eu.yaml"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("  kindling:context: a", "a"),
        ('  kindling:context: "a b"  # ours', "a b"),
        ("  kindling:context: 'a'", "a"),
        ("    kindling:context:   arn:aws:eks:x/y  ", "arn:aws:eks:x/y"),
        ("  # kindling:context: a", ""),
        ("  kindling:contexts: a", ""),
        ("  other:context: a", ""),
    ],
)
def test_a_plain_value_is_read(file: Path, line: str, value: str) -> None:
    file.write_text(f"config:\n{line}\n")
    assert plain.value("eu", "context") == value


def test_a_missing_file_sets_nothing(file: Path) -> None:
    assert plain.value("eu", "context") == ""
    assert not plain.is_existing("eu")


@pytest.mark.parametrize("stack", settings.stacks())
def test_it_agrees_with_the_settings(stack: str) -> None:
    found = settings.read(stack)
    assert plain.is_existing(stack) == found.cluster.is_existing
    assert plain.context(stack) == found.cluster.context
    assert plain.builds_images(stack) == (found.images.source == settings.BUILD)


def test_tools_are_told_the_existing_cluster(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    file.write_text(
        "config:\n  kindling:cluster: existing\n  kindling:context: c\n  kindling:kubeconfig: ~/k\n"
    )
    assert words("kubectl", ["get", "pods"], stack="eu") == ["--context=c", "get", "pods"]
    assert plain.kubeconfig("eu") == {"KUBECONFIG": "/home/somebody/k"}
    assert "kind" not in machine.tools("eu")
    assert "kind" in machine.tools("dev")

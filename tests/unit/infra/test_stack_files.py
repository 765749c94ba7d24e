"""A stack's configuration is read as Pulumi itself reads it, whatever form the file has."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from infra import paths, settings
from infra.bootstrap.toolchain import Toolchain
from infra.cli.commands.exec_tool import tool_args
from infra.cli.stacks import profile
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.settings import stack_files
from tests.unit.infra.cli_machine import Machine, machine_with_pulumi

FORMS = [
    "config:\n  kindling:cluster: existing\n  kindling:context: a\n  kindling:kinds:\n  - Memcached\n",
    "config:\n  \"kindling:cluster\": 'existing'  # ours\n  'kindling:context': \"a\"\n"
    "  kindling:kinds: [Memcached]\n",
    'config: {"kindling:cluster": existing, "kindling:context": a, "kindling:kinds": [Memcached]}\n',
    "x: &names [Memcached]\nconfig:\n  ? kindling:cluster\n  : existing\n  kindling:context: >-\n    a\n"
    "  kindling:kinds: *names\n",
]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "Pulumi.yaml").write_text((REPOSITORY / "Pulumi.yaml").read_text())
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    return tmp_path / "Pulumi.eu.yaml"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(file: Path, form: str) -> None:
    file.write_text(form)
    assert stack_files.is_existing("eu")
    assert stack_files.context("eu") == "a"
    assert json.loads(stack_files.get("eu", "kinds") or "") == ["Memcached"]
    assert stack_files.get("eu", "replicas") == "2", "a default"
    assert stack_files.get("eu", "no-such") is None


def test_a_missing_file_sets_nothing(file: Path) -> None:
    assert stack_files.get("eu", "context") == ""
    assert not stack_files.is_existing("eu")
    assert stack_files.is_complete("eu")


@pytest.mark.parametrize("text", ["config: [\n", "- a\n", "config: text\n"])
def test_what_is_no_settings_file_is_refused_by_name(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(KindlingError, match=r"Pulumi\.eu\.yaml"):
        stack_files.get("eu", "cluster")


@pytest.mark.parametrize("stack", settings.stacks())
def test_it_agrees_with_the_settings(stack: str) -> None:
    found = settings.read(stack)
    assert stack_files.is_existing(stack) == found.cluster.is_existing
    assert stack_files.context(stack) == found.cluster.context
    assert stack_files.builds_images(stack) == (found.images.source == settings.BUILD)


def test_tools_get_the_existing_cluster(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    file.write_text(
        "config:\n  kindling:cluster: existing\n  kindling:context: c\n  kindling:kubeconfig: ~/k\n"
    )
    assert tool_args("kubectl", ["get", "pods"], stack="eu") == ["--context=c", "get", "pods"]
    assert stack_files.kubeconfig("eu") == {"KUBECONFIG": "/home/somebody/k"}
    assert "kind" not in profile.of("eu").tools
    assert "kind" in profile.of("dev").tools


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("config:\n  kindling:context: a\n", True),
        ("environment: [team/prod]\nconfig:\n  kindling:context: a\n", False),
        ("config:\n  kindling:context: {secure: v1:abc}\n", False),
        ("config:\n  kindling:operatorPod: {labels: {a: {secure: v1:abc}}}\n", False),
        # Others' secrets are the program's business.
        ("config:\n  aws:token: {secure: v1:abc}\n", True),
    ],
)
def test_what_a_file_does_not_contain_is_known(file: Path, text: str, complete: bool) -> None:
    file.write_text(text)
    assert stack_files.is_complete("eu") is complete


def test_what_was_asked_for_is_what_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_files, "_merged", {})
    file.write_text("environment: [team/prod]\nconfig:\n  kindling:replicas: 3\n")
    stack_files.remember("eu", {"kindling:cluster": "existing", "kindling:context": "b", "aws:region": "x"})
    assert stack_files.is_complete("eu")
    assert stack_files.context("eu") == "b"
    assert stack_files.get("eu", "replicas") == "2", "Pulumi's answer holds the file's values too"


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    host = machine_with_pulumi(tmp_path)
    host.extra |= {"PULUMI_CONFIG_PASSPHRASE": "canary", "CI": "true"}
    (tmp_path / "backend").mkdir()
    host.extra["PULUMI_BACKEND_URL"] = f"file://{tmp_path / 'backend'}"
    return host


def pulumi(host: Machine, *tool_args: str) -> None:
    program = Toolchain().ensure("pulumi")
    subprocess.run([program, *tool_args], cwd=host.checkout, env=host.environment, check=True, timeout=60)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_secret_value_is_asked_for_and_decrypted(host: Machine, recorded: bool) -> None:
    """Placeholders are what `preview` in CI says of a value without touching anything else."""
    file = host.checkout / "Pulumi.eu.yaml"
    file.write_text("config: {kindling:cluster: existing, kindling:registry: r.example/k}\n")
    pulumi(host, "stack", "init", "eu")
    pulumi(host, "config", "set", "--stack", "eu", "--secret", "kindling:context", "eu.example.com")
    assert "eu.example.com" not in file.read_text()
    if not recorded:
        before = file.read_text()
        pulumi(host, "stack", "rm", "--yes", "--force", "eu")
        file.write_text(before)
    done = host.cli("preview", "eu")
    assert done.returncode == 0, done.stderr
    assert "Stack eu is skipped: its file has kindling:context: eu.example.com" in done.stdout


def test_an_esc_environment_that_the_backend_cannot_open_is_pulumis_own_word(host: Machine) -> None:
    file = host.checkout / "Pulumi.eu.yaml"
    file.write_text("environment: [team/prod]\nconfig: {kindling:cluster: existing}\n")
    first = host.cli("preview", "eu")
    assert first.returncode == 1
    assert "takes values from Pulumi ESC and has no state yet" in first.stderr
    assert "remedy: python3 -m infra exec --stack eu pulumi stack init eu" in first.stderr
    made = host.cli("exec", "--stack", "eu", "pulumi", "stack", "init", "eu")
    assert made.returncode == 0, made.stderr
    done = host.cli("preview", "eu")
    assert done.returncode == 1
    assert "does not support environments" in done.stderr
    assert "Traceback" not in done.stderr

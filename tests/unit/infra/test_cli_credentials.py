"""In a pipeline, what leads to the state of a cluster that stays is asked for first, and never replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths
from infra.cli.stacks import credentials
from infra.errors import KindlingError
from tests.unit.infra.cli_machine import Machine, new_machine

S3 = "s3://bucket?region=eu-central-1"
CLOUD = "https://api.pulumi.com"
GOOD = {"PULUMI_BACKEND_URL": S3, "PULUMI_CONFIG_PASSPHRASE": "canary"}
VARIABLES = ("CI", "PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", *credentials.PASSPHRASES)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    (tmp_path / "Pulumi.staging.yaml").write_text("config:\n  kindling:cluster: existing\n")
    (tmp_path / "Pulumi.kms.yaml").write_text(
        "secretsprovider: awskms://alias/kindling\nconfig:\n  kindling:cluster: existing\n"
    )
    (tmp_path / "Pulumi.dev.yaml").write_text("config:\n  kindling:samples: true\n")
    return tmp_path


@pytest.mark.parametrize(
    ("stack", "given", "missing"),
    [
        ("staging", {}, "PULUMI_BACKEND_URL"),
        # How a secret arrives that the repository does not have.
        ("staging", {**GOOD, "PULUMI_BACKEND_URL": ""}, "PULUMI_BACKEND_URL"),
        ("staging", {**GOOD, "PULUMI_CONFIG_PASSPHRASE": ""}, "PULUMI_CONFIG_PASSPHRASE"),
        ("staging", {"PULUMI_BACKEND_URL": CLOUD}, "PULUMI_ACCESS_TOKEN"),
        ("staging", {"PULUMI_BACKEND_URL": CLOUD, "PULUMI_ACCESS_TOKEN": "t"}, None),
        ("staging", {"PULUMI_BACKEND_URL": S3, "PULUMI_CONFIG_PASSPHRASE_FILE": "/run/passphrase"}, None),
        ("kms", {"PULUMI_BACKEND_URL": S3}, None),
        ("staging", GOOD, None),
        ("dev", {}, None),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, stack: str, given: dict[str, str], missing: str | None
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    credentials.check(stack)  # A person at a terminal has a backend of this machine's own.
    monkeypatch.setenv("CI", "true")
    if missing is None:
        credentials.check(stack)
        return
    with pytest.raises(KindlingError) as raised:
        credentials.check(stack)
    assert raised.value.what.startswith(f"{missing} is not set, or empty")
    assert "Dependabot" in raised.value.remedy


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = new_machine(tmp_path / "machine")
    machine.engine(containers={})
    machine.extra |= {"CI": "true", "PULUMI_BACKEND_URL": "", "PULUMI_CONFIG_PASSPHRASE": ""}
    return machine


def test_up_ends_with_it_before_anything_is_looked_at_or_made(machine: Machine) -> None:
    (machine.checkout / "Pulumi.staging.yaml").write_text(
        "config:\n  kindling:cluster: existing\n  kindling:context: ours\n"
    )
    done = machine.cli("up", "staging")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: PULUMI_BACKEND_URL is not set, or empty, and stack `staging`")
    assert not (machine.home / "state").exists()

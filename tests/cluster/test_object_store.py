"""The guide's first proven backup as a stranger makes it, on a stack with an object store of its own.

`test` gets the store by an `up` for this module, and loses it by another at the end.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import guides
from tests.cluster.stack import ROOT, STACK, Environment, within

SETTINGS = ROOT / f"Pulumi.{STACK}.yaml"
BACKUP = "backups.database.technotuesday.io"
NAME = "mydb"
SECONDS = 300.0
SETTING, MANIFEST = (body for language, _, body in guides.blocks(guides.FIRST_BACKUP) if language == "yaml")
COMMANDS = re.findall(r"^\$ python3 -m infra (.*)$", guides.FIRST_BACKUP, re.MULTILINE)

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def store(environment: Environment) -> Iterator[Environment]:
    """The stack with the guide's setting, and without it at the end."""
    before = SETTINGS.read_text()
    try:
        SETTINGS.write_text(before + SETTING.removeprefix("config:\n"))
        assert yaml.safe_load(SETTINGS.read_text())["config"]["kindling:objectStore"] is True
        began = time.monotonic()
        done = environment.infra("up", STACK)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        print(f"up with the store took {time.monotonic() - began:.0f} s")
        assert "Object store" in done.stdout + done.stderr
        yield environment
    finally:
        environment.kubectl("delete", BACKUP, NAME, "--ignore-not-found", "--wait=true", timeout=180)
        SETTINGS.write_text(before)
        environment.ok("up", STACK)


@pytest.fixture(scope="module")
def proven(store: Environment, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The guide's commands, each as printed, but for the stack and the place of the file."""
    file = tmp_path_factory.mktemp("guide") / "first-backup.yaml"
    file.write_text(MANIFEST)
    up, *others = map(shlex.split, COMMANDS)
    assert up == ["up"]
    began = time.monotonic()
    for verb, *rest in others:
        words = [str(file) if word == file.name else word for word in rest]
        assert store.ok(verb, "--stack", STACK, *words)
    print(f"from apply to a proven backup took {time.monotonic() - began:.0f} s")
    assert [words[2] for words in others] == ["apply", "wait", "get"]
    return store


def status(environment: Environment) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(BACKUP, NAME).get("status", {})
    return found


def is_true(environment: Environment, type: str) -> bool:
    conditions = status(environment).get("conditions", ())
    return any(item["type"] == type and item["status"] == "True" for item in conditions)


def secret(environment: Environment, name: str, *words: str) -> dict[str, str]:
    data = environment.get("secret", name, *words)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def test_the_guides_backup_is_verified(proven: Environment) -> None:
    assert is_true(proven, "Verified")
    within(SECONDS, lambda: is_true(proven, "Ready"))
    found = status(proven)
    assert found["lastVerifiedTime"]
    assert {run["action"] for run in found["runs"] if run["phase"] == "Succeeded"} >= {"backup", "verify"}
    table = proven.kubectl("get", "backup", NAME).splitlines()
    assert "VERIFIED" in table[0]
    assert NAME in table[1]


def test_the_outputs_are_what_the_guide_says(proven: Environment) -> None:
    printed = proven.ok("exec", "--stack", STACK, "pulumi", "stack", "output", "--json")
    output, spec = json.loads(printed)["objectStore"], yaml.safe_load(MANIFEST)["spec"]
    assert output["endpointURL"] == spec["endpointURL"]
    assert spec["targetURL"].startswith(f"s3://{output['bucket']}/")


def test_what_is_stored_outlives_the_servers_pod(proven: Environment) -> None:
    where = ("-n", "object-store")
    (before,) = proven.get("pods", *where)["items"]
    proven.kubectl("delete", "pod", before["metadata"]["name"], *where, "--wait=true")
    proven.kubectl("rollout", "status", "deployment/object-store", *where, "--timeout=120s")
    (after,) = proven.get("pods", *where)["items"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    proven.kubectl("create", "job", f"{NAME}-by-hand", f"--from=cronjob/{NAME}-verify")

    def ended() -> bool:
        runs = {run["name"]: run["phase"] for run in status(proven).get("runs", ())}
        return bool(runs.get(f"{NAME}-by-hand", "Running") != "Running")

    within(SECONDS, ended)
    runs = {run["name"]: run for run in status(proven)["runs"]}
    assert runs[f"{NAME}-by-hand"]["phase"] == "Succeeded", runs


def test_a_second_up_changes_nothing_and_makes_no_other_keys(proven: Environment) -> None:
    keys = secret(proven, "object-store-keys")
    proven.ok("exec", "--stack", STACK, "pulumi", "up", "--yes", "--expect-no-changes", "--skip-preview")
    assert proven.infra("drift", STACK).returncode == 0
    assert secret(proven, "object-store-keys") == keys
    assert secret(proven, "object-store-keys", "-n", "object-store") == keys


def test_keys_are_in_secrets_alone_and_encrypted_in_the_state(proven: Environment) -> None:
    keys, tls = secret(proven, "object-store-keys"), secret(proven, "object-store-tls", "-n", "object-store")
    private = tls["tls.key"].splitlines()[1]
    for kind in ("pods", "deployments", "configmaps", "events"):
        text = proven.kubectl("get", kind, "-A", "-o", "yaml")
        assert keys["secretAccessKey"] not in text, kind
    files = [file for file in Path(proven.state).rglob("*") if file.is_file()]
    assert any(b"object-store" in file.read_bytes() for file in files)
    for file in files:
        content = file.read_bytes()
        assert keys["secretAccessKey"].encode() not in content, file
        assert private.encode() not in content, file
    log = proven.kubectl("logs", "-n", "object-store", "deployment/object-store", "--tail=-1")
    assert keys["secretAccessKey"] not in log

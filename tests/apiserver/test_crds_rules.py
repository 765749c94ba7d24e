"""Each CEL rule of each definition refuses something that a test of bad input asks for, in its own words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.paths import REPOSITORY
from tests.apiserver.support.kinds import KINDS, POSTGRESQL_EXAMPLE
from tests.apiserver.support.refusals import REFUSALS
from tests.apiserver.support.rules import rules, says

TESTS = sorted((REPOSITORY / "tests" / "apiserver").glob("test_crds_*.py"))
DRAWN = ("test_crds_properties.py", Path(__file__).name)
"""What is drawn meets rules by chance, and another day it does not."""


@pytest.mark.thorough
def test_each_rule_refuses_what_a_test_asks_for(tmp_path: Path) -> None:
    file = tmp_path / "refusals"
    plugin = "tests.apiserver.support.refusals"
    words = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", plugin, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "--basetemp", tmp_path / "of-them", *(path for path in TESTS if path.name not in DRAWN)],
        cwd=REPOSITORY,
        env={**os.environ, REFUSALS: str(file)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said: dict[tuple[str, str], set[str]] = {}
    for line in file.read_text().splitlines():
        group, kind, message = json.loads(line)
        said.setdefault((group, kind), set()).add(message)
    # Both groups of Postgresql have one schema, which another test compares.
    for definition in (kind.manifest["spec"] for kind in KINDS.values() if kind != POSTGRESQL_EXAMPLE):
        messages = said.get((definition["group"], definition["names"]["kind"]), set())
        for version in definition["versions"]:
            idle = [
                (path, rule.get("messageExpression") or rule["message"])
                for path, rule in rules(version["schema"]["openAPIV3Schema"])
                if not any(says(rule).search(message) for message in messages)
            ]
            assert idle == [], f"{definition['names']['kind']} {version['name']}"

"""A seed gives the same walks wherever they are drawn: beside other tests, and after an edit elsewhere."""

from __future__ import annotations

import subprocess
import sys

from infra.paths import REPOSITORY

PROGRAM = """
import sys
for name in sys.argv[1:]:
    __import__(name)
from tests.apiserver.support.cluster import KINDS_BY_NAME
from tests.convergence.strategies import walks
for served in KINDS_BY_NAME.values():
    for walk in walks(served, count=2, steps=3, seed=1):
        print(walk.first, *walk.edits)
"""


def drawn(*modules: str) -> str:
    words = [sys.executable, "-c", PROGRAM, *modules]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_what_else_is_loaded_changes_no_walk() -> None:
    assert drawn() == drawn("tests.model.world", "tests.unit.operator.placement", "infra.settings")

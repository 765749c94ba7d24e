"""One process at a time, with real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra.locks import exclusive, lock_path

HOLDS = "import sys, time; from pathlib import Path; from infra.locks import exclusive\n"
HOLDS += "with exclusive(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"


@pytest.mark.parametrize("name", ["thing.lock", ""])
def test_the_dead_keep_nobody_out(tmp_path: Path, name: str) -> None:
    """Not even killed; a file and a folder alike."""
    path, said = tmp_path / name, []
    with subprocess.Popen([sys.executable, "-c", HOLDS, path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"

        def say(word: str) -> None:
            said.append(word)
            other.kill()

        with exclusive(path, say=say):
            assert other.wait(timeout=60) != 0
    assert said == ["another command is at it; waiting"]
    with exclusive(path, say=said.append):
        assert len(said) == 1


def test_a_lock_is_beside_what_is_made(tmp_path: Path) -> None:
    made = tmp_path / "tools" / "kind-0.33.0"
    with exclusive(lock_path(made)):
        assert not made.exists()
    assert [path.name for path in made.parent.iterdir()] == ["kind-0.33.0.lock"]

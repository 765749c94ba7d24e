"""The way into a runner: a root file system of layers, what is lent to it, and a user in it.

Run as a program, by its file and with the standard library alone, inside namespaces of its own (`unshare`):
what it mounts goes with the last process in there, however that ends. Its one argument is JSON, see `Way`;
its environment becomes the program's. It is the first process of its namespace, and gathers those whose
parents have ended, as an init does.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict


class Way(TypedDict):
    """`lower` is the root file system, never written to; `layers` a folder that takes what is.

    `lent` are paths of this machine by where they appear, `restored` folders that are layers too: by where
    they appear, the folders below, the uppermost first and parted by colons, and one for what is written.
    `user` is looked up in there.
    """

    lower: str
    layers: str
    lent: dict[str, str]
    restored: dict[str, tuple[str, str]]
    user: str
    folder: str
    words: list[str]


def main(way: Way) -> int:
    root = Path(way["layers"], "root")
    _layer(way["lower"], Path(way["layers"]), root)
    for place, source in (("/proc", None), ("/dev", "/dev"), ("/sys", "/sys"), *way["lent"].items()):
        target = _below(root, place)
        if source is None:
            _mount("--types", "proc", "proc", target)
            continue
        if Path(source).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif not target.exists():
            target.touch()
        _mount("--rbind", source, target)
    for place, (lower, layers) in way["restored"].items():
        target = _below(root, place)
        target.mkdir(parents=True, exist_ok=True)
        _layer(lower, Path(layers), target)
    _enter(root)
    socket.sethostname("runner")
    child = os.fork()
    if child == 0:
        _become(way["user"])
        os.chdir(way["folder"])
        os.execvp(way["words"][0], way["words"])  # noqa: S606
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status) % 256


def _layer(lower: str, layers: Path, target: Path) -> None:
    """`lower` at `target`, what is written there in `layers`."""
    upper, work = layers / "upper", layers / "work"
    for folder in (upper, work, target):
        folder.mkdir(parents=True, exist_ok=True)
    # The uppermost folder's owner is seen, not that of the one below.
    stat = os.stat(lower.partition(":")[0])
    os.chown(upper, stat.st_uid, stat.st_gid)
    upper.chmod(stat.st_mode & 0o7777)
    _mount("--types", "overlay", "overlay", target, f"lowerdir={lower},upperdir={upper},workdir={work}")


def _mount(kind: str, *words: Any) -> None:
    if kind == "--types":
        name, source, target, *options = words
        more = ["--options", options[0]] if options else []
        subprocess.run(["mount", kind, name, *more, source, str(target)], check=True, timeout=30)
    else:
        subprocess.run(["mount", kind, *map(str, words)], check=True, timeout=30)


def _below(root: Path, place: str) -> Path:
    return root / place.lstrip("/")


def _enter(root: Path) -> None:
    """Not `chroot`: from inside of one the kernel makes no user namespaces, which rootless engines need."""
    old = root / "mnt"
    subprocess.run(["pivot_root", str(root), str(old)], check=True, timeout=30)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True, timeout=30)


def _become(user: str) -> None:
    entry = pwd.getpwnam(user)
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.umask(0o022)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

"""Which Debian packages an image is built of, exactly: apt's own preferences beside its Containerfile.

apt reads it as it is: each package at the one version that it names, nothing else, and where the mirror has
that version no more, a failure. So what is in an image follows from its files, and its tag from them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra import processes
from infra.errors import KindlingError

FILE = "packages.pref"
"""Its name, as apt's folder of preferences takes it."""
ARCHITECTURES = ("amd64", "arm64")
SUITE = "trixie"
RENEW = "python3 -m infra renew"
SECONDS = 300.0

_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# By the label of an archive, the suites of it that are asked.
_SUITES = {"Debian": (SUITE, f"{SUITE}-updates"), "Debian-Security": (f"{SUITE}-security",)}
# Of the suite after ours, what ours has too old, with what it needs from there: decision 0034.
NEXT_SUITE = "forky"
OF_NEXT = ("pgbackrest", "libxml2-16")
_TARGETS = ("indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages")
# What every base has, of Debian's registry image and of our own.
_BASE = ("?essential", "?priority(required)", "apt", "ca-certificates")
_NOTHING_ELSE = """\
Explanation: No other package, and no other version of these.
Package: *
Pin: release *
Pin-Priority: -1
"""
_NEXT_PREFERENCES = f"""\
Explanation: Of Debian {NEXT_SUITE}, these alone.
Package: {" ".join(OF_NEXT)}
Pin: release n={NEXT_SUITE}
Pin-Priority: 990

Package: *
Pin: release n={NEXT_SUITE}
Pin-Priority: -1
"""
_PIN = re.compile(r"^Package: (\S+)\nPin: version (\S+)$", re.MULTILINE)
_INST = re.compile(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", re.MULTILINE)
_APT_GET = re.compile(r"^RUN .*?(\[\"apt-get\".*\])$", re.MULTILINE)

Pins = Mapping[str, tuple[str, ...]]
"""Versions by package: one, or one for each architecture where a rebuild has set them apart."""


def architecture() -> str:
    """This machine's, as Debian calls it; what is built here is of it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def installed_packages(containerfile: str) -> list[str]:
    """The packages that a Containerfile installs, whichever of its stages does."""
    found: list[str] = []
    for args in map(json.loads, _APT_GET.findall(containerfile)):
        if "install" in args:
            rest = iter(args[args.index("install") + 1 :])
            for word in rest:
                if word == "-o":
                    next(rest)
                elif not word.startswith("-"):
                    found.append(word)
    return list(dict.fromkeys(found))


def text(pins: Pins) -> str:
    """The file, in order of the packages."""
    parts = [f"Explanation: Made by `{RENEW}` from Debian {SUITE}; edits are undone."]
    for name, versions in sorted(pins.items()):
        parts += [f"Package: {name}\nPin: version {version}\nPin-Priority: 1001" for version in versions]
    head, first, *rest = parts
    of_next = [_NEXT_PREFERENCES] if pins.keys() & set(OF_NEXT) else []
    return "\n\n".join([f"{head}\n{first}", *rest, *(part.rstrip("\n") for part in of_next), _NOTHING_ELSE])


def read(content: str) -> Pins:
    """What a file pins; nothing of an empty one."""
    found: dict[str, tuple[str, ...]] = {}
    for name, version in _PIN.findall(content):
        found[name] = (*found.get(name, ()), version)
    return found


def unlocked(content: str) -> str:
    """The file with its versions preferred, and no longer the only ones."""
    return content.removesuffix(_NOTHING_ELSE)


def changes(before: Pins, after: Pins) -> list[str]:
    """What differs, a line for each package."""
    lines = []
    for name in sorted({*before, *after}):
        old, new = (" and ".join(pins.get(name, ())) for pins in (before, after))
        if old != new:
            lines.append(f"{name} {old or 'new'} -> {new or 'gone'}")
    return lines


@contextmanager
def archive() -> Iterator[Archive]:
    """Debian's package lists as they are now, asked by apt in a folder of its own; nothing is installed.

    :raises KindlingError: where there is no apt, or no mirror answers.
    """
    if shutil.which("apt-get") is None or not _KEYS.exists():
        raise KindlingError(
            "Debian's package lists cannot be read on this machine",
            why=f"apt-get and {_KEYS} are needed",
            remedy="run it on Debian, with the package debian-archive-keyring",
        )
    with tempfile.TemporaryDirectory(prefix="kindling-apt-") as folder:
        yield Archive(Path(folder))


def sources() -> str:
    """The suites that images are of, at the mirrors that this machine's apt is set up with.

    The next suite too, whose lists may be overdue: its mirrors are not always up to date.

    :raises KindlingError: where apt knows of no mirror of Debian's.
    """
    said = processes.run(["apt-get", *_TARGETS], timeout=SECONDS, env={"LC_ALL": "C"})
    targets = dict.fromkeys(tuple(line.split("|", 2)) for line in said.splitlines() if line.count("|") >= 2)
    lines = [
        f"deb [signed-by={_KEYS}] {uri} {suite} main\n"
        for origin, label, uri in targets
        if origin == "Debian"
        for suite in _SUITES.get(label, ())
    ]
    lines += [
        f"deb [signed-by={_KEYS} check-valid-until=no] {uri} {NEXT_SUITE} main\n"
        for origin, label, uri in targets
        if (origin, label) == ("Debian", "Debian")
    ]
    if not lines:
        raise KindlingError(
            "no mirror of Debian's is known on this machine",
            why="apt lists none whose origin is Debian",
            remedy="run it on Debian, after `apt-get update`",
        )
    return "".join(lines)


class Archive:
    """`resolve` as often as you like; the lists of an architecture are fetched once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, names: Sequence[str], *, architecture: str) -> dict[str, str]:
        """By package the version that would be installed with these into nothing, base included.

        :raises KindlingError: when apt says that it cannot be.
        """
        args = self._args(architecture)
        simulated = ["-q", "--simulate", "--no-install-recommends", "install", *_BASE, *names]
        output = self._run([*args, *simulated], f"no versions of {', '.join(names)} for {architecture}")
        return {name.partition(":")[0]: version for name, version in _INST.findall(output)}

    def _args(self, architecture: str) -> list[str]:
        root = self._folder / architecture
        args = ["-o", f"APT::Architecture={architecture}", "-o", f"APT::Architectures={architecture}"]
        args += ["-o", f"Dir={root}", "-o", f"Dir::State::status={root}/status", "-o", "APT::Sandbox::User="]
        args += ["-o", "Acquire::Languages=none", "-o", "Dir::Etc::sourceparts=-"]
        if not root.exists():
            for part in (
                "etc/apt/preferences.d",
                "var/lib/apt/lists/partial",
                "var/cache/apt/archives/partial",
            ):
                (root / part).mkdir(parents=True)
            (root / "status").touch()
            (root / "etc/apt/sources.list").write_text(sources())
            (root / "etc/apt/preferences.d/next.pref").write_text(_NEXT_PREFERENCES)
            self._run([*args, "-q", "update"], f"no package lists of Debian for {architecture}")
        return args

    def _run(self, args: Sequence[str], what: str) -> str:
        env = {"LC_ALL": "C", **({"APT_CONFIG": os.devnull} if "APT_CONFIG" in os.environ else {})}
        try:
            return processes.run(["apt-get", *args], timeout=SECONDS, env=env)
        except processes.ProgramError as error:
            raise KindlingError(
                what,
                why=error.why or error.what,
                remedy="check that Debian's mirrors can be reached, then run the same command again",
            ) from None


def merged(found: Iterable[Mapping[str, str]]) -> Pins:
    """One lock of what several architectures have."""
    versions: dict[str, list[str]] = {}
    for each in found:
        for name, version in each.items():
            versions.setdefault(name, []).append(version)
    return {name: tuple(dict.fromkeys(several)) for name, several in versions.items()}

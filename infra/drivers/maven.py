"""Files from a Maven repository: downloaded once, checked against a pinned checksum, kept in the cache.

Plain HTTP instead of Maven itself, so that a machine needs no Java: one pinned file has no dependencies
to resolve. An image's folder pins what it needs in `maven.toml`, beside its Containerfile.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import tomllib
import urllib.error
import urllib.request
import xml.etree.ElementTree as xml
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from infra import locks, paths
from infra.errors import KindlingError
from infra.progress import Progress, Step

CENTRAL = "https://repo.maven.apache.org/maven2"
VARIABLE = "KINDLING_MAVEN_REPOSITORY"
PINS = "maven.toml"
MIB = 2**20
ATTEMPTS = 5
PAUSE_SECONDS = 1.0
SILENCE_SECONDS = 60.0
# What a step is estimated by: 10 MiB/s, a common line.
BYTES_PER_SECOND = 10 * MIB


@dataclass(frozen=True)
class Artifact:
    """One file of a repository; `coordinates` are GROUP:ARTIFACT:VERSION:EXTENSION:CLASSIFIER, the last of
    which may be empty.
    """

    coordinates: str
    size: int
    sha512: str

    @property
    def name(self) -> str:
        """`pulsar-server-distribution 4.0.4`."""
        _group, artifact, version, _extension, _classifier = self.coordinates.split(":")
        return f"{artifact} {version}"

    @property
    def path(self) -> str:
        """Where every Maven repository has it."""
        group, artifact, version, extension, classifier = self.coordinates.split(":")
        folder = f"{group.replace('.', '/')}/{artifact}/{version}"
        name = "-".join(filter(None, (artifact, version, classifier)))
        return f"{folder}/{name}.{extension}"

    @property
    def location(self) -> Path:
        """Where it is in the cache, or would be."""
        return paths.cache_dir() / "maven" / self.path

    @property
    def step(self) -> Step:
        """The download, as it is announced and reported."""
        return Step(f"Download {self.name} ({self.size // MIB} MiB)", self.size / BYTES_PER_SECOND)


def pinned(folder: Path) -> Artifact | None:
    """What an image's folder asks for, if anything."""
    pins = folder / PINS
    return Artifact(**tomllib.loads(pins.read_text(encoding="utf-8"))) if pins.exists() else None


def fetch(artifact: Artifact, progress: Progress | None = None) -> Path:
    """The file in the cache, downloaded first where it is missing.

    Raises `KindlingError` when no attempt brings the whole file, or what came is another one.
    """
    target = artifact.location
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            (progress or Progress()).step(artifact.step.name) as detail,
            locks.exclusive(target.parent, say=detail),
        ):
            # Another run may have brought it while this one waited.
            if not target.exists():
                _download(artifact, target, detail)
    return target


def repository() -> str:
    """The repository's address: the environment's, else the user's mirror of Central, else Central.

    Raises `KindlingError` where Maven's settings cannot be read.
    """
    return (os.environ.get(VARIABLE) or _mirror(Path.home() / ".m2" / "settings.xml") or CENTRAL).rstrip("/")


def _mirror(settings: Path) -> str | None:
    """The mirror of Central in Maven's own settings, by Maven's rules for `mirrorOf`."""
    try:
        mirrors = xml.parse(settings).getroot().findall("{*}mirrors/{*}mirror")
    except FileNotFoundError:
        return None
    except (OSError, xml.ParseError) as error:
        raise KindlingError(
            f"{settings} cannot be read",
            why=str(error),
            remedy=f"fix it, or name the repository in {VARIABLE}.",
        ) from None
    for mirror in mirrors:
        of = {word.strip() for word in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        blocked = mirror.findtext("{*}blocked") == "true"
        if of & {"central", "*", "external:*"} and "!central" not in of and not blocked:
            return (mirror.findtext("{*}url") or "").strip() or None
    return None


def _download(artifact: Artifact, target: Path, say: Callable[[str], None]) -> None:
    """Bring the whole file, going on from what an earlier attempt or run left."""
    address = f"{repository()}/{artifact.path}"
    partial = target.with_name(target.name + ".partial")
    problem = ""
    with partial.open("ab") as file:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_SECONDS)
            try:
                _go_on(artifact, address, file, say)
                problem = f"it ended after {file.tell()} of {artifact.size} bytes"
            except urllib.error.HTTPError as error:
                problem = f"HTTP status {error.code} {error.reason}"
                if error.code < 500:
                    break
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = str(error)
            if file.tell() == artifact.size:
                break
        whole = file.tell() == artifact.size
    if not whole:
        raise KindlingError(
            f"{artifact.name} could not be downloaded",
            why=f"{address}: {problem}",
            remedy="check that the repository can be reached and run the same command again, which goes on "
            f"from there; {VARIABLE}, or a mirror of central in ~/.m2/settings.xml, names another.",
        )
    _check(artifact, partial, address)
    os.replace(partial, target)


def _go_on(artifact: Artifact, address: str, file: IO[bytes], say: Callable[[str], None]) -> None:
    """One request, for what is not there yet."""
    have = file.tell()
    if have == artifact.size:
        return
    headers = {"User-Agent": "kindling", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=SILENCE_SECONDS) as answer:
        # Anything but "partial content" is the file from its beginning.
        start = have if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
        if answer.length is not None and start + answer.length != artifact.size:
            raise _another(artifact, f"{address} is {start + answer.length} bytes long, not {artifact.size}")
        file.truncate(start)
        file.seek(start)
        while chunk := answer.read(min(MIB, artifact.size - file.tell())):
            file.write(chunk)
            say(f"{file.tell() // MIB} of {artifact.size // MIB} MiB")


def _check(artifact: Artifact, partial: Path, address: str) -> None:
    with partial.open("rb") as file:
        found = hashlib.file_digest(file, "sha512").hexdigest()
    if found != artifact.sha512:
        partial.unlink()
        raise _another(artifact, f"{address} has the SHA-512 {found}, not {artifact.sha512}")


def _another(artifact: Artifact, why: str) -> KindlingError:
    return KindlingError(
        f"what was found is not {artifact.name}",
        why=why,
        remedy=f"run the same command again; if it recurs, name another repository in {VARIABLE}.",
    )

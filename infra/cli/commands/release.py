"""`release`: a folder with all that is needed to install the operator without this checkout.

Of one commit, and the images by digest that were built of it. It is made elsewhere first and then moved, so
that a release that is there is whole.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from infra import image_references, paths
from infra import release as releases
from infra.cli.arguments import Command
from infra.distribution import files, integrations, notes, provenance, signing, versions
from infra.distribution.files import Source
from infra.drivers import git
from infra.errors import KindlingError, listed
from infra.progress import Progress

MOST_NAMED = 5
PREFIX = "kindling-"
# What is in a release and not deployed by `up`.
BESIDE = (notes.CHANGELOG, notes.UPGRADING, integrations.FOLDER)


def run(command: Command) -> int:
    """Make the release; what is wrong with the arguments or the checkout is said before anything is made."""
    assert command.output is not None
    versions.check(command.version)
    _check_url(command.url)
    images = references(command.images)
    _require_empty(command.output)
    key = (
        signing.read_key(command.signing_key, passphrase=os.environ.get(signing.PASSPHRASE))
        if command.signing_key is not None
        else None
    )
    source = _source(command, images)
    with Progress().step(f"Render the release of {releases.short(source.commit)}"):
        made = files.of(source, paths.REPOSITORY)
    if key is not None:
        found = provenance.statement(source, made, provenance.dependencies(paths.REPOSITORY))
        made[provenance.FILE] = provenance.envelope(found, key)
        made[signing.SIGNATURE] = signing.sign(key, made[files.SUMS])
    _write(made, command.output)
    for path in sorted(made):
        print(f"  {path}")
    signed = "" if key is not None else ", unsigned"
    print(
        f"Release {source.version} of commit {releases.short(source.commit)} is in {command.output}{signed}."
    )
    return 0


def references(given: Sequence[str]) -> dict[str, str]:
    """The images by name; raises `KindlingError` unless each is there once, by digest."""
    wanted, found = files.image_names(), dict[str, str]()
    for text in given:
        name, _, reference = text.rpartition("=")
        path = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
        name = name or path.removeprefix(PREFIX)
        if name not in wanted:
            raise _wrong(
                text,
                why=f"`{name}` is none of the images of a release: {', '.join(wanted)}",
                remedy="write NAME=REFERENCE with one of these.",
            )
        if name in found:
            raise _wrong(text, why=f"`{name}` is {found[name]} already", remedy="name each image once.")
        if image_references.by_digest({name: reference}) is None:
            raise _wrong(
                text,
                why="a release is what was tested, and another image may be under the same tag tomorrow",
                remedy="name it by digest, HOST/PATH@sha256:DIGEST; output `images` of a stack has them.",
            )
        found[name] = reference
    if missing := [name for name in wanted if name not in found]:
        raise KindlingError(
            f"--images lacks {', '.join(missing)}",
            why="the operator runs them",
            remedy=f"name {'it' if len(missing) == 1 else 'each of them'} by digest.",
        )
    return found


def _wrong(text: str, *, why: str, remedy: str) -> KindlingError:
    return KindlingError(f"--images cannot have `{text}`", why=why, remedy=remedy)


def _check_url(url: str) -> None:
    if url and not re.fullmatch(r"https://[^\s/@]+(/[^\s]*)?", url):
        raise KindlingError(
            f"--url cannot be `{url}`",
            why="krew downloads the plugin from below this address, and only by HTTPS",
            remedy="name one such as https://downloads.example.com/kindling/1.2.3, without a login.",
        )


def _require_empty(output: Path) -> None:
    if not output.exists():
        return
    if not output.is_dir() or any(output.iterdir()):
        raise KindlingError(
            f"--output cannot be `{output}`",
            why="it is no empty folder, and a release has its own files alone",
            remedy="name a folder that does not exist yet, or empty it.",
        )


def _source(command: Command, images: dict[str, str]) -> Source:
    root, deployed = paths.REPOSITORY, releases.deployed()
    if not deployed.commit:
        raise KindlingError(
            "this checkout is of no commit",
            why="a release is made of one, and found again by it",
            remedy="clone the repository, then run the same command in the clone.",
        )
    uncommitted = sorted({*deployed.uncommitted, *git.changed(root, BESIDE)})
    if uncommitted and not command.allow_dirty:
        raise KindlingError(
            f"{len(uncommitted)} files are in no commit, so nobody could make this release again",
            why=listed(uncommitted, most=MOST_NAMED),
            remedy="commit them, or pass --allow-dirty: the release then names them.",
        )
    seconds = int(git.run("show", "--no-patch", "--format=%ct", deployed.commit, folder=root))
    return Source(
        version=command.version,
        commit=deployed.commit,
        time=datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        contents=deployed.contents,
        images=images,
        uncommitted=uncommitted,
        url=command.url,
    )


def _write(made: dict[str, bytes], output: Path) -> None:
    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    partial = output.absolute().with_name(f".{output.name}.{os.getpid()}")
    try:
        for path, content in made.items():
            place = partial / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            if content.startswith(b"#!"):
                place.chmod(0o755)
        os.replace(partial, output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)

"""A release: the commit a stack was proven at, what of it makes the deployment, and the images by digest.

One thing, because its parts are right together alone: the definitions, the operator's rights and its Pod come
of the commit, its images of the registry. A stack of promoted images runs what `releases/STACK.json` says,
which `promote` writes and people review. What differs between stacks is in their settings, which are no
part of a release and are taken as they are today.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra import image_references, paths
from infra.drivers import git
from infra.errors import KindlingError, listed
from infra.paths import left_behind

FOLDER = "releases"
# All that says what is deployed, and nothing that says where.
PARTS = ("Pulumi.yaml", "__main__.py", "crds", "infra", "operator", "requirements.txt", "samples")
SHORT = 12
MOST_NAMED = 5

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_CONTENTS = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Release:
    """`commit` in full, `contents` as the function of that name has it, `images` references by name and
    digest; `source` is the stack that it was proven on.
    """

    commit: str
    contents: str
    images: Mapping[str, str]
    source: str


@dataclass(frozen=True)
class Deployed:
    """What a stack that builds its images was last deployed from, in its output `release`.

    `commit` is empty outside of a Git repository, `uncommitted` are the files that were not as in the commit.
    """

    commit: str
    contents: str
    uncommitted: tuple[str, ...] = ()


def path(stack: str, root: Path | None = None) -> Path:
    """Where the stack's release is written down, in this checkout or another."""
    return (root or paths.REPOSITORY) / FOLDER / f"{stack}.json"


def read(stack: str, root: Path | None = None) -> Release | None:
    """What the stack is to run; None before the first promotion.

    :raises KindlingError: where the file is not as `promote` writes it.
    """
    file = path(stack, root)
    try:
        return parse(file.read_text(encoding="utf-8"), name=f"{FOLDER}/{file.name}")
    except FileNotFoundError:
        return None


def parse(text: str, *, name: str) -> Release:
    """Raises `KindlingError` with the file's name and the field that is wrong."""
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise _wrong(name, f"it is not JSON: {error}") from None
    if not isinstance(found, dict) or set(found) != {"commit", "contents", "images", "source"}:
        raise _wrong(name, "it must be an object of commit, contents, images and source")
    images = image_references.by_digest(found["images"])
    if not images:
        raise _wrong(name, "`images` must be references by name, each HOST/PATH@sha256:DIGEST")
    for key, form, means in (
        ("commit", _COMMIT, "a commit in full, 40 hex digits"),
        ("contents", _CONTENTS, "64 hex digits"),
        ("source", re.compile(r"\S+"), "the name of a stack"),
    ):
        if not isinstance(found[key], str) or not form.fullmatch(found[key]):
            raise _wrong(name, f"`{key}` must be {means}, not `{found[key]}`")
    return Release(found["commit"], found["contents"], images, found["source"])


def written(release: Release) -> str:
    """The text that `parse` reads."""
    return json.dumps({**asdict(release), "images": dict(sorted(release.images.items()))}, indent=2) + "\n"


def contents(root: Path | None = None) -> str:
    """64 hex digits over every path, executable bit and byte of what a deployment is made of.

    What tools leave there does not count, nor do times and owners; so a clone has the same.
    """
    digest = hashlib.sha256()
    for file, name in _files(root or paths.REPOSITORY):
        content = file.read_bytes()
        executable = bool(file.stat().st_mode & 0o100)
        digest.update(f"{name}\0{executable}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    for part in PARTS:
        if (root / part).is_file():
            yield root / part, part
        for file in sorted((root / part).rglob("*")):
            inside = file.relative_to(root / part)
            if file.is_file() and not any(map(left_behind, inside.parts)):
                yield file, f"{part}/{inside.as_posix()}"


def deployed() -> Deployed:
    """What an `up` from this checkout deploys."""
    root = paths.REPOSITORY
    commit = git.commit(root)
    return Deployed(commit, contents(), tuple(_uncommitted(root)) if commit else ())


def _uncommitted(root: Path) -> list[str]:
    """What is counted here and is otherwise in the commit, or not at all."""
    changed = git.changed(root, PARTS)
    return [file for file in changed if not any(map(left_behind, Path(file).parts))]


def of_outputs(outputs: Mapping[str, Any], *, source: str) -> Release:
    """What `source` was proven with, from the outputs of its last `up`.

    :raises KindlingError: where that cannot be run elsewhere or be found again.
    """
    images = outputs.get("images")
    found = image_references.by_digest(images) if images else None
    again = f"python3 -m infra up {source}"
    if not found:
        raise KindlingError(
            f"stack `{source}` has no images that can be promoted",
            why="its output `images` must name each by its digest in a registry"
            + ("; those of a kind cluster are on its nodes alone" if images else ", and is missing"),
            remedy=f"promote from a stack with kindling:cluster existing, after {again}",
        )
    output = outputs.get("release") or {}
    commit, uncommitted = output.get("commit", ""), output.get("uncommitted", [])
    if not commit:
        raise KindlingError(
            f"stack `{source}` does not say which commit it was deployed from",
            why="its last `up` ran outside of a Git repository, or before releases had a commit",
            remedy=f"{again} from a clone, then promote.",
        )
    if uncommitted:
        raise KindlingError(
            f"stack `{source}` was deployed from commit {short(commit)} with changes that are in no commit",
            why=listed(uncommitted, most=MOST_NAMED),
            remedy=f"commit them, {again}, then promote.",
        )
    return Release(commit, output["contents"], found, source)


def check(stack: str, release: Release | None, root: Path | None = None) -> None:
    """Raise `KindlingError` unless the checkout is the stack's release; without one any may be.

    :param root: the checkout; this one where none is given
    """
    root = root or paths.REPOSITORY
    if release is None or contents(root) == release.contents:
        return
    commit = git.commit(root)
    here = f"commit {short(commit)}" if commit else "no commit of a Git repository"
    changed = _uncommitted(root) if commit else []
    if commit == release.commit and not changed:
        raise _wrong(f"{FOLDER}/{stack}.json", f"its `contents` are not those of commit {short(commit)}")
    if changed:
        here += f" with changes ({listed(changed, most=MOST_NAMED)})"
    raise KindlingError(
        f"stack `{stack}` runs the release of commit {short(release.commit)}, and this checkout is {here}",
        why=f"{FOLDER}/{stack}.json says what stack `{release.source}` was proven with; the definitions, the "
        "operator's rights and its Pod come of that commit, as its images do",
        remedy=f"python3 -m infra checkout {stack} FOLDER, and run the same command in FOLDER; "
        f"or promote another release to stack `{stack}`.",
    )


def short(commit: str) -> str:
    """As much of a commit as people compare."""
    return commit[:SHORT]


def _wrong(name: str, why: str) -> KindlingError:
    return KindlingError(
        f"{name} is no release", why=why, remedy="write it by `python3 -m infra promote`, or take Git's."
    )

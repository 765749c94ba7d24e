"""Promotion: the release that one stack was proven with is what another is to run: the choice and its
description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra import release as releases
from infra.drivers import git
from infra.errors import KindlingError, listed
from infra.release import Release, short

MOST_NAMED = 8


@dataclass(frozen=True)
class ImageChange:
    """One image of the target, by the references it had and gets; empty for none."""

    name: str
    before: str
    after: str


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[ImageChange]:
    """What differs, by name."""
    names = sorted({*before, *after})
    found = [ImageChange(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [change for change in found if change.before != change.after]


def earlier(target: str, wanted: str, *, source: str, root: Path) -> Release:
    """The release of a commit that `target` was once to run, of Git's history of its file.

    `wanted` is the commit or its beginning. Raises `KindlingError` where there is none, or more than one.
    """
    file = f"{releases.FOLDER}/{target}.json"
    known: dict[str, Release] = {}
    for text in git.versions(file, folder=root):
        found = releases.parse(text, name=file)
        if found.source == source:
            known.setdefault(found.commit, found)
    chosen = [commit for commit in known if commit.startswith(wanted.lower())]
    if len(chosen) == 1:
        return known[chosen[0]]
    which = (
        f"known are {listed([short(each) for each in known], most=MOST_NAMED)}" if known else "there is none"
    )
    raise KindlingError(
        f"`{wanted}` names {'more than one release' if chosen else 'no release'} of stack `{target}`",
        why=f"Git's history of {file} has the releases that it was to run, of stack `{source}`: {which}",
        remedy="name one by its commit. Where the history is cut short: git fetch --unshallow "
        "(`fetch-depth: 0` of actions/checkout).",
    )


def summary(target: str, before: Release | None, after: Release) -> list[str]:
    """What the promotion changes, line by line."""
    was = short(before.commit) if before is not None else "none"
    lines = [
        f"{releases.FOLDER}/{target}.json now has the release of stack {after.source}:",
        f"  commit: {was} -> {short(after.commit)}",
    ]
    for change in changes(before.images if before is not None else {}, after.images):
        lines.append(f"  {change.name}: {_short(change.before)} -> {_short(change.after)}")
    return lines


def back(target: str, before: Release) -> str:
    """The command that promotes what the target was to run until now."""
    return f"python3 -m infra promote {before.source} {target} --release {short(before.commit)}"


def page(target: str, before: Release | None, after: Release, *, commits: Sequence[str]) -> str:
    """The pull request's text, in Markdown; `commits` are those between the two, each in a line."""
    lines = ["```", *summary(target, before, after), "```", ""]
    if commits:
        lines += ["What comes with it:", "", *(f"- {each}" for each in commits), ""]
    if before is not None:
        lines.append(f"The way back: `{back(target, before)} --pull-request`")
    return "\n".join(lines).rstrip() + "\n"


def _short(reference: str) -> str:
    """A reference with as much of its digest as people compare."""
    place, _, digest = reference.partition("@sha256:")
    return f"{place}@sha256:{digest[:12]}" if digest else reference or "none"

"""The notes of a release: its part of the changelog, what an upgrade to it needs, and its images."""

from __future__ import annotations

import re
from collections.abc import Mapping

from infra.distribution import versions
from infra.errors import KindlingError

CHANGELOG = "CHANGELOG.md"
UPGRADING = "docs/upgrading.md"
UNRELEASED = "Unreleased"


def text(version: str, *, commit: str, changelog: str, upgrading: str, images: Mapping[str, str]) -> str:
    """The notes as Markdown.

    :raises KindlingError: for a version that one of the two documents does not know
    """
    rows = "\n".join(f"| `{name}` | `{reference}` |" for name, reference in sorted(images.items()))
    return (
        f"# Kindling {version}\n\n"
        f"Of commit `{commit}`. `sha256sum --check SHA256SUMS` compares the files with what was released.\n\n"
        f"## Changes\n\n{section(changelog, version, level=2, file=CHANGELOG)}\n\n"
        f"## Before you upgrade\n\n{section(upgrading, version, level=3, file=UPGRADING)}\n\n"
        f"## Images\n\n| image | by digest |\n|---|---|\n{rows}\n"
    )


def section(document: str, version: str, *, level: int, file: str) -> str:
    """What is below the version's heading, up to the next of its level or above.

    A pre-release has what is not released yet, unless it has a heading of its own.
    """
    allowed = [version, *([UNRELEASED] if versions.is_prerelease(version) else [])]
    for name in allowed:
        heading = rf"^{'#' * level} \[?{re.escape(name)}\]?(?: [^\n]*)?\n"
        if found := re.search(rf"{heading}(.*?)(?=^#{{1,{level}}} |\Z)", document, re.DOTALL | re.MULTILINE):
            if body := found[1].strip():
                return body
            break
    raise KindlingError(
        f"{file} says nothing of version `{version}`",
        why=f"the notes of a release are what is below its heading, `{'#' * level} {version}`",
        remedy=f"rename `{'#' * level} {UNRELEASED}` of {file} to that, and commit it.",
    )

"""What a release may be called: Semantic Versioning 2.0.0, without a `v`."""

from __future__ import annotations

import re

from infra.errors import KindlingError

_NUMBER = r"(?:0|[1-9][0-9]*)"
_WORD = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM = re.compile(
    rf"(?P<core>{_NUMBER}\.{_NUMBER}\.{_NUMBER})(?P<pre>-{_WORD}(?:\.{_WORD})*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def check(version: str) -> None:
    """Raise `KindlingError` unless it is a version, with the one that it may have meant."""
    if _FORM.fullmatch(version):
        return
    bare = version.removeprefix("v")
    meant = bare if _FORM.fullmatch(bare) else "1.2.3, or 1.2.3-rc.1 for a pre-release"
    raise KindlingError(
        f"--version cannot be `{version}`",
        why="a release has a version of Semantic Versioning: three numbers, MAJOR.MINOR.PATCH",
        remedy=f"name one such as {meant}.",
    )


def is_prerelease(version: str) -> bool:
    """Whether it comes before the version that it is named after."""
    found = _FORM.fullmatch(version)
    return found is not None and found["pre"] is not None

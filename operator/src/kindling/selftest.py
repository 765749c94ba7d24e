"""`python3 -m kindling.selftest FILE...`: kill this operator at each of its writes, on your own manifests.

It is the program `selftest` of the checkout that this code is in; the operator's image and package have no
tests and no API server, and say so. `python3 -m infra selftest` of the checkout prepares all that it needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parents[3]
SOURCES = ("", "operator/src", "operator/images/postgres-backup")
NEEDED = ("aiohttp", "psycopg", "pytest", "yaml")
"""Of the development packages: where these are, so are the others."""


def why_not(checkout: Path) -> str:
    """Why it cannot run here, with the remedy; empty where it can."""
    if not (checkout / "selftest" / "__main__.py").is_file():
        return (
            f"{checkout} is no checkout of Kindling, and this needs the tests of one: get the commit of the "
            "release, and run `python3 -m infra selftest` there"
        )
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        return (
            f"this Python lacks {', '.join(missing)}: run `python3 -m infra selftest` in {checkout}, which "
            "installs the development packages"
        )
    return ""


def become(args: Sequence[str], checkout: Path) -> NoReturn:
    """That program, in this process."""
    sources = [str(checkout / name) for name in SOURCES]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sources, os.environ.get("PYTHONPATH", "")])}
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "selftest", *args], env)  # noqa: S606  (no shell)


if __name__ == "__main__":
    if problem := why_not(CHECKOUT):
        print(f"kindling.selftest: {problem}", file=sys.stderr)
        sys.exit(2)
    become(sys.argv[1:], CHECKOUT)

"""`python3 -m bench`: our operator beside Go ones, on one API server, in turns.

Writes `bench/results.json` again after each measurement, and `bench/results.html`, the same as a page.
"""

from __future__ import annotations

import os
import sys

from infra import paths
from infra.bootstrap import virtualenv
from infra.errors import KindlingError
from infra.progress import Progress

REQUIREMENTS = "requirements-dev.txt"


def main() -> int:
    """Go on in the development environment, which is made first where it is missing."""
    python = virtualenv.ensure(REQUIREMENTS, progress=Progress())
    path = os.pathsep.join([str(paths.REPOSITORY), str(paths.REPOSITORY / "operator" / "src")])
    words = [str(python), "-m", "bench.run", *sys.argv[1:]]
    os.execve(python, words, {**os.environ, "PYTHONPATH": path})  # noqa: S606  (no shell is the point)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KindlingError as error:
        sys.exit(f"error: {error}")

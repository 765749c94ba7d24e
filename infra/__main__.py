"""`python3 -m infra`: see `infra.cli.launcher`. This file is read by older Pythons too, which it refuses."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (that it is older is what is to be found out)
    sys.exit(
        "error: Python %d.%d is too old for Kindling: it needs 3.11 or newer.\n"  # noqa: UP031
        "  remedy: run the same command with a newer one, as in: python3.11 -m infra" % sys.version_info[:2]
    )

from infra.cli.launcher import start

if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))

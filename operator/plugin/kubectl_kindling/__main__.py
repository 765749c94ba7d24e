"""The entry, also of the zip file; written so that an older Python can read it and say what it lacks."""

import os
import sys

OLDEST = (3, 11)
COMPLETES = "kubectl_complete-kindling"
"""By this name kubectl calls the program for its completion."""


def main():  # type: () -> int
    if sys.version_info < OLDEST:
        sys.stderr.write(
            "error: kubectl-kindling needs Python %d.%d or later\n" % OLDEST  # noqa: UP031
            + "  why: python3 is Python %d.%d\n" % sys.version_info[:2]  # noqa: UP031
            + "  remedy: put a newer python3 first on PATH.\n"
        )
        return 3
    if os.path.basename(sys.argv[0]) == COMPLETES:
        from kubectl_kindling import completion

        return completion.run(sys.argv[1:])
    from kubectl_kindling.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

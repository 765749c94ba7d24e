"""`python3 -m infra`: see `infra.cli`."""

from __future__ import annotations

import sys

from infra.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

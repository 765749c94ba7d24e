"""What `python3 -m infra` becomes once its virtual environment exists (`infra.cli.launcher`)."""

import sys

from infra.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""An application that reads its caches from a binding, as the guide has it; run as a program, with a folder.

It prints a line each second: the servers that it knows, and of 100 items that it sets and gets how many it
found. `tests/cluster/test_memcached.py` runs it in a Pod, `test_memcached_application.py` on this machine.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pymemcache.client.hash import HashClient

ITEMS = 100


def main(folder: Path) -> None:
    known = ""
    client: Any = None
    while True:
        servers = (folder / "servers").read_text()
        if client is None or servers != known:
            known = servers
            client = HashClient(
                known.split(), ignore_exc=True, connect_timeout=1, timeout=1, retry_attempts=0
            )
        for number in range(ITEMS):
            client.set(f"item-{number}", str(number))
        found = sum(client.get(f"item-{number}") == str(number).encode() for number in range(ITEMS))
        print(json.dumps({"servers": known.split(), "found": found}), flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

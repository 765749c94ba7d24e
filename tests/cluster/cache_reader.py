"""A client that reads through caches by their names, as an application does, and counts its hits; run as a
program in a Pod, with the number of its items, its reads in a second, and the servers.

An item that is not found is set, as from a database. A key stays at its server, also while that is away: its
reads miss then. It prints a line each second: how many items it has read in it, and how many it found.
"""

from __future__ import annotations

import json
import random
import sys
import time

from pymemcache.client.hash import HashClient

LARGEST = 10**6


def main(items: int, a_second: int, servers: list[str]) -> None:
    known = [(host, int(port)) for host, _, port in (server.rpartition(":") for server in servers)]
    client = HashClient(
        known,
        connect_timeout=0.2,
        timeout=0.2,
        ignore_exc=True,
        retry_attempts=LARGEST,
        retry_timeout=0.2,
    )
    for number in range(items):
        client.set(f"item{number}", b"value")
    while True:
        reads = hits = 0
        began = time.monotonic()
        while reads < a_second and time.monotonic() < began + 1:
            key = f"item{random.randrange(items)}"
            reads += 1
            if client.get(key) is not None:
                hits += 1
            else:
                client.set(key, b"value")
            time.sleep(max(0.0, began + reads / a_second - time.monotonic()))
        print(json.dumps({"at": time.time(), "reads": reads, "hits": hits}), flush=True)


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

"""A client that reads the list of its caches every 100 ms, from the API server and from a file, and talks to
all of them; run as a program in a Pod, with the path of the resource in the API and a folder.

It prints a line each second: how many lists it has read of each sort, and what was wrong with any: that it
was empty, that none of its caches answered, or that one was in it which had not answered before and did not.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PERIOD_SECONDS = 0.1
CONNECT_SECONDS = 3.0


def answers(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        # A packet that the cluster's network drops at first is repeated after a second by itself.
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as connection:
            connection.settimeout(1)
            connection.sendall(b"version\r\n")
            return connection.recv(100).startswith(b"VERSION")
    except OSError:
        return False


def of_the_api(path: str) -> Callable[[], list[str]]:
    """status.serverList of that resource."""
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}

    def read() -> list[str]:
        request = urllib.request.Request(f"https://kubernetes.default.svc{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            found: list[str] = json.load(answer)["status"]["serverList"]
            return found

    return read


def main(path: str, folder: Path) -> None:
    sources: dict[str, Callable[[], list[str]]] = {
        "api": of_the_api(path),
        "file": lambda: (folder / "servers").read_text().split(),
    }
    reads, wrong, answered = dict.fromkeys(sources, 0), list[str](), set[str]()
    said = 0.0
    while True:
        began = time.monotonic()
        for source, read in sources.items():
            try:
                servers = read()
            except OSError as error:
                wrong.append(f"{source} was not read: {error}")
                continue
            alive = {server for server in servers if answers(server)}
            reads[source] += 1
            if not servers:
                wrong.append(f"{source} was empty")
            elif not alive:
                wrong.append(f"{source}: none of {servers} answered")
            wrong += [
                f"{source}: {server} never answered, at {time.time():.1f}"
                for server in {*servers} - alive - answered
            ]
            answered |= alive
        if time.monotonic() - said > 1:
            said = time.monotonic()
            print(json.dumps({"reads": reads, "wrong": wrong, "answered": sorted(answered)}), flush=True)
        time.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - began)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

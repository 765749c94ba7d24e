"""`python -m kindling.prober SOCKET`: takes jobs from the operator, at a unix socket, and gives answers.

One connection for each job: a line in, a line out; whoever closes it before wants no answer any more.
Needs no rights in the cluster and keeps no variable but `KEPT`. Ends on SIGTERM, or with its standard input
where that is a pipe or a socket: then its parent is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path

from kindling.prober.jobs import LONGEST_LINE
from kindling.prober.pool import Pool
from kindling.prober.workers import Parent

KEPT = ("RES_OPTIONS",)
"""Variables of the resolver, for where a name server is slow to say that it does not know a name."""


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m kindling.prober SOCKET", file=sys.stderr)
        return 2
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    os.environ.clear()  # libpq takes much from it
    os.environ.update(kept)
    if os.getpgrp() != os.getpid():
        # A terminal's Ctrl-C is the operator's. Not a session: the kernel may share out processor time by
        # sessions, and then the workers' niceness would mean nothing to the operator.
        os.setpgid(0, 0)
    parent = Parent()
    return asyncio.run(serve(parent, Path(sys.argv[1])))


async def serve(parent: Parent, path: Path) -> int:
    """Until a signal; 1 where the workers' parent has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):  # uvloop's and asyncio's pipes are sockets
        loop.add_reader(0, ended.set)
    with suppress(FileNotFoundError):
        path.unlink()
    pool = Pool(parent)
    server = await asyncio.start_unix_server(pool.take, path=path, limit=LONGEST_LINE)
    waiting = [asyncio.ensure_future(event.wait()) for event in (ended, pool.broken)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    server.close()  # its connections end with the process: nobody waits for their jobs
    return int(pool.broken.is_set())


if __name__ == "__main__":
    sys.exit(main())

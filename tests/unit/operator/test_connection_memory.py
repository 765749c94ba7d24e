"""A connection to the API server holds no more for TLS than it needs: the operator has fifty of them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kopf
from kindling.kinds import certificates
from kindling.kube.credentials import TLS_BUFFER_BYTES, Credentials

CONNECTIONS = 20
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
ELSE_BYTES = 100 * 1024
"""What else a connection holds at both of its ends: asyncio, TLS and aiohttp."""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request, until the other side ends the connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)


def context(directory: Path) -> ssl.SSLContext:
    now = datetime.now(UTC)
    authority = certificates.make_authority(b"any", name="any", now=now)
    life = timedelta(days=1)
    hosts = ["localhost"]
    pair = certificates.make_server(b"any", authority=authority, name="any", hosts=hosts, now=now, life=life)
    (directory / "crt").write_text(pair.certificate)
    (directory / "key").write_text(pair.key)
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(directory / "crt", directory / "key")
    return found


def test_a_connection_holds_a_small_buffer(tmp_path: Path) -> None:
    async def run() -> float:
        server = await asyncio.start_server(serve, "localhost", 0, ssl=context(tmp_path))
        port = server.sockets[0].getsockname()[1]
        info = kopf.ConnectionInfo(server=f"https://localhost:{port}", insecure=True)
        async with Credentials(info).session(limit=CONNECTIONS) as session:
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            url = f"{info.server}/version"
            answers = await asyncio.gather(*(session.get(url) for _ in range(CONNECTIONS)))
            held = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            for answer in answers:
                answer.release()
        server.close()
        return held / CONNECTIONS

    # Both ends of each are of this process.
    assert asyncio.run(run()) < 2 * TLS_BUFFER_BYTES + ELSE_BYTES

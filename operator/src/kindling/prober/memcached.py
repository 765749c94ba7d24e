"""memcached's `stats`, asked of a server that nobody vouches for: one connection, little is read."""

from __future__ import annotations

import socket

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.memcached.stats import COUNTERS, MOST, StatsRequest

SECONDS = 5.0
"""For each step of it; the pool has a deadline for all."""
LONGEST_ANSWER = 2**15
"""Bytes: memcached's own is of 3 KiB."""
LONGEST_QUOTE = 80
_STAT, _END = b"STAT ", b"END\r\n"
_DIGITS = len(str(MOST))


class _NoStats(Exception):
    """What was answered instead."""


def query(address: tuple[str, int], request: StatsRequest) -> ExternalResult:
    """Never raises for what a server may answer."""
    try:
        return ExternalResult(ok=True, facts=_counters(_ask(address)))
    except (OSError, _NoStats) as error:
        why = str(error) if isinstance(error, _NoStats) else f"{type(error).__name__}: {error}"
        pod = request.pod
        return ExternalResult(
            ok=False,
            reason=reasons.NOT_RESPONDING,
            message=f"memcached at {request.host}:{request.port} gave no statistics: {why}. It is asked "
            f"again within minutes; see Pod {pod} (`kubectl logs {pod} -n {request.namespace}`).",
        )


def _ask(address: tuple[str, int]) -> bytes:
    with socket.create_connection(address, timeout=SECONDS) as connection:
        connection.sendall(b"stats\r\n")
        answer = bytearray()
        while not answer.endswith(_END):
            if len(answer) == LONGEST_ANSWER:
                raise _NoStats(f"it answered more than {LONGEST_ANSWER} bytes")
            part = connection.recv(LONGEST_ANSWER - len(answer))
            if not part:
                raise _NoStats("it closed the connection")
            answer += part
            if not answer.startswith((_STAT[: len(answer)], _END[: len(answer)])):
                raise _NoStats(f"it answered {bytes(answer[:LONGEST_QUOTE])!r}")
    return bytes(answer)


def _counters(answer: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in answer.split(b"\r\n"):
        word, _, rest = line.partition(b" ")
        name, _, value = rest.decode("ascii", "replace").partition(" ")
        if word == b"STAT" and name in COUNTERS and value.isascii() and value.isdecimal():
            found[name] = min(int(value), MOST) if len(value) <= _DIGITS else MOST
    if missing := [name for name in COUNTERS if name not in found]:
        raise _NoStats(f"its answer has no {missing[0]}")
    return found

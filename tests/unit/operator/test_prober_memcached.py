"""The prober and a cache's statistics: a real one's are what it says, a hostile one ends in an answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.memcached.stats import COUNTERS, ENOUGH_READS, MOST, RATIO, READS, StatsRequest
from kindling.prober import jobs
from kindling.prober.client import ChildProber
from kindling.prober.memcached import LONGEST_ANSWER
from kindling.prober.pool import QUICK_SECONDS

from tests.unit.operator.caches import Cache, running
from tests.unit.operator.shared_prober import shared_prober
from tests.unit.operator.tcp_servers import MARGIN_SECONDS, garbage, hang, serving


@pytest.fixture(params=["127.0.0.1", "::1"])
def cache(request: pytest.FixtureRequest) -> Iterator[Cache]:
    with running(request.param) as found:
        yield found


def query(host: str, port: int) -> tuple[ExternalResult, float]:
    """What the prober's process answers, and after how many seconds."""

    return shared_prober().run(StatsRequest(namespace="ns", host=host, port=port, pod="cache-0"))


def test_it_says_what_a_real_memcached_says(cache: Cache) -> None:
    words = [word for number in range(7) for word in (f"set k{number} 0 0 1", "x")]
    cache.talk(*words, "get k0", "get k1", "get none", "mn", ends=b"MN\r\n")
    answer, _ = query(cache.host, cache.port)
    assert answer.ok, answer
    assert answer.facts == cache.counters()
    assert {name: answer.facts[name] for name in ("get_hits", "get_misses", "curr_items", "evictions")} == {
        "get_hits": 2,
        "get_misses": 1,
        "curr_items": 7,
        "evictions": 0,
    }
    assert answer.facts["bytes"] > 0


@pytest.mark.parametrize(("hits", "misses"), [(0, 0), (2, 1), (150, 50)])
def test_the_ratio_alone_differs_no_more_once_there_were_reads_enough(
    cache: Cache, hits: int, misses: int
) -> None:
    reads = ["get here"] * hits + ["get none"] * misses
    cache.talk("set here 0 0 1", "x", *reads, "mn", ends=b"MN\r\n")
    request = StatsRequest(namespace="ns", host=cache.host, port=cache.port, pod="cache-0", ratio=True)
    answer, _ = shared_prober().run(request)
    ratio = 100 * hits // (hits + misses) if hits else 0
    assert answer.facts == {RATIO: ratio, READS: min(hits + misses, ENOUGH_READS)}


def test_evictions_are_those_of_a_full_cache(cache: Cache) -> None:
    value = "x" * 500_000
    for start in range(0, 60, 10):
        words = [word for n in range(start, start + 10) for word in (f"set k{n} 0 0 {len(value)}", value)]
        cache.talk(*words, "mn", ends=b"MN\r\n")
    answer, _ = query(cache.host, cache.port)
    assert answer.facts == cache.counters()
    assert answer.facts["evictions"] > 0
    assert answer.facts["curr_items"] < 60


def drip(client: socket.socket) -> None:
    """Never silent for long, and never done."""
    client.sendall(b"STAT x ")
    while True:
        client.sendall(b"1")
        time.sleep(0.2)


def endless_line(client: socket.socket) -> None:
    client.sendall(b"STAT pid ")
    while True:
        client.sendall(b"1" * 65536)


def endless_answer(client: socket.socket) -> None:
    while True:
        client.sendall(b"STAT get_hits 1\r\n" * 4096)


def error(client: socket.socket) -> None:
    """As one that asks for authentication."""
    client.sendall(b"CLIENT_ERROR unauthenticated\r\n")


def nothing(client: socket.socket) -> None:
    client.recv(100)


def no_counters(client: socket.socket) -> None:
    client.sendall(b"STAT pid 1\r\nEND\r\n")


def odd_numbers(client: socket.socket) -> None:
    values = ("-1", "1" * 400, "\u0661", "1.5", "")
    client.sendall("".join(f"STAT {n} {v}\r\n" for n, v in zip(COUNTERS, values, strict=True)).encode())
    client.sendall(b"END\r\n")


@pytest.mark.parametrize(
    ("act", "word"),
    [
        (hang, "TimeoutError"),
        (drip, "did not answer within"),
        (endless_line, f"more than {LONGEST_ANSWER} bytes"),
        (endless_answer, f"more than {LONGEST_ANSWER} bytes"),
        (garbage, "it answered b'"),
        (error, "CLIENT_ERROR unauthenticated"),
        (nothing, "closed the connection"),
        (no_counters, "no get_hits"),
        (odd_numbers, "no get_hits"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_every_hostile_server_ends_in_an_answer(act: Callable[[socket.socket], None], word: str) -> None:
    with serving(act) as port:
        answer, took = query("127.0.0.1", port)
    assert (answer.ok, answer.reason, answer.facts) == (False, "NotResponding", {})
    assert word in answer.message
    assert "cache-0" in answer.message
    assert took < QUICK_SECONDS + MARGIN_SECONDS


@pytest.mark.parametrize("port", [1, 99999])
def test_a_port_where_nobody_is_ends_in_an_answer(port: int) -> None:
    answer, _ = query("127.0.0.1", port)
    assert (answer.ok, answer.reason) == (False, "NotResponding")


@pytest.mark.parametrize(
    ("ratio", "when"), [(False, "again within minutes; see Pod"), (True, "again; see Pod")]
)
def test_what_failed_says_when_it_is_asked_again(ratio: bool, when: str) -> None:
    request = StatsRequest(namespace="ns", host="127.0.0.1", port=1, pod="cache-0", ratio=ratio)
    answer, _ = shared_prober().run(request)
    assert when in answer.message


def test_while_many_hang_another_namespaces_cache_answers(cache: Cache) -> None:
    async def steps() -> None:
        own = ChildProber()
        try:
            await own.start()
            with contextlib.ExitStack() as stack:
                waiting: list[asyncio.Future[ExternalResult | None]] = []
                for _ in range(40):
                    port = stack.enter_context(serving(hang))
                    asked = StatsRequest(namespace="rude", host="127.0.0.1", port=port)
                    waiting.append(asyncio.ensure_future(own.send(asked)))
                await asyncio.sleep(0.5)
                began = time.monotonic()
                answer = await own.run(StatsRequest(namespace="ns", host=cache.host, port=cache.port))
                assert answer.ok
                assert time.monotonic() - began < 2
                for each in waiting:
                    each.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
        finally:
            await own.close()

    asyncio.run(steps())


def test_what_a_worker_that_was_taken_over_says_is_numbers_or_nothing() -> None:
    facts = dict(zip(COUNTERS, (True, -1, "7", MOST + 1, MOST), strict=True))
    answer = jobs.read(jobs.written(ExternalResult(ok=True, facts={**facts, "pid": 1})))
    assert answer is not None
    assert answer.facts == {COUNTERS[0]: 1, COUNTERS[4]: MOST}


def test_a_job_is_the_same_on_the_other_side() -> None:
    request = StatsRequest(namespace="ns", host="10.0.0.1", port=11211, pod="cache-0")
    job = jobs.Job(request=request, host="h", port=2)
    assert jobs.job(job.line()) == job
    assert job.quick

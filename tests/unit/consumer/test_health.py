"""The kubelet's probes over real HTTP, at each age of the loop's last turn and of the last connection."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from pulsar_consumer.health import LOST_SECONDS, STUCK_SECONDS, Health, serve


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Link:
    up = True

    def __call__(self) -> bool:
        return self.up


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(clock=clock)


def pass_time(health: Health, clock: Clock, *, seconds: float) -> None:
    """The loop turns every second."""
    for _ in range(int(seconds)):
        clock.now += 1
        health.turn()


def test_ready_while_connected_and_at_no_other_time(health: Health, link: Link) -> None:
    assert health.unready() == "not connected to the broker"
    health.watch(link)
    assert health.unready() is None
    link.up = False
    assert health.unready() == "not connected to the broker"


def test_loop_that_does_not_turn_is_restarted(health: Health, clock: Clock) -> None:
    clock.now += STUCK_SECONDS
    assert health.unhealthy() is None
    clock.now += 1
    assert "has not turned for 61 s" in (health.unhealthy() or "")
    health.turn()
    assert health.unhealthy() is None


def test_handler_that_does_not_end_is_restarted(health: Health) -> None:
    taken = [89.0]
    health.watch_handler(lambda: taken[0], 90.0)
    assert health.unhealthy() is None
    taken[0] = 91.0
    assert health.unhealthy() == "a call of the handler has taken 91 s"


def test_broker_lost_for_long_is_reason_to_restart(health: Health, clock: Clock, link: Link) -> None:
    health.watch(link)
    pass_time(health, clock, seconds=10)
    link.up = False
    pass_time(health, clock, seconds=LOST_SECONDS)
    assert health.unhealthy() is None
    pass_time(health, clock, seconds=1)
    assert "lost for 301 s" in (health.unhealthy() or "")
    link.up = True
    health.turn()
    assert health.unhealthy() is None


def test_broker_never_seen_is_no_reason_to_restart(health: Health, clock: Clock) -> None:
    pass_time(health, clock, seconds=10 * LOST_SECONDS)
    assert health.unhealthy() is None


@pytest.fixture
def port(health: Health) -> Iterator[int]:
    server = serve(health, port=0)
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_over_http(health: Health, clock: Clock, link: Link, port: int) -> None:
    assert ask(port, "/healthz") == (200, "ok")
    assert ask(port, "/readyz") == (503, "not connected to the broker")
    health.watch(link)
    assert ask(port, "/readyz") == (200, "ok")
    clock.now += STUCK_SECONDS + 1
    assert ask(port, "/healthz")[0] == 503
    assert ask(port, "/")[0] == 404


def test_the_page_of_the_handler_where_there_is_one(health: Health, port: int) -> None:
    assert ask(port, "/handler")[0] == 404
    health.page = lambda: b'{"calls": 1}'
    assert ask(port, "/handler") == (200, '{"calls": 1}')

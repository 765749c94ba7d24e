"""The prober and a broker's admin API: answers as Pulsar 4.0.4 gives them, and hostile ones."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer.backlog import MOST, BacklogRequest
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.kinds.pulsarconsumer.replay import ReplayRequest
from kindling.prober import jobs
from kindling.prober.admin_api import LONGEST_ANSWER, redirected
from kindling.prober.pool import QUICK_SECONDS

from tests.unit.operator.shared_prober import shared_prober
from tests.unit.operator.tcp_servers import MARGIN_SECONDS, garbage, hang, serving

STATS = "/admin/v2/persistent/public/default/orders/stats"
SUM = "/admin/v2/persistent/public/default/orders/partitioned-stats"


def query(
    port: int,
    *,
    tunnel: bool = True,
    request: type[BacklogRequest | UnsubscribeRequest | ReplayRequest] = BacklogRequest,
    **fields: Any,
) -> tuple[ExternalResult, float]:
    """What the prober's process answers, by way of a tunnel or not, and after how many seconds."""

    host = "broker" if tunnel else "127.0.0.1"
    asked = {"topic": "orders", "subscription": "workers", "host": host, **fields}
    return shared_prober(tunnelled=tunnel).run(request(namespace="ns", port=port, **asked))


def stats(
    *,
    consumers: int = 1,
    acknowledged: float = 0.0,
    connected: float = 600.0,
    backlog: Any = 125,
    unacknowledged: Any = 9,
    oldest: Any = -1,
) -> Any:
    """As Pulsar answers, without what is not read; times are seconds ago, 0 for never."""
    at = int((time.time() - acknowledged) * 1000) if acknowledged else 0
    since = (datetime.now(UTC) - timedelta(seconds=connected)).isoformat().replace("+00:00", "123Z")
    each = {"consumerName": "c", "lastAckedTimestamp": at, "connectedSince": since, "unackedMessages": 9}
    subscription = {
        "msgBacklog": backlog,
        "unackedMessages": unacknowledged,
        "lastAckedTimestamp": at,
        "earliestMsgPublishTimeInBacklog": oldest,
        "consumers": [each] * consumers,
    }
    return {"msgRateIn": 0.0, "subscriptions": {"workers": subscription, "others": {"msgBacklog": 7}}}


class Admin:
    """A real HTTP server: answers by path, and what it was asked."""

    def __init__(self, **answers: tuple[int, Any]) -> None:
        self.answers: dict[str, tuple[int, Any]] = dict(answers)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.methods: list[str] = []
        self.port = 0

    @contextmanager
    def running(self, context: ssl.SSLContext | None = None) -> Iterator[Admin]:
        admin = self

        class Handler(BaseHTTPRequestHandler):
            def do_DELETE(self) -> None:
                self.do_GET()

            def do_POST(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                admin.methods.append(self.command)
                admin.asked.append((self.path, dict(self.headers.items())))
                status, body = admin.answers.get(path, (404, {"reason": "secret words"}))
                data = b"" if status == 307 else json.dumps(body).encode()
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", str(body))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            if context is not None:
                server.socket = context.wrap_socket(
                    server.socket, server_side=True, do_handshake_on_connect=False
                )
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.port = server.server_address[1]
            yield self
            server.shutdown()


def ask(answers: dict[str, tuple[int, Any]], **fields: Any) -> tuple[ExternalResult, Admin]:
    with Admin(**answers).running() as admin:
        return query(admin.port, **fields)[0], admin


def unsubscribe(answers: dict[str, tuple[int, Any]], **fields: Any) -> tuple[ExternalResult, Admin]:
    with Admin(**answers).running() as admin:
        return query(admin.port, request=UnsubscribeRequest, **fields)[0], admin


def test_it_says_what_the_broker_says_of_this_subscription_alone() -> None:
    answer, admin = ask(
        {STATS: (200, stats(consumers=2, acknowledged=5))}, authorization="Bearer canary-token"
    )
    assert answer == ExternalResult(
        ok=True,
        facts={
            "quiet": False,
            "messages": 125,
            "unacknowledged": 9,
            "consumers": 2,
            "partitions": 0,
            "oldest": 0,
        },
    )
    [(path, headers)] = admin.asked
    assert "getPreciseBacklog=true" in path
    assert "getEarliestTimeInBacklog=true" in path
    assert headers["Authorization"] == "Bearer canary-token"


@pytest.mark.parametrize(
    ("said", "read"),
    [(1_767_225_600_123, 1_767_225_600_123), (-1, 0), (0, 0), ("soon", 0), (2**60, 2**53 - 1)],
)
def test_the_oldest_message_is_read_if_the_broker_says_which(said: Any, read: int) -> None:
    assert ask({STATS: (200, stats(oldest=said))})[0].facts["oldest"] == read
    without = stats()
    del without["subscriptions"]["workers"]["earliestMsgPublishTimeInBacklog"]
    assert ask({STATS: (200, without)})[0].facts["oldest"] == 0


def test_without_a_token_none_is_sent() -> None:
    _, admin = ask({STATS: (200, stats())})
    assert "Authorization" not in admin.asked[0][1]


def test_a_partitioned_topic_is_asked_for_its_sum() -> None:
    answer, admin = ask({SUM: (200, {**stats(backlog=3), "metadata": {"partitions": 4}})})
    assert (answer.facts["messages"], answer.facts["partitions"]) == (3, 4)
    assert [path.partition("?")[0] for path, _ in admin.asked] == [STATS, SUM]


@pytest.mark.parametrize(
    ("times", "quiet"),
    [
        ({"acknowledged": 0.0}, True),
        ({"acknowledged": 301.0}, True),
        ({"acknowledged": 200.0}, False),
        ({"connected": 200.0}, False),
        ({"consumers": 0}, False),
    ],
)
def test_quiet_is_nobody_who_acknowledged_though_connected_for_long(times: Any, quiet: bool) -> None:
    assert ask({STATS: (200, stats(**times))}, quiet_seconds=300)[0].facts["quiet"] is quiet


def test_without_times_nothing_is_called_quiet() -> None:
    """As in the sum over partitions."""
    said = stats()
    del said["subscriptions"]["workers"]["consumers"][0]["connectedSince"]
    assert ask({STATS: (200, said)})[0].facts["quiet"] is False


@pytest.mark.parametrize(
    ("topic", "path"),
    [
        ("persistent://public/default/orders", STATS),
        ("shop/eu/orders", "/admin/v2/persistent/shop/eu/orders/stats"),
        ("non-persistent://shop/eu/a/b", "/admin/v2/non-persistent/shop/eu/a%2Fb/stats"),
        ("a?b#c%2e", "/admin/v2/persistent/public/default/a%3Fb%23c%252e/stats"),
    ],
)
def test_a_topic_stays_one_part_of_the_path(topic: str, path: str) -> None:
    answer, admin = ask({path: (200, stats())}, topic=topic)
    assert answer.ok, admin.asked


@pytest.mark.parametrize(
    "topic", ["persistent://../default/x", "a/../x", "http://a/b/c", "persistent://a//c"]
)
def test_what_is_no_topic_is_not_asked_for(topic: str) -> None:
    answer, admin = ask({}, topic=topic)
    assert (answer.reason, admin.asked) == ("TopicNotFound", [])


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "NotAuthorized"),
        (403, "NotAuthorized"),
        (404, "TopicNotFound"),
        (500, "AdminUnreachable"),
        (302, "AdminUnreachable"),
    ],
)
def test_a_refusal_is_said_without_the_servers_words(status: int, reason: str) -> None:
    answer, _ = ask({STATS: (status, {"reason": "secret words"})}, authorization="Bearer canary-token")
    assert (answer.ok, answer.reason, answer.facts) == (False, reason, {})
    assert "secret" not in answer.message
    assert "canary" not in answer.message


def test_a_subscription_that_is_not_there_is_said() -> None:
    answer, _ = ask({STATS: (200, stats())}, subscription="none")
    assert (answer.ok, answer.reason) == (False, "SubscriptionNotFound")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "169.254.169.254", "::ffff:127.0.0.1"]
)
def test_what_only_the_operators_pod_or_node_reaches_is_not_asked(host: str) -> None:
    with Admin(**{STATS: (200, stats())}).running() as admin:
        answer, _ = query(admin.port, tunnel=False, host=host)
    assert (answer.ok, answer.reason, admin.asked) == (False, "AdminUnreachable", [])
    assert "leads to its own Pod or node" in answer.message


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}" + STATS,
        "http://localhost:{port}" + STATS,
        "https://broker-1:8443" + STATS,
        "http://broker-1:8080/metrics",
        "file:///etc/passwd",
        "http://[",
        "",
    ],
)
def test_a_redirection_leads_to_no_other_question_and_not_back_into_the_pod(location: str) -> None:
    with Admin().running() as admin:
        admin.answers[STATS] = 307, location.format(port=admin.port)
        answer, _ = query(admin.port)
    assert (answer.ok, answer.reason, len(admin.asked)) == (False, "AdminUnreachable", 1)


@pytest.mark.parametrize(
    ("location", "there"),
    [
        (f"http://broker-1:8080{STATS}?a=b", ("broker-1", 8080)),
        (f"http://broker-1{STATS}", ("broker-1", 80)),
        ("http://broker-1:8080/metrics", None),
        (f"https://broker-1:8443{STATS}", None),
        (f"{STATS}", None),
        (f"http://broker-1:99999{STATS}", None),
    ],
)
def test_a_redirection_is_to_another_broker_alone(location: str, there: tuple[str, int] | None) -> None:
    if there is not None:
        assert redirected(location, f"{STATS}?x=y") == there
        return
    with pytest.raises(ValueError, match=r"redirected|range"):
        redirected(location, f"{STATS}?x=y")


def drip(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        client.sendall(b" ")
        time.sleep(0.2)


def endless(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        client.sendall(b"[" * 65536)


def endless_headers(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        client.sendall(b"X: y\r\n" * 4096)


def nothing(client: socket.socket) -> None:
    client.recv(100)


def body(text: bytes) -> Callable[[socket.socket], None]:
    def act(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        client.recv(1)

    return act


HOSTILE = {
    "hang": hang,
    "drip": drip,
    "endless": endless,
    "endless headers": endless_headers,
    "garbage": garbage,
    "nothing": nothing,
    "deep": body(b"[" * (LONGEST_ANSWER - 1)),
    "many": body(b"[" + b"{}," * (LONGEST_ANSWER // 3 - 2) + b"0]"),
    "no object": body(b"[]"),
    "no subscriptions": body(b"{}"),
    "subscriptions are a list": body(b'{"subscriptions":[]}'),
    "a number": body(b'{"subscriptions":{"workers":1}}'),
    "null consumers": body(b'{"subscriptions":{"workers":{"consumers":null}}}'),
    "consumers are text": body(b'{"subscriptions":{"workers":{"lastAckedTimestamp":0,"consumers":"abc"}}}'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_every_hostile_server_ends_in_an_answer(name: str) -> None:
    with serving(HOSTILE[name]) as port:
        answer, took = query(port)
    assert (answer.ok, answer.facts) == (False, {})
    assert answer.reason in ("AdminUnreachable", "NotResponding")
    assert "Error" not in answer.message, "an exception's name says nothing to whoever reads it"
    assert took < QUICK_SECONDS + MARGIN_SECONDS


@pytest.mark.parametrize("value", [-1, 10**30, 1.5, "7", None, True, [], 2**53])
def test_odd_numbers_are_no_figures(value: Any) -> None:
    answer, _ = ask({STATS: (200, stats(backlog=value, unacknowledged=value))})
    for name in ("messages", "unacknowledged"):
        assert 0 <= answer.facts.get(name, 0) <= MOST


SUBSCRIPTION = "/admin/v2/persistent/public/default/orders/subscription/workers"


def test_a_subscription_is_deleted_with_the_token() -> None:
    answer, admin = unsubscribe({SUBSCRIPTION: (204, None)}, authorization="Bearer canary-token")
    assert answer == ExternalResult(ok=True)
    [(path, headers)] = admin.asked
    assert (admin.methods, path) == (["DELETE"], SUBSCRIPTION), "without force: a consumer keeps it"
    assert headers["Authorization"] == "Bearer canary-token"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, {"reason": "Subscription not found"}, ""),
        (404, {"error": "no such page"}, "AdminUnreachable"),
        (404, None, "AdminUnreachable"),
        (412, {"reason": "Subscription has active connected consumers"}, "SubscriptionBusy"),
        (401, {"reason": "secret words"}, "NotAuthorized"),
        (403, {"reason": "secret words"}, "NotAuthorized"),
        (409, {"reason": "secret words"}, "AdminUnreachable"),
        (500, {"reason": "secret words"}, "AdminUnreachable"),
    ],
)
def test_what_the_broker_says_of_a_subscription_decides(status: int, body: Any, reason: str) -> None:
    """Gone is good as well, if it is a broker that says so."""
    answer, _ = unsubscribe({SUBSCRIPTION: (status, body)}, authorization="Bearer canary-token")
    assert (answer.ok, answer.reason, answer.facts) == (not reason, reason, {})
    assert "secret" not in answer.message
    assert "canary" not in answer.message


@pytest.mark.parametrize(
    ("subscription", "path"),
    [
        ("a/b?c#d%2e", "/admin/v2/persistent/public/default/orders/subscription/a%2Fb%3Fc%23d%252e"),
        ("../x", "/admin/v2/persistent/public/default/orders/subscription/..%2Fx"),
    ],
)
def test_a_subscription_stays_one_part_of_the_path(subscription: str, path: str) -> None:
    answer, admin = unsubscribe({path: (204, None)}, subscription=subscription)
    assert answer.ok, admin.asked


@pytest.mark.parametrize("subscription", [".", ".."])
def test_a_path_that_would_delete_the_topic_is_not_asked_for(subscription: str) -> None:
    answer, admin = unsubscribe({}, subscription=subscription)
    assert (answer.ok, admin.asked) == (False, [])


def test_a_redirection_is_followed_for_the_same_subscription_alone() -> None:
    with Admin().running() as admin:
        admin.answers[SUBSCRIPTION] = 307, "http://broker-1:8080/admin/v2/persistent/public/default/orders"
        answer, _ = query(admin.port, request=UnsubscribeRequest)
    assert (answer.reason, len(admin.asked)) == ("AdminUnreachable", 1)


@pytest.mark.parametrize("name", ["hang", "drip", "endless", "endless headers", "garbage", "nothing"])
def test_a_hostile_server_has_deleted_nothing(name: str) -> None:
    with serving(HOSTILE[name]) as port:
        answer, took = query(port, request=UnsubscribeRequest)
    assert not answer.ok
    assert took < QUICK_SECONDS + MARGIN_SECONDS


RESET = f"{SUBSCRIPTION}/resetcursor/1795503600000"


def replay(answers: dict[str, tuple[int, Any]], **fields: Any) -> tuple[ExternalResult, Admin]:
    with Admin(**answers).running() as admin:
        return query(admin.port, request=ReplayRequest, milliseconds=1_795_503_600_000, **fields)[0], admin


def test_a_subscription_begins_again_at_a_moment() -> None:
    answer, admin = replay({RESET: (204, None)}, authorization="Bearer canary-token")
    assert answer == ExternalResult(ok=True)
    assert (admin.methods, [path for path, _ in admin.asked]) == (["POST"], [RESET])
    assert admin.asked[0][1]["Authorization"] == "Bearer canary-token"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, {"reason": "Subscription not found"}, "SubscriptionNotFound"),
        (404, {"reason": "Topic not found"}, "TopicNotFound"),
        (404, None, "TopicNotFound"),
        (403, {"reason": "secret words"}, "NotAuthorized"),
        (412, {"reason": "secret words"}, "AdminUnreachable"),
        (500, {"reason": "secret words"}, "AdminUnreachable"),
    ],
)
def test_a_replay_that_the_broker_refuses_is_named(status: int, body: Any, reason: str) -> None:
    answer, _ = replay({RESET: (status, body)})
    assert (answer.ok, answer.reason) == (False, reason)
    assert "secret" not in answer.message


@pytest.mark.parametrize("subscription", [".", ".."])
def test_a_path_of_another_subscription_is_not_reset(subscription: str) -> None:
    answer, admin = replay({}, subscription=subscription)
    assert (answer.ok, admin.asked) == (False, [])


@pytest.mark.parametrize("request_type", [BacklogRequest, UnsubscribeRequest])
def test_a_request_survives_the_way_to_the_prober(
    request_type: type[BacklogRequest | UnsubscribeRequest],
) -> None:
    asked = request_type(namespace="n", host="h", port=1, topic="t", subscription="s", authorization="x")
    assert jobs.job(jobs.Job(request=asked, host="h", port=1).line()).request == asked

"""Messages being handled: so many at once, each until it is handled, given up, or given back.

A message is acknowledged after its handler has ended and the broker has its output, or it as a dead letter.
What waits for another try stays in memory, unacknowledged: the broker gives it out again if this process
ends. Messages of one lane are handled one after the other, so that a retry does not break their order.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import pulsar

from pulsar_consumer.decoded import version_of
from pulsar_consumer.failing import Failing
from pulsar_consumer.handler import (
    MAX_DELIVERIES,
    REJECTED,
    SCHEMA_MISMATCH,
    Delayed,
    Failed,
    Handled,
    Handler,
    Mismatched,
    Rejected,
    Verdict,
    id_of,
)
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.outbox import Send, arguments_of
from pulsar_consumer.recent import Recent
from pulsar_consumer.settings import Handling
from pulsar_consumer.tracing import NOT_TRACED, Span, Tracer
from pulsar_consumer.unfinished import Unfinished

LEAST_HELD = 10
"""Messages that are taken at the least; each may have 5 MB."""

FAILURES = (Failed, Rejected, Mismatched)
AT_ONCE = {Rejected: REJECTED, Mismatched: SCHEMA_MISMATCH}
"""What makes a message a dead letter at once, and the reason that it gets."""


log = logging.getLogger("pulsar_consumer")


class Acknowledges(Protocol):
    """A consumer, as far as it is needed here."""

    def acknowledge(self, message: Any) -> None: ...


@dataclass(eq=False)
class _Item:
    """A message that was taken: how often its handler was called, and how often that failed.

    `alone`: it has ended a process, and so is handled beside no other.
    """

    message: Any
    id: str
    lane: Hashable
    deliveries: int = 0
    failures: int = 0
    alone: bool = False


class Work:
    """`take` messages; threads of its own handle them.

    `failure` is what the broker failed with: then nothing more is handled.
    """

    def __init__(
        self,
        handling: Handling,
        handler: Handler,
        consumer: Acknowledges,
        *,
        subscription: str,
        send: Send,
        lane_of: Callable[[Any], Hashable],
        failing: Failing,
        unfinished: Unfinished,
        recent: Recent,
        metrics: Metrics,
        tracer: Tracer = NOT_TRACED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handling, self._handler, self._consumer, self._send = handling, handler, consumer, send
        self._subscription, self._lane_of, self._clock = subscription, lane_of, clock
        self._failing, self._metrics, self._tracer = failing, metrics, tracer
        self._unfinished, self._recent = unfinished, recent
        self._most = max(LEAST_HELD, 2 * handling.concurrency)
        self._changed = threading.Condition()
        self._lanes: dict[Hashable, deque[_Item]] = {}
        self._ready: deque[_Item] = deque()
        self._later: list[tuple[float, int, _Item]] = []
        self._numbers = itertools.count()
        self._held = 0
        self._began: dict[_Item, float] = {}
        self._stopped = self._draining = False
        self.failure: Exception | None = None
        metrics.watch(lambda: self._held, self.slowest_seconds)
        for number in range(handling.concurrency):
            threading.Thread(target=self._run, name=f"handler-{number}", daemon=True).start()

    def wait_for_capacity(self, seconds: float) -> bool:
        """Whether another message may be taken, at once or within so many seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._held < self._most or self._stopped, timeout=seconds
            ) and not (self._stopped)

    def take(self, message: Any) -> None:
        id = id_of(message)
        self._unfinished.met(id)
        # A process that ended is a delivery that failed.
        ends = self._unfinished.ends(id)
        item = _Item(message, id, self._lane_of(message), ends, ends, alone=ends > 0)
        with self._changed:
            self._held += 1
            lane = self._lanes.setdefault(item.lane, deque())
            lane.append(item)
            if len(lane) == 1:
                self._ready.append(item)
                self._changed.notify_all()

    def slowest_seconds(self) -> float:
        """For how long the longest of the calls that are under way has taken."""
        with self._changed:
            return max((self._clock() - began for began in self._began.values()), default=0.0)

    def drain(self, seconds: float) -> None:
        """Handle what was taken, without waiting for what is to be retried later; then stop."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or not (self._ready or self._began), timeout=seconds)
        self.stop()

    def stop(self) -> None:
        """Handle nothing more; calls that are under way end as they may."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            try:
                item.deliveries += 1
                with self._tracer.processing(item.message, delivery=item.deliveries) as span:
                    self._settle(item, self._handled(item), span)
            except Exception as error:  # noqa: BLE001 - raised again by whoever takes messages
                with self._changed:
                    self.failure = self.failure or error
                self.stop()
            finally:
                with self._changed:
                    del self._began[item]
                    self._changed.notify_all()

    def _next(self) -> _Item | None:
        """The next message that is due; None at the end."""
        with self._changed:
            while not self._stopped:
                now = self._clock()
                while self._later and self._later[0][0] <= now and not self._draining:
                    self._ready.append(heapq.heappop(self._later)[2])
                if self._ready and self._may_begin(self._ready[0]):
                    item = self._ready.popleft()
                    self._began[item] = now
                    return item
                wait = self._later[0][0] - now if self._later and not self._draining else None
                self._changed.wait(timeout=wait)
            return None

    def _may_begin(self, item: _Item) -> bool:
        return not self._began or not (item.alone or any(other.alone for other in self._began))

    def _handled(self, item: _Item) -> Verdict:
        if self._is_given_up(item):
            item.deliveries = self._unfinished.ends(item.id)
            return Failed(f"ProcessEnded: the process has ended {item.deliveries} times while it handled it")
        place = self._unfinished.begin(item.id)
        began = self._clock()
        verdict = self._handler(item.message)
        seconds = self._clock() - began
        self._unfinished.end(item.id, place)
        self._metrics.called(verdict, seconds)
        self._recent.called(seconds, failed=isinstance(verdict, FAILURES))
        return verdict

    def _is_given_up(self, item: _Item) -> bool:
        """Whether it need not be tried: by processes that ended alone, it has been tried often enough."""
        enough = item.alone and item.failures >= self._handling.max_deliveries
        return enough and bool(self._handling.dead_letter_topic)

    def _settle(self, item: _Item, verdict: Verdict, span: Span) -> None:
        """:raises PulsarException: when the broker has not taken what had to be sent."""
        span.called(verdict)
        if isinstance(verdict, Handled):
            verdict = self._finish(item, verdict, span)
            if isinstance(verdict, Handled):
                self._failing.success(item.id)
                return
            span.called(verdict)
        failed = isinstance(verdict, FAILURES)
        item.failures += failed
        given_up = type(verdict) in AT_ONCE or item.failures >= self._handling.max_deliveries
        if failed:
            topic = item.message.topic_name()
            self._failing.failure(item.id, verdict.error, topic=topic, given_up=given_up)
        again = ""
        if given_up and self._handling.dead_letter_topic and not isinstance(verdict, Delayed):
            why = AT_ONCE.get(type(verdict), MAX_DELIVERIES)
            self._bury(item, why, verdict.error, span)
            self._metrics.dead_letter(why)
            self._acknowledge(item)
            self._failing.settled(item.id)
            span.dead_letter(why)
            self._release(item)
            again = f"it is a dead letter now ({why})"
        else:
            seconds = (
                verdict.seconds
                if isinstance(verdict, Delayed)
                else self._handling.backoff_seconds(item.failures)
            )
            span.retried(seconds)
            with self._changed:
                heapq.heappush(self._later, (self._clock() + seconds, next(self._numbers), item))
            again = f"again in {seconds:g} s"
        log.warning("message %s, delivery %d: %s; %s", item.id, item.deliveries, verdict.error, again)

    def _finish(self, item: _Item, verdict: Handled, span: Span) -> Verdict:
        """Send the output, and acknowledge; an output that no broker takes is the handler's failure."""
        message, topic = item.message, self._handling.output_topic
        if topic and verdict.output is not None:
            properties = {
                **(message.properties() or {}),
                "REAL_TOPIC": message.topic_name(),
                "ORIGIN_MESSAGE_ID": item.id,
            }
            try:
                self._send(topic, verdict.output, arguments_of(message, span.carried(properties)))
                self._metrics.output()
            except pulsar.MessageTooBig:
                words = f"an output of {len(verdict.output)} bytes is too big for the broker"
                return Failed(words, pulsar.MessageTooBig.__name__)
        self._acknowledge(item)
        span.acknowledged()
        self._release(item)
        return verdict

    def _acknowledge(self, item: _Item) -> None:
        self._consumer.acknowledge(item.message)
        self._unfinished.settled(item.id)
        self._metrics.acknowledged()

    def _bury(self, item: _Item, why: str, error: str, span: Span) -> None:
        """The first three as Pulsar's own clients name them."""
        message = item.message
        properties = {
            **(message.properties() or {}),
            "REAL_TOPIC": message.topic_name(),
            "REAL_SUBSCRIPTION": self._subscription,
            "ORIGIN_MESSAGE_ID": item.id,
            "DEAD_LETTER_REASON": why,
            "DEAD_LETTER_ERROR": error,
            "DEAD_LETTER_DELIVERIES": str(item.deliveries),
        }
        if self._handling.schema is not None and (version := version_of(message)) >= 0:
            properties["DEAD_LETTER_SCHEMA_VERSION"] = str(version)
        content = None if message.has_null_value() else message.data()
        carried = span.carried(properties)
        self._send(self._handling.dead_letter_topic, content, arguments_of(message, carried))

    def _release(self, item: _Item) -> None:
        with self._changed:
            self._held -= 1
            lane = self._lanes[item.lane]
            lane.popleft()
            if lane:
                self._ready.append(lane[0])
            else:
                del self._lanes[item.lane]
            self._changed.notify_all()

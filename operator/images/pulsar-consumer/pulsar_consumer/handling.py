"""The receive loop of a consumer that has a handler: takes messages as long as they fit."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Hashable
from typing import Any

from pulsar_consumer import dead_letters
from pulsar_consumer.decoded import Decoding
from pulsar_consumer.failing import Failing
from pulsar_consumer.handler import Handler
from pulsar_consumer.health import Health
from pulsar_consumer.http_handler import HttpHandler
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.outbox import Outbox
from pulsar_consumer.python_handler import PythonHandler
from pulsar_consumer.receiving import REST_MILLISECONDS, TURN_MILLISECONDS, Begun, Stop, next_message
from pulsar_consumer.recent import Recent
from pulsar_consumer.settings import Consumer, Handling, Python
from pulsar_consumer.tracing import NOT_TRACED, Tracer
from pulsar_consumer.unfinished import Unfinished
from pulsar_consumer.work import LEAST_HELD, Work

DRAIN_SECONDS = 20.0
"""How long a stop waits for handlers to end; the Pod is killed after 30."""

OVERDUE_SECONDS = 30.0
"""How long a call may go on after its time-out, which an async function and HTTP keep, before a restart."""


class HandlingLoop:
    """The handler, and what it takes to hand it messages from one client after the other."""

    def __init__(
        self, settings: Consumer, handling: Handling, metrics: Metrics, tracer: Tracer = NOT_TRACED
    ) -> None:
        """:raises HandlerUnavailable: when there is no such handler."""
        self._settings, self._handling, self._outbox = settings, handling, Outbox()
        self._metrics, self._tracer = metrics, tracer
        self._handler = self._load()
        self._called = self._handler
        if (schema := handling.schema) is not None:
            self._called = Decoding(self._handler, is_json=schema.type == "JSON")
        self._failing, self._recent = Failing(handling.marker), Recent()
        # More than calls at once: those of a client that was lost may still be under way.
        self._unfinished = Unfinished(
            handling.calls, slots=4 * handling.concurrency, termination_log=handling.termination_log
        )
        self.prefetch = max(LEAST_HELD, handling.concurrency)

    def connect(self, client: Any) -> None:
        """Send by this client from now on.

        :raises Hopeless, PulsarException: when the broker takes no messages for a topic.
        """
        topics = {
            "spec.output.topic": self._handling.output_topic,
            "spec.deadLetter.topic": self._handling.dead_letter_topic,
        }
        self._outbox.connect(client, {field: topic for field, topic in topics.items() if topic})
        if self._handling.dead_letter_topic and self._handling.keep_dead_letters:
            dead_letters.keep(client, self._handling.dead_letter_topic)

    def page(self) -> bytes:
        """What the operator is answered: figures, and the messages that fail while others are handled."""
        return json.dumps({**self._recent.figures(), "poison": self._failing.poison()}).encode()

    def abandon(self) -> None:
        """The process ends, and no call that is under way is why."""
        self._unfinished.clear()

    def receive(self, consumer: Any, *, stop: Stop, health: Health) -> None:
        """Handle messages until asked to stop, and then the rest of each batch that is begun.

        :raises PulsarException: when the broker fails; what is not acknowledged comes again.
        :raises HandlerFailing: (PoisonMessage) when the handler fails on every message, the first time.
        :raises HandlerUnavailable: when the Pod's own container does not listen any more.
        """
        self._failing.renewed()
        connected = time.monotonic()
        work = Work(
            self._handling,
            self._called,
            consumer,
            subscription=self._settings.subscription,
            send=self._outbox.send,
            lane_of=lanes(self._settings.subscription_type, several=self._settings.topics.several),
            failing=self._failing,
            unfinished=self._unfinished,
            recent=self._recent,
            metrics=self._metrics,
            tracer=self._tracer,
        )
        health.watch(lambda: consumer.is_connected() and self._outbox.is_connected())
        limit = OVERDUE_SECONDS + self._handling.handler.timeout_seconds
        health.watch_handler(
            work.slowest_seconds,
            limit,
            failing=lambda: self._failing.marked,
            poisoned=self._unfinished.poisoned,
        )
        health.page = self.page
        begun = Begun()
        try:
            while not stop.is_set() and work.failure is None:
                health.turn()
                self._failing.check()
                self._unfinished.turn(time.monotonic() - connected)
                if isinstance(self._handler, HttpHandler):
                    self._handler.check()
                if not work.wait_for_capacity(TURN_MILLISECONDS / 1000):
                    continue
                message = next_message(consumer, milliseconds=TURN_MILLISECONDS)
                if message is not None:
                    work.take(message)
                    begun.handled(message)
            while begun.any() and work.failure is None and work.wait_for_capacity(1.0):
                message = next_message(consumer, milliseconds=REST_MILLISECONDS)
                if message is None:
                    break
                if begun.continues(message):
                    work.take(message)
            if work.failure is None:
                work.drain(DRAIN_SECONDS)
        finally:
            work.stop()
        if work.failure is not None:
            raise work.failure

    def _load(self) -> Handler:
        found = self._handling.handler
        if isinstance(found, Python):
            return PythonHandler(
                found,
                topics=self._settings.topics.given,
                output_topic=self._handling.output_topic,
                publish=self._tracer.publishing(self._outbox.send),
                record=self._metrics.recorded,
            )
        return HttpHandler(found, requested=self._tracer.requested)


def lanes(subscription_type: str, *, several: bool = False) -> Callable[[Any], Hashable]:
    """What must be handled in order: messages of a key, all messages, or none, as the subscription has it.

    Of `several` topics, each has an order of its own.
    """
    if subscription_type == "Shared":
        numbers = itertools.count()
        return lambda message: next(numbers)
    if subscription_type == "Key_Shared":
        if several:
            return lambda message: (message.topic_name(), message.ordering_key() or message.partition_key())
        return lambda message: message.ordering_key() or message.partition_key()
    return lambda message: message.topic_name() if several else None

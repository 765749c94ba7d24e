"""The consumer: handle or print each message, then acknowledge it, so that none is handled less than once."""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pulsar

from pulsar_consumer import discovery, tracing
from pulsar_consumer.client import Hopeless, connect, explain, log
from pulsar_consumer.credentials import Shown, is_outdated, shown
from pulsar_consumer.failing import HandlerFailing, PoisonMessage
from pulsar_consumer.handler import HandlerUnavailable
from pulsar_consumer.handling import HandlingLoop
from pulsar_consumer.health import Health, serve
from pulsar_consumer.metrics import Metrics, Served
from pulsar_consumer.receiving import (
    REST_MILLISECONDS,
    TURN_MILLISECONDS,
    Begun,
    Lost,
    Stop,
    Until,
    next_message,
)
from pulsar_consumer.reported import Reported, pause
from pulsar_consumer.settings import BadSetting, Broker, Consumer, Handling, Http
from pulsar_consumer.tracing import NOT_TRACED, Tracer

PAUSE_SECONDS = 1.0
# Little, so that the consumers of a subscription share its backlog, and because each may have 5 MB.
PREFETCH = 20
TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
_SPECIAL = re.compile(r"[^\w ]")
POSITIONS = {"Latest": pulsar.InitialPosition.Latest, "Earliest": pulsar.InitialPosition.Earliest}


def consume(
    settings: Consumer,
    *,
    stop: threading.Event,
    health: Health,
    out: BinaryIO,
    reported: Reported,
    metrics: Metrics,
    tracer: Tracer = NOT_TRACED,
    handling: HandlingLoop | None = None,
) -> None:
    """Consume until asked to stop, with a new client whenever one fails.

    :raises Hopeless: what a retry does not fix, where it is not `reported`.
    """
    if settings.topics.pattern:
        discovery.look_often()
    while not stop.is_set():
        health.turn()
        try:
            used, schema = shown(settings.broker), _schema(settings)
            with closing(connect(settings.broker)) as client:
                if handling is not None:
                    handling.connect(client)
                consumer = client.subscribe(
                    settings.topics.to_subscribe,
                    settings.subscription,
                    consumer_type=TYPES[settings.subscription_type],
                    initial_position=POSITIONS[settings.initial_position],
                    receiver_queue_size=settings.topics.prefetch(
                        PREFETCH if handling is None else handling.prefetch
                    ),
                    **({} if schema is None else {"schema": schema}),
                )
                if schema is not None:
                    schema.check(settings.topics.names)
                health.watch(consumer.is_connected)
                reported.clear()
                outdated = partial(_is_outdated, consumer, settings.broker, used)
                lost = [Lost(consumer.is_connected)] if settings.topics.pattern else []
                until = Until(stop, outdated, *lost)
                # Closing sends the acknowledgements still on their way, and only then lets go.
                with closing(consumer):
                    if handling is None:
                        receive(consumer, stop=until, health=health, out=out, metrics=metrics, tracer=tracer)
                    else:
                        handling.receive(consumer, stop=until, health=health)
        except Hopeless as error:
            _retry_reported(error, stop=stop, health=health, reported=reported)
        except pulsar.PulsarException as error:
            if hopeless := explain(error, settings.broker):
                _retry_reported(hopeless, stop=stop, health=health, reported=reported)
                continue
            log.warning("not connected, trying again: %s", error)
            stop.wait(PAUSE_SECONDS)


def _schema(settings: Consumer) -> Any:
    """What reads the payloads, one for each client; None where they are handed over as they are.

    :raises BadSetting: when its definition is none.
    """
    if settings.handling is None or settings.handling.schema is None:
        return None
    from pulsar_consumer.registry import RegistrySchema

    return RegistrySchema(settings.handling.schema)


def _retry_reported(error: Hopeless, *, stop: threading.Event, health: Health, reported: Reported) -> None:
    """Wait for another attempt; raises the error where it is news."""
    if not reported.has(str(error)):
        raise error from None
    log.warning("not connected, trying again: %s", error)
    pause(stop, health.turn)


def _is_outdated(consumer: pulsar.Consumer, broker: Broker, used: Shown | None) -> bool:
    """While it is connected, the broker accepts what it was shown, and may not know the new one yet."""
    return not consumer.is_connected() and is_outdated(broker, used)


def receive(
    consumer: pulsar.Consumer,
    *,
    stop: Stop,
    health: Health,
    out: BinaryIO,
    metrics: Metrics,
    tracer: Tracer = NOT_TRACED,
) -> None:
    """Handle messages until asked to stop, and then the rest of each batch that is begun.

    The broker gives out a batch again as a whole unless all of it is acknowledged.
    """
    begun = Begun()
    while not stop.is_set():
        health.turn()
        message = next_message(consumer, milliseconds=TURN_MILLISECONDS)
        if message is not None:
            _handle(consumer, message, out, metrics, tracer)
            begun.handled(message)
    while begun.any():
        message = next_message(consumer, milliseconds=REST_MILLISECONDS)
        if message is None:
            return
        if begun.continues(message):
            _handle(consumer, message, out, metrics, tracer)


def line(message: pulsar.Message) -> bytes:
    """The message's id and its payload as text, on one line, whatever the payload is."""
    text = message.data().decode(errors="backslashreplace")
    return f"{message.message_id()} {_SPECIAL.sub(_printable, text)}\n".encode()


def _printable(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def _handle(
    consumer: pulsar.Consumer, message: pulsar.Message, out: BinaryIO, metrics: Metrics, tracer: Tracer
) -> None:
    with tracer.processing(message, delivery=1) as span:
        out.write(line(message))
        out.flush()
        consumer.acknowledge(message)
        span.acknowledged()
    metrics.acknowledged()


def main() -> int:
    """Run until SIGTERM; of what no retry can fix, leave one line for the operator."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reported = Reported(Path(os.environ.get("PULSAR_REPORTED_MARKER") or "/tmp/reported"))
    tracer, handling = NOT_TRACED, None
    try:
        settings = Consumer.load(os.environ)
        health = Health()
        serve(health, port=settings.port)
        metrics = Metrics() if settings.metrics_port is None else Served(settings.metrics_port)
        tracer = tracing.started(os.environ, lost=metrics.spans_lost)
        if settings.handling is not None:
            logging.getLogger().setLevel(logging.INFO)  # what users' code logs
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(line_buffering=True)  # and prints: into a pipe, it would wait
            handling = _handling_loop(
                settings,
                settings.handling,
                metrics,
                tracer,
                stop=stop,
                health=health,
                reported=reported,
            )
        try:
            consume(
                settings,
                stop=stop,
                health=health,
                out=sys.stdout.buffer,
                reported=reported,
                metrics=metrics,
                tracer=tracer,
                handling=handling,
            )
        except Exception:
            if handling is not None:
                handling.abandon()
            raise
    except BadSetting as error:
        return _give_up(f"InvalidSetting: {error}")
    except HandlerUnavailable as error:
        return _give_up(f"HandlerUnavailable: {error}", reported)
    except PoisonMessage as error:
        return _give_up(f"PoisonMessage: {error}")
    except HandlerFailing as error:
        return _give_up(f"HandlerFailing: {error}")
    except Hopeless as error:
        return _give_up(str(error), reported)
    finally:
        tracer.close()
    return 0


def _handling_loop(
    settings: Consumer,
    handling: Handling,
    metrics: Metrics,
    tracer: Tracer,
    *,
    stop: threading.Event,
    health: Health,
    reported: Reported,
) -> HandlingLoop | None:
    """None if it is to stop before there is a handler.

    :raises HandlerUnavailable: when there is none, and that is news; or when only other code would help.
    """
    while not stop.is_set():
        health.turn()
        try:
            return HandlingLoop(settings, handling, metrics, tracer)
        except HandlerUnavailable as error:
            if not isinstance(handling.handler, Http) or not reported.has("HandlerUnavailable"):
                raise
            log.warning("no handler, trying again: %s", error)
    return None


def _give_up(words: str, reported: Reported | None = None) -> int:
    print(words, file=sys.stderr)
    if reported is not None:
        with suppress(OSError):
            reported.report(words)
    with suppress(OSError):
        Path(os.environ.get("PULSAR_TERMINATION_LOG", "/dev/termination-log")).write_text(words)
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""The consumer: print each message, then acknowledge it, so that a message is printed at least once."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

import pulsar

from pulsar_consumer.client import Hopeless, connect, explain, log
from pulsar_consumer.health import Health, serve
from pulsar_consumer.settings import BadSetting, Consumer

TURN_MILLISECONDS = 500
REST_MILLISECONDS = 100
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


def consume(settings: Consumer, *, stop: threading.Event, health: Health, out: BinaryIO) -> None:
    """Consume until told to stop, with a new client whenever one fails.

    :raises Hopeless: when trying again does not help.
    """
    while not stop.is_set():
        health.turn()
        try:
            with closing(connect(settings.broker)) as client:
                consumer = client.subscribe(
                    settings.broker.topic,
                    settings.subscription,
                    consumer_type=TYPES[settings.subscription_type],
                    initial_position=POSITIONS[settings.initial_position],
                    receiver_queue_size=PREFETCH,
                )
                health.watch(consumer.is_connected)
                # Closing sends the acknowledgements still on their way, and only then lets go.
                with closing(consumer):
                    receive(consumer, stop=stop, health=health, out=out)
        except pulsar.PulsarException as error:
            if hopeless := explain(error, settings.broker):
                raise hopeless from None
            log.warning("not connected, trying again: %s", error)
            stop.wait(PAUSE_SECONDS)


def receive(consumer: pulsar.Consumer, *, stop: threading.Event, health: Health, out: BinaryIO) -> None:
    """Handle messages until told to stop, and then the rest of a batch that is begun.

    The broker gives out a batch again as a whole unless all of it is acknowledged.
    """
    batch: tuple[object, ...] | None = None
    while not stop.is_set():
        health.turn()
        message = _next(consumer, milliseconds=TURN_MILLISECONDS)
        if message is not None:
            _handle(consumer, message, out)
            batch = _batch(message)
    while batch is not None:
        message = _next(consumer, milliseconds=REST_MILLISECONDS)
        if message is None or _batch(message) != batch:
            return
        _handle(consumer, message, out)


def line(message: pulsar.Message) -> bytes:
    """The message's id and its payload as text, on one line, whatever the payload is."""
    text = message.data().decode(errors="backslashreplace")
    return f"{message.message_id()} {_SPECIAL.sub(_printable, text)}\n".encode()


def _printable(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def _handle(consumer: pulsar.Consumer, message: pulsar.Message, out: BinaryIO) -> None:
    out.write(line(message))
    out.flush()
    consumer.acknowledge(message)


def _next(consumer: pulsar.Consumer, *, milliseconds: int) -> pulsar.Message | None:
    with suppress(pulsar.Timeout):
        return consumer.receive(timeout_millis=milliseconds)
    return None


def _batch(message: pulsar.Message) -> tuple[object, ...] | None:
    """The batch the message came in; None of one that came alone."""
    id = message.message_id()
    if id.batch_index() < 0:
        return None
    return message.topic_name(), id.ledger_id(), id.entry_id()


def main() -> int:
    """Run until SIGTERM; of what cannot be mended by trying again, leave one line for the operator."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        settings = Consumer.load(os.environ)
        health = Health()
        serve(health, port=settings.port)
        consume(settings, stop=stop, health=health, out=sys.stdout.buffer)
    except BadSetting as error:
        return _give_up(f"InvalidSetting: {error}")
    except Hopeless as error:
        return _give_up(str(error))
    return 0


def _give_up(words: str) -> int:
    print(words, file=sys.stderr)
    with suppress(OSError):
        Path(os.environ.get("PULSAR_TERMINATION_LOG", "/dev/termination-log")).write_text(words)
    return 1


if __name__ == "__main__":
    sys.exit(main())

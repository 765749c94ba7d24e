"""A sample producer: send one message, or as many as asked, and end when the broker has them all."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import closing

import pulsar

from pulsar_consumer.client import Hopeless, connect, explain
from pulsar_consumer.settings import BadSetting, Producer


def produce(settings: Producer) -> None:
    """:raises Hopeless, PulsarException: when a message was not taken."""
    try:
        with closing(connect(settings.broker)) as client:
            producer = client.create_producer(settings.broker.topic)
            for message in settings.messages():
                producer.send(message.encode())
    except pulsar.PulsarException as error:
        raise explain(error, settings.broker) or error from None
    print(f"sent {settings.count} to {settings.broker.topic}", flush=True)


def main() -> int:
    """0 when all is sent; what failed goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        produce(Producer.load(os.environ))
    except (BadSetting, Hopeless, pulsar.PulsarException) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

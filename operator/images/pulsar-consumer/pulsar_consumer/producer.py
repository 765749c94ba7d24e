"""A sample producer: send one message, or as many as asked, and end when the broker has them all."""

from __future__ import annotations

import os
from contextlib import closing

import pulsar

from pulsar_consumer.client import connect, explain, run_to_the_end
from pulsar_consumer.settings import Producer


def produce(settings: Producer) -> None:
    """:raises Hopeless, PulsarException: when a message was not taken."""
    try:
        with closing(connect(settings.broker)) as client:
            producer = client.create_producer(settings.topic)
            for message in settings.messages():
                producer.send(message.encode())
    except pulsar.PulsarException as error:
        raise explain(error, settings.broker) or error from None
    print(f"sent {settings.count} to {settings.topic}", flush=True)


if __name__ == "__main__":
    run_to_the_end(lambda: produce(Producer.load(os.environ)))

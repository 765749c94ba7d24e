"""How soon topics that are new, and match a pattern, are found."""

from __future__ import annotations

import pulsar

SECONDS = 15


class _Configuration(pulsar._pulsar.ConsumerConfiguration):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.pattern_auto_discovery_period(SECONDS)


def look_often() -> None:
    """Have this process's consumers of a pattern list the namespace's topics every SECONDS.

    The client does so once a minute, and does not read the argument that it has for another time
    (apache/pulsar-client-python#171). A minute is also what a broker, by default, waits before it deletes a
    topic, with its messages, that no producer is connected to and nobody has subscribed to: one listing that
    fails would lose what a new topic has.
    """
    pulsar._pulsar.ConsumerConfiguration = _Configuration

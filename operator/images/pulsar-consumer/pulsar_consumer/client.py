"""The client as consumer and producer both use it: how it logs, authenticates, and fails for good."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import pulsar

from pulsar_consumer.handshake import refused
from pulsar_consumer.settings import BadSetting, Broker

OPERATION_SECONDS = 10
"""How long to try to subscribe before it is reported and retried; a stop waits for it to end."""

# The client's own words. A Python logger would be called from its threads until the process ends, which
# then ends in an abort now and then (apache/pulsar-client-python#256).
LOGGER = pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/stderr")

log = logging.getLogger("pulsar_consumer")


class Hopeless(Exception):
    """What a retry does not fix: a `reason` of a closed list that the operator knows, and words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")


REASONS: dict[type[Exception], tuple[str, str]] = {
    pulsar.AuthenticationError: (
        "AuthenticationFailed",
        "the broker does not accept the token, or wants one",
    ),
    pulsar.ErrorGettingAuthenticationData: ("AuthenticationFailed", "the token could not be read"),
    pulsar.AuthorizationError: ("NotAuthorized", "the token's bearer may not do this on the topic"),
    pulsar.TopicNotFound: ("TopicNotFound", "the broker has no such topic, tenant or namespace"),
    pulsar.InvalidTopicName: ("InvalidTopic", "this is no name of a topic"),
    pulsar.InvalidUrl: ("InvalidAddress", "this is no address of a broker"),
    pulsar.ConsumerBusy: ("SubscriptionBusy", "others hold the subscription, or with another type"),
}


def connect(broker: Broker) -> pulsar.Client:
    """A client, not yet connected: it connects with the first use.

    :raises Hopeless: when the address cannot be one.
    """
    authentication = (
        None if broker.token_file is None else pulsar.AuthenticationToken(lambda: token_of(broker))
    )
    try:
        return pulsar.Client(
            broker.server,
            authentication=authentication,
            operation_timeout_seconds=OPERATION_SECONDS,
            tls_validate_hostname=True,
            logger=LOGGER,
        )
    except ValueError as error:
        raise Hopeless("InvalidAddress", str(error)) from None


def explain(error: Exception, broker: Broker) -> Hopeless | None:
    """Why the use of a client failed, where that is for good."""
    if found := REASONS.get(type(error)):
        return Hopeless(*found)
    token = None if broker.token_file is None else token_of(broker)
    return Hopeless(*REASONS[pulsar.AuthenticationError]) if refused(broker, token=token) else None


def token_of(broker: Broker) -> str:
    """What the file says now; empty when it cannot be read.

    Never an exception: the client asks in a thread of its own, where one would end the process.
    """
    try:
        return broker.token_file.read_text().strip() if broker.token_file else ""
    except (OSError, UnicodeDecodeError) as error:
        log.error("the token cannot be read: %s", type(error).__name__)
        return ""


def run_to_the_end(program: Callable[[], None]) -> int:
    """Its exit status, 0 when all is done; what failed goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        program()
    except (BadSetting, Hopeless, pulsar.PulsarException) as error:
        print(error, file=sys.stderr)
        return 1
    return 0

"""The client as consumer and producer both use it: how it logs, authenticates, and fails for good."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

import pulsar

from pulsar_consumer.credentials import authentication, tls_arguments, tokens_of
from pulsar_consumer.handshake import Refusal, refusal
from pulsar_consumer.oauth2 import IssuerRefused, IssuerUnreachable
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


AUTHENTICATION_FAILED = "AuthenticationFailed"
CERTIFICATE_REJECTED = "CertificateRejected"
ISSUER_UNREACHABLE = "IssuerUnreachable"

REASONS: dict[type[Exception], tuple[str, str]] = {
    pulsar.AuthenticationError: (
        AUTHENTICATION_FAILED,
        "the broker does not accept the credentials of spec.auth, or wants some",
    ),
    pulsar.ErrorGettingAuthenticationData: (AUTHENTICATION_FAILED, "the credentials could not be read"),
    pulsar.AuthorizationError: ("NotAuthorized", "the bearer of spec.auth may not do this on the topic"),
    pulsar.TopicNotFound: ("TopicNotFound", "the broker has no such topic, tenant or namespace"),
    pulsar.InvalidTopicName: ("InvalidTopic", "this is no name of a topic"),
    pulsar.InvalidUrl: ("InvalidAddress", "this is no address of a broker"),
    pulsar.IncompatibleSchema: (
        "IncompatibleSchema",
        "the broker does not find it compatible with the schema of the topic",
    ),
    pulsar.ConsumerBusy: ("SubscriptionBusy", "others hold the subscription, or with another type"),
}


def connect(broker: Broker) -> pulsar.Client:
    """A client, not yet connected: it connects with the first use.

    :raises Hopeless: when the address cannot be one, or the issuer gives no token.
    """
    if (tokens := tokens_of(broker)) is not None:
        try:
            tokens.ensure()
        except IssuerRefused as error:
            words = f"the issuer does not accept client ID and secret of spec.auth.oauth2: {error}"
            raise Hopeless(AUTHENTICATION_FAILED, words) from None
        except IssuerUnreachable as error:
            raise Hopeless(ISSUER_UNREACHABLE, f"the issuer cannot be asked for a token: {error}") from None
    try:
        return pulsar.Client(
            broker.server,
            authentication=authentication(broker),
            operation_timeout_seconds=OPERATION_SECONDS,
            logger=LOGGER,
            **tls_arguments(broker),
        )
    except ValueError as error:
        raise Hopeless("InvalidAddress", str(error)) from None


def explain(error: Exception, broker: Broker) -> Hopeless | None:
    """Why the use of a client failed, where that is for good."""
    if found := REASONS.get(type(error)):
        return Hopeless(*found)
    match refusal(broker):
        case (Refusal.CREDENTIALS, _):
            return Hopeless(*REASONS[pulsar.AuthenticationError])
        case (Refusal.CLIENT_CERTIFICATE, _):
            words = "the broker does not accept the client certificate of spec.tls, or wants one"
            return Hopeless(AUTHENTICATION_FAILED, words)
        case (Refusal.BROKER, why):
            return Hopeless(CERTIFICATE_REJECTED, f"the broker's certificate is not accepted: {why}")
    return None


def run_to_the_end(program: Callable[[], None]) -> NoReturn:
    """Ends the process: with 0 when all is done, else what failed goes to standard error.

    At once, without Python's own end: the client's threads abort a process in which they outlive it.
    """
    status = _outcome(program)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _outcome(program: Callable[[], None]) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        program()
    except (BadSetting, Hopeless, pulsar.PulsarException) as error:
        print(error, file=sys.stderr)
        return 1
    return 0

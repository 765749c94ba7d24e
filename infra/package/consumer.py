"""The component `Consumer`: a PulsarConsumer, and the broker that it consumes from."""

import re
from typing import Any, Required, TypedDict

import pulumi

from infra.package.resource import Kind, declare

PORT, TLS_PORT = 6650, 6651
KIND = Kind(
    "pulsar.pulsarconsumer.krvarma.com",
    "PulsarConsumer",
    {
        "server_address": "serverAddress",
        "topic": "topic",
        "topics": "topics",
        "subscription_name": "subscriptionName",
        "subscription_type": "subscriptionType",
        "initial_position": "initialPosition",
        "replicas": "replicas",
        "token_secret_name": "auth.tokenSecretRef.name",
        "dead_letter_topic": "deadLetter.topic",
        "deletion_policy": "deletionPolicy",
    },
)
_FIRST = re.compile(r"pulsar(?P<tls>\+ssl)?://(?P<host>\[[^\]]+\]|[^:/,]+)(:(?P<port>[0-9]+))?")


class ConsumerArgs(TypedDict, total=False):
    """What a Consumer can be given."""

    name: pulumi.Input[str]
    """The name of the PulsarConsumer in the cluster. By default the name in the program."""
    namespace: pulumi.Input[str]
    """The namespace of the PulsarConsumer. By default that of the Kubernetes provider."""
    labels: pulumi.Input[dict[str, pulumi.Input[str]]]
    """Labels of the PulsarConsumer."""
    server_address: Required[pulumi.Input[str]]
    """The broker, as pulsar://HOST:PORT or pulsar+ssl://HOST:PORT."""
    topic: pulumi.Input[str]
    """The topic whose messages are consumed."""
    topics: pulumi.Input[list[pulumi.Input[str]]]
    """Several topics, in place of `topic`."""
    subscription_name: Required[pulumi.Input[str]]
    """The subscription of the consumers."""
    subscription_type: pulumi.Input[str]
    """How consumers share the messages: "Exclusive", "Shared", "Failover" or "Key_Shared"."""
    initial_position: pulumi.Input[str]
    """Where a new subscription begins: "Latest" or "Earliest"."""
    replicas: Required[int]
    """How many consumers run."""
    token_secret_name: pulumi.Input[str]
    """A Secret of the same namespace that has the token by which the broker lets the consumers in."""
    dead_letter_topic: pulumi.Input[str]
    """Where messages go that the handler refuses for good."""
    deletion_policy: pulumi.Input[str]
    """What becomes of the subscription when the PulsarConsumer is deleted: "Retain" or "Unsubscribe"."""
    spec: pulumi.Input[dict[str, pulumi.Input[Any]]]
    """Every other field of a PulsarConsumer's spec, as its definition has them, such as `handler`."""
    wait_for_ready: bool
    """Whether to wait for the condition Ready. By default true."""
    timeout_seconds: int
    """How long to wait for it, 600 by default."""


class Consumer(pulumi.ComponentResource):
    """Consumers of Pulsar topics that run a handler on each message."""

    host: pulumi.Output[str]
    """The host name of the broker, of the first one where several are given."""
    port: pulumi.Output[int]
    """The port of that broker."""
    secret_name: pulumi.Output[str] | None
    """The Secret with the token for the broker, if there is one."""
    name: pulumi.Output[str]
    """The name of the PulsarConsumer."""
    namespace: pulumi.Output[str]
    """The namespace of the PulsarConsumer."""

    def __init__(self, name: str, args: ConsumerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("kindling:index:Consumer", name, {}, opts)
        found = declare(KIND, name, args, parent=self)
        self.name, self.namespace = found.name, found.namespace
        address = found.field("serverAddress", "")
        self.host = address.apply(lambda text: broker(text)[0])
        self.port = address.apply(lambda text: broker(text)[1])
        token = "auth.tokenSecretRef.name"
        self.secret_name = found.field(token, "") if found.has(token) else None
        self.register_outputs({"name": self.name, "host": self.host, "port": self.port})


def broker(address: str) -> tuple[str, int]:
    """Host and port of the first broker of a `serverAddress` that the definition takes."""
    found = _FIRST.match(address)
    assert found is not None, address
    return found["host"], int(found["port"] or (TLS_PORT if found["tls"] else PORT))

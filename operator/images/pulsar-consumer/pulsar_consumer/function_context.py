"""The Context of Pulsar's own Function interface, as far as a PulsarConsumer can keep what it promises.

Everything else raises NotImplementedError with the name of what is not there: a state that is lost, or a
metric that nobody reads, would be worse.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, NoReturn

import pulsar
from pulsar.functions.context import Context
from pulsar.functions.serde import IdentitySerDe

from pulsar_consumer.outbox import Send

_IDENTITY = frozenset(
    {"serde.IdentitySerDe", "pulsar.functions.serde.IdentitySerDe", "pulsar.serde.IdentitySerDe"}
)
_CONF = frozenset(
    {
        "properties",
        "partition_key",
        "ordering_key",
        "sequence_id",
        "replication_clusters",
        "disable_replication",
        "event_timestamp",
    }
)


Record = Callable[[str, float], bool]
"""Takes a figure by its name; False where nobody reads it."""


class FunctionContext(Context):  # type: ignore[misc]
    """Of one message."""

    def __init__(
        self, message: Any, *, topics: list[str], output_topic: str, publish: Send, record: Record
    ) -> None:
        self._message, self._topics, self._output_topic = message, topics, output_topic
        self._publish, self._record = publish, record

    def get_message_id(self) -> Any:
        return self._message.message_id()

    def get_message_key(self) -> Any:
        return self._message.partition_key()

    def get_message_eventtime(self) -> Any:
        return self._message.event_timestamp()

    def get_message_properties(self) -> Any:
        return self._message.properties()

    def get_current_message_topic_name(self) -> Any:
        return self._message.topic_name()

    def get_partition_key(self) -> Any:
        return self._message.partition_key()

    def get_ordering_key(self) -> Any:
        return self._message.ordering_key()

    def get_logger(self) -> logging.Logger:
        return logging.getLogger("function")

    def get_user_config_value(self, key: str) -> str | None:
        """Of `spec.env`."""
        return os.environ.get(key)

    def get_secret(self, secret_name: str) -> str | None:
        """Of `spec.env`, as Pulsar's own runtime in Kubernetes has it."""
        return os.environ.get(secret_name)

    def get_input_topics(self) -> list[str]:
        return list(self._topics)

    def get_output_topic(self) -> str:
        return self._output_topic

    def get_output_serde_class_name(self) -> str:
        return "serde.IdentitySerDe"

    def publish(
        self,
        topic_name: str,
        message: Any,
        serde_class_name: str = "serde.IdentitySerDe",
        properties: dict[str, str] | None = None,
        compression_type: Any = None,
        callback: Callable[[Any, Any], Any] | None = None,
        message_conf: dict[str, Any] | None = None,
    ) -> None:
        """Waits until the broker has it: only then may the message that is handled be acknowledged."""
        if serde_class_name not in _IDENTITY:
            _missing(f"publish(serde_class_name={serde_class_name!r})", "serialize it to bytes yourself")
        if compression_type is not None:
            _missing("publish(compression_type=…)", "leave it out")
        arguments = dict(message_conf or {})
        if unknown := sorted(set(arguments) - _CONF):
            raise ValueError(f"publish(message_conf=…) does not take {', '.join(unknown)}")
        if properties:
            arguments["properties"] = properties
        id = self._publish(topic_name, IdentitySerDe().serialize(message), arguments)
        if callback is not None:
            callback(pulsar.Result.Ok, id)

    def get_function_tenant(self) -> NoReturn:
        _missing("get_function_tenant()")

    def get_function_namespace(self) -> NoReturn:
        _missing("get_function_namespace()")

    def get_function_name(self) -> NoReturn:
        _missing("get_function_name()")

    def get_function_id(self) -> NoReturn:
        _missing("get_function_id()")

    def get_instance_id(self) -> NoReturn:
        _missing("get_instance_id()", "the Pod's name is in the variable HOSTNAME")

    def get_function_version(self) -> NoReturn:
        _missing("get_function_version()")

    def get_user_config_map(self) -> NoReturn:
        _missing("get_user_config_map()", "get_user_config_value(NAME) has the variables of spec.env")

    def record_metric(self, metric_name: str, metric_value: Any) -> None:
        """Beside the consumer's own, with `spec.metrics`."""
        if not self._record(str(metric_name), float(metric_value)):
            _missing("record_metric()", "without spec.metrics: set its `enabled`")

    def ack(self, msgid: Any, topic: Any) -> NoReturn:
        _missing("ack()", "a message is acknowledged once process() has returned and its output is sent")

    def incr_counter(self, key: str, amount: Any) -> NoReturn:
        _missing("incr_counter()", "keep state outside of the consumer")

    def get_counter(self, key: str) -> NoReturn:
        _missing("get_counter()", "keep state outside of the consumer")

    def del_counter(self, key: str) -> NoReturn:
        _missing("del_counter()", "keep state outside of the consumer")

    def put_state(self, key: str, value: Any) -> NoReturn:
        _missing("put_state()", "keep state outside of the consumer")

    def get_state(self, key: str) -> NoReturn:
        _missing("get_state()", "keep state outside of the consumer")


def _missing(what: str, instead: str = "") -> NoReturn:
    words = f"a PulsarConsumer has no {what} of Pulsar's Functions"
    raise NotImplementedError(f"{words}: {instead}" if instead else words)

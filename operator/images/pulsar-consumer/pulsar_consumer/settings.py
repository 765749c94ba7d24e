"""What the consumer and the producer are told by their environment, read and validated in one place.

Without the client, so that a wrong setting is told in its own words and this file is tested without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SCHEMES = ("pulsar://", "pulsar+ssl://")
TYPES = ("Shared", "Exclusive", "Failover", "Key_Shared")
POSITIONS = ("Latest", "Earliest")


class BadSetting(Exception):
    """One environment variable that cannot be used: its name, its value, the remedy."""


@dataclass(frozen=True, kw_only=True)
class Broker:
    """How to reach the broker. `token_file` is read anew at each authentication."""

    server: str
    topic: str
    token_file: Path | None

    @staticmethod
    def load(env: Mapping[str, str]) -> Broker:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        server = _required(env, "PULSAR_SERVER")
        if not server.startswith(SCHEMES):
            raise BadSetting(
                f"PULSAR_SERVER={server!r}: set it to pulsar://HOST:PORT or pulsar+ssl://HOST:PORT"
            )
        token_file = env.get("PULSAR_TOKEN_FILE", "")
        return Broker(
            server=server,
            topic=_required(env, "PULSAR_TOPIC"),
            token_file=Path(token_file) if token_file else None,
        )


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """What to consume, and the port on which the kubelet asks."""

    broker: Broker
    subscription: str
    subscription_type: str
    initial_position: str
    port: int

    @staticmethod
    def load(env: Mapping[str, str]) -> Consumer:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        return Consumer(
            broker=Broker.load(env),
            subscription=_required(env, "PULSAR_SUBSCRIPTION_NAME"),
            subscription_type=_one_of(env, "PULSAR_SUBSCRIPTION_TYPE", TYPES),
            initial_position=_one_of(env, "PULSAR_INITIAL_POSITION", POSITIONS),
            port=_number(env, "PULSAR_HEALTH_PORT", default=8080, greatest=65535),
        )


@dataclass(frozen=True, kw_only=True)
class Producer:
    """What to send, and how often; each is numbered when it is more than once."""

    broker: Broker
    message: str
    count: int

    @staticmethod
    def load(env: Mapping[str, str]) -> Producer:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        return Producer(
            broker=Broker.load(env),
            message=_required(env, "PULSAR_MESSAGE"),
            count=_number(env, "PULSAR_COUNT", default=1, greatest=1_000_000_000),
        )

    def messages(self) -> Iterator[str]:
        """Each message to send, in order."""
        if self.count == 1:
            yield self.message
        else:
            yield from (f"{self.message} {number}" for number in range(1, self.count + 1))


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "")
    if not value:
        raise BadSetting(f"{name}={value!r}: it must be set")
    return value


def _one_of(env: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """The first of them when it is not set."""
    value = env.get(name) or allowed[0]
    if value not in allowed:
        raise BadSetting(f"{name}={value!r}: set it to one of {', '.join(allowed)}")
    return value


def _number(env: Mapping[str, str], name: str, *, default: int, greatest: int) -> int:
    value = env.get(name) or str(default)
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and 1 <= int(value) <= greatest):
        raise BadSetting(f"{name}={value!r}: set it to a number, 1 to {greatest}")
    return int(value)

"""The settings of consumer and producer, from their environment, read and validated in one place.

Without the client, so that a wrong setting is reported in its own words and this file is tested without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pulsar_consumer.errors import BadSetting as BadSetting
from pulsar_consumer.schema import Schema
from pulsar_consumer.topics import Topics

ENCRYPTED = "pulsar+ssl://"
SCHEMES = ("pulsar://", ENCRYPTED)
TYPES = ("Shared", "Exclusive", "Failover", "Key_Shared")
POSITIONS = ("Latest", "Earliest")
_HANDLER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class OAuth2:
    """The issuer of access tokens, and the folder with `clientId` and `clientSecret`, read for each token."""

    issuer: str
    audience: str
    scope: str
    files: Path


@dataclass(frozen=True, kw_only=True)
class Broker:
    """How to reach the broker, and by which files: each is read again whenever it is used.

    At most one of `token_file`, `basic_files` (a folder with `username` and `password`) and `oauth2`. Without
    a `ca_file` the system's authorities are trusted.
    """

    server: str
    token_file: Path | None = None
    basic_files: Path | None = None
    oauth2: OAuth2 | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    @property
    def encrypted(self) -> bool:
        return self.server.startswith(ENCRYPTED)

    @staticmethod
    def load(env: Mapping[str, str]) -> Broker:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        server = _required(env, "PULSAR_SERVER")
        if not server.startswith(SCHEMES):
            raise BadSetting(
                f"PULSAR_SERVER={server!r}: set it to pulsar://HOST:PORT or pulsar+ssl://HOST:PORT"
            )
        certificate = _file(env, "PULSAR_TLS_CERTIFICATE_FILE")
        return Broker(
            server=server,
            token_file=_file(env, "PULSAR_TOKEN_FILE"),
            basic_files=_file(env, "PULSAR_BASIC_FILES"),
            oauth2=_oauth2(env),
            ca_file=_file(env, "PULSAR_TLS_CA_FILE"),
            certificate_file=certificate,
            key_file=Path(_required(env, "PULSAR_TLS_KEY_FILE")) if certificate else None,
        )


def _file(env: Mapping[str, str], name: str) -> Path | None:
    value = env.get(name, "")
    return Path(value) if value else None


def _oauth2(env: Mapping[str, str]) -> OAuth2 | None:
    issuer = env.get("PULSAR_OAUTH2_ISSUER_URL", "")
    if not issuer:
        return None
    if not issuer.startswith("https://"):
        raise BadSetting(f"PULSAR_OAUTH2_ISSUER_URL={issuer!r}: set it to https://HOST/PATH")
    return OAuth2(
        issuer=issuer,
        audience=env.get("PULSAR_OAUTH2_AUDIENCE", ""),
        scope=env.get("PULSAR_OAUTH2_SCOPE", ""),
        files=Path(_required(env, "PULSAR_OAUTH2_FILES")),
    )


@dataclass(frozen=True, kw_only=True)
class Python:
    """Users' code: `name` is MODULE:NAME, `hash` that of the `files`, of which `copies` has a copy."""

    name: str
    hash: str
    files: Path
    copies: Path
    timeout_seconds: float


@dataclass(frozen=True, kw_only=True)
class Http:
    """A service to which messages are sent: at the URL's host, or by a `socket` of this Pod.

    `beside`: it is in a container of this Pod, which may restart.
    """

    url: str
    beside: bool = False
    socket: Path | None = None
    timeout_seconds: float


@dataclass(frozen=True, kw_only=True)
class Handling:
    """What is done with each message, with how many at once, and what then. Topics are empty for none."""

    handler: Python | Http
    concurrency: int
    output_topic: str
    dead_letter_topic: str
    keep_dead_letters: bool = True
    max_deliveries: int
    backoff_initial_seconds: float
    backoff_factor: float
    backoff_max_seconds: float
    marker: Path
    """A file of the Pod's own: there while the handler fails on every message."""
    calls: Path = Path("/tmp/handler-calls")
    """Another: the calls under way."""
    termination_log: Path = Path("/dev/termination-log")
    schema: Schema | None = None

    def backoff_seconds(self, failures: int) -> float:
        """How long to wait after so many failures, one at least."""
        # Bounded before it is raised to a power: 10.0 ** 400 is an error.
        steps = min(failures - 1, 64)
        return min(self.backoff_max_seconds, self.backoff_initial_seconds * self.backoff_factor**steps)

    @staticmethod
    def load(env: Mapping[str, str]) -> Handling | None:
        """None where messages are printed.

        :raises BadSetting: for the first variable that is missing or wrong.
        """
        name, url = env.get("PULSAR_HANDLER_PYTHON", ""), env.get("PULSAR_HANDLER_URL", "")
        if not name and not url:
            return None
        timeout = float(_number(env, "PULSAR_HANDLER_TIMEOUT_SECONDS", default=60, greatest=3600))
        handler: Python | Http
        if name:
            if _HANDLER.fullmatch(name) is None:
                raise BadSetting(f"PULSAR_HANDLER_PYTHON={name!r}: set it to MODULE:NAME")
            handler = Python(
                name=name,
                hash=_required(env, "PULSAR_HANDLER_HASH"),
                files=Path(env.get("PULSAR_HANDLER_FILES") or "/etc/kindling/handler"),
                copies=Path(env.get("PULSAR_HANDLER_COPIES") or "/tmp/handler"),
                timeout_seconds=timeout,
            )
        else:
            if not url.startswith(("http://", "https://")):
                raise BadSetting(f"PULSAR_HANDLER_URL={url!r}: set it to http://HOST:PORT/PATH")
            handler = Http(
                url=url,
                beside=env.get("PULSAR_HANDLER_BESIDE", "") == "true",
                socket=_file(env, "PULSAR_HANDLER_SOCKET"),
                timeout_seconds=timeout,
            )
        return Handling(
            handler=handler,
            concurrency=_number(env, "PULSAR_HANDLER_CONCURRENCY", default=1, greatest=256),
            output_topic=env.get("PULSAR_OUTPUT_TOPIC", ""),
            dead_letter_topic=env.get("PULSAR_DEAD_LETTER_TOPIC", ""),
            keep_dead_letters=keeps_dead_letters(env),
            max_deliveries=_number(env, "PULSAR_RETRY_MAX_DELIVERIES", default=5, greatest=10_000),
            backoff_initial_seconds=float(
                _number(env, "PULSAR_RETRY_INITIAL_SECONDS", default=1, greatest=86_400)
            ),
            backoff_factor=float(_number(env, "PULSAR_RETRY_FACTOR", default=2, greatest=10)),
            backoff_max_seconds=float(_number(env, "PULSAR_RETRY_MAX_SECONDS", default=60, greatest=86_400)),
            marker=Path(env.get("PULSAR_HANDLER_MARKER") or "/tmp/handler-failing"),
            calls=Path(env.get("PULSAR_HANDLER_CALLS") or "/tmp/handler-calls"),
            termination_log=Path(env.get("PULSAR_TERMINATION_LOG") or "/dev/termination-log"),
            schema=Schema.load(env),
        )


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """What to consume, and the port on which the kubelet asks. `handling` None: messages are printed;
    `metrics_port` None: nothing is counted.
    """

    broker: Broker
    topics: Topics
    subscription: str
    subscription_type: str
    initial_position: str
    port: int
    metrics_port: int | None = None
    handling: Handling | None = None

    @staticmethod
    def load(env: Mapping[str, str]) -> Consumer:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        return Consumer(
            broker=Broker.load(env),
            topics=Topics.load(env),
            subscription=_required(env, "PULSAR_SUBSCRIPTION_NAME"),
            subscription_type=_one_of(env, "PULSAR_SUBSCRIPTION_TYPE", TYPES),
            initial_position=_one_of(env, "PULSAR_INITIAL_POSITION", POSITIONS),
            port=_number(env, "PULSAR_HEALTH_PORT", default=8080, greatest=65535),
            metrics_port=(
                _number(env, "PULSAR_METRICS_PORT", default=1, greatest=65535)
                if env.get("PULSAR_METRICS_PORT")
                else None
            ),
            handling=Handling.load(env),
        )


@dataclass(frozen=True, kw_only=True)
class Producer:
    """What to send, and how often; each is numbered when it is more than once."""

    broker: Broker
    topic: str
    message: str
    count: int

    @staticmethod
    def load(env: Mapping[str, str]) -> Producer:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        return Producer(
            broker=Broker.load(env),
            topic=_required(env, "PULSAR_TOPIC"),
            message=_required(env, "PULSAR_MESSAGE"),
            count=_number(env, "PULSAR_COUNT", default=1, greatest=1_000_000_000),
        )

    def messages(self) -> Iterator[str]:
        """Each message to send, in order."""
        if self.count == 1:
            yield self.message
        else:
            yield from (f"{self.message} {number}" for number in range(1, self.count + 1))


def keeps_dead_letters(env: Mapping[str, str]) -> bool:
    """Whether the broker is to keep them for this consumer."""
    return env.get("PULSAR_DEAD_LETTER_KEEP", "") != "false"


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

"""The process's settings, from its environment, once, at the start."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kindling.engine.resync import EVERY_SECONDS
from kindling.kinds.certificates import LEAST_SECONDS
from kindling.kinds.registry import NAMES
from kindling.kinds.server_tls import DEFAULT_LIFE
from kindling.logs import FORMATS
from kindling.telemetry import settings as telemetry

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SECRET = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MOST_CHARACTERS = 253
LONGEST_CERTIFICATE_SECONDS = 365 * 86400
_ADDRESS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?:[1-9][0-9]{0,4}")


class InvalidConfig(Exception):
    """One environment variable that cannot be used: its name, its value, the remedy."""


class Images(Mapping[str, str]):
    """The operands' images: `images["pulsar-consumer"]` is KINDLING_IMAGE_PULSAR_CONSUMER.

    :raises BadSetting: on reading one that is not set, or not to an image's name.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        start = "KINDLING_IMAGE_"
        self._values = {
            name.removeprefix(start).lower().replace("_", "-"): value.strip()
            for name, value in env.items()
            if name.startswith(start)
        }

    def __getitem__(self, name: str) -> str:
        image = self._values.get(name, "")
        if not image or any(char.isspace() for char in image):
            variable = "KINDLING_IMAGE_" + name.upper().replace("-", "_")
            raise InvalidConfig(
                f"{variable}={image!r}: set it to the image built from operator/images/{name}"
            )
        return image

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def given(self) -> dict[str, str]:
        """As they are set, right or not."""
        return dict(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, kw_only=True)
class Config:
    """`watch_namespaces` empty means all of them, `kinds` every kind; `images` are the operands', by
    their folders' names.

    `watch_seconds` is how long a watch lasts before it is restarted: a process that got no answer from the
    API server for twice as long is not alive; `resync_seconds` how often everything is listed and looked at
    again, watches or not. `tunnel` is for a process outside of the cluster: it reaches Pods through the API
    server. `local_broker`, HOST:PORT or empty, is the Pulsar broker that consumers find at localhost.
    `pull_secrets` are the names of the Secrets by which nodes pull the operands' images.
    `certificate_seconds` is how long the certificates are valid that are made for servers. `debug` serves a
    page that names every object known, with its version. `prober` is the socket of the prober; without one
    the process starts a prober of its own. `traces` is the exporter of `kindling.telemetry.settings`.
    """

    images: Images
    namespace: str
    pod: str
    watch_namespaces: tuple[str, ...]
    kinds: tuple[str, ...]
    log_level: int
    log_format: str
    port: int
    watch_seconds: int
    resync_seconds: int
    tunnel: bool
    local_broker: str
    pull_secrets: tuple[str, ...]
    certificate_seconds: int
    debug: bool
    prober: Path | None
    traces: str

    @staticmethod
    def load(env: Mapping[str, str] = os.environ) -> Config:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        level = env.get("KINDLING_LOG_LEVEL", "") or "INFO"
        if level not in LEVELS:
            raise InvalidConfig(f"KINDLING_LOG_LEVEL={level!r}: set it to one of {', '.join(LEVELS)}")
        format = env.get("KINDLING_LOG_FORMAT", "") or "json"
        if format not in FORMATS:
            raise InvalidConfig(f"KINDLING_LOG_FORMAT={format!r}: set it to one of {', '.join(FORMATS)}")
        tunnel = _switch(env, "KINDLING_TUNNEL", on="outside of the cluster")
        debug = _switch(env, "KINDLING_DEBUG", on="to look into it")
        broker = env.get("KINDLING_LOCAL_BROKER", "")
        if broker and _ADDRESS.fullmatch(broker) is None:
            raise InvalidConfig(f"KINDLING_LOCAL_BROKER={broker!r}: set it to HOST:PORT, or leave it empty")
        prober = env.get("KINDLING_PROBER", "")
        if prober and not Path(prober).is_absolute():
            raise InvalidConfig(
                f"KINDLING_PROBER={prober!r}: set it to a socket's absolute path, or to nothing"
            )
        watched = env.get("KINDLING_WATCH_NAMESPACES", "").split(",")
        return Config(
            images=Images(env),
            namespace=_namespace("KINDLING_NAMESPACE", env.get("KINDLING_NAMESPACE") or "kindling-system"),
            pod=env.get("KINDLING_POD") or socket.gethostname(),
            watch_namespaces=tuple(
                dict.fromkeys(
                    _namespace("KINDLING_WATCH_NAMESPACES", name.strip()) for name in watched if name.strip()
                )
            ),
            kinds=_kinds(env.get("KINDLING_KINDS", "")),
            log_level=logging.getLevelNamesMapping()[level],
            log_format=format,
            port=_number(env, "KINDLING_PORT", default=8080, most=65535),
            watch_seconds=_number(env, "KINDLING_WATCH_SECONDS", default=120, most=3600),
            resync_seconds=_number(env, "KINDLING_RESYNC_SECONDS", default=EVERY_SECONDS, most=86400),
            tunnel=tunnel,
            local_broker=broker,
            pull_secrets=_secrets(env.get("KINDLING_PULL_SECRETS", "")),
            certificate_seconds=_number(
                env,
                "KINDLING_CERTIFICATE_SECONDS",
                default=int(DEFAULT_LIFE.total_seconds()),
                least=LEAST_SECONDS,
                most=LONGEST_CERTIFICATE_SECONDS,
            ),
            debug=debug,
            prober=Path(prober) if prober else None,
            traces=_traces(env),
        )


def _switch(env: Mapping[str, str], variable: str, *, on: str) -> bool:
    value = env.get(variable, "")
    if value not in ("", "0", "1"):
        raise InvalidConfig(f"{variable}={value!r}: set it to 1 {on}, else to 0")
    return value == "1"


def _traces(env: Mapping[str, str]) -> str:
    try:
        return telemetry.exporter(env)
    except ValueError as error:
        raise InvalidConfig(str(error)) from None


def _number(env: Mapping[str, str], variable: str, *, default: int, most: int, least: int = 1) -> int:
    value = env.get(variable, "") or str(default)
    if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
        raise InvalidConfig(f"{variable}={value!r}: set it to a whole number, {least} to {most}")
    return int(value)


def _kinds(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    for name in names:
        if name not in NAMES:
            allowed = f"{', '.join(NAMES)}, with commas between them, or leave it empty for all"
            raise InvalidConfig(f"KINDLING_KINDS={value!r}: {name!r} is no kind; set it to some of {allowed}")
    return names


def _secrets(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    for name in names:
        if len(name) > MOST_CHARACTERS or _SECRET.fullmatch(name) is None:
            raise InvalidConfig(
                f"KINDLING_PULL_SECRETS={value!r}: {name!r} is not a Secret's name; set it to names with "
                "commas between them, or leave it empty"
            )
    return names


def _namespace(variable: str, value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise InvalidConfig(f"{variable}={value!r}: not a namespace's name (a-z, 0-9 and '-', at most 63)")
    return value

"""The process's settings, from its environment, once, at the start."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class BadSetting(Exception):
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
            raise BadSetting(f"{variable}={image!r}: set it to the image built from operator/images/{name}")
        return image

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, kw_only=True)
class Config:
    """`watch_namespaces` empty means all of them; `images` are the operands', by their folders' names."""

    images: Mapping[str, str]
    namespace: str
    pod: str
    watch_namespaces: tuple[str, ...]
    log_level: int
    port: int

    @staticmethod
    def load(env: Mapping[str, str] = os.environ) -> Config:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        level = env.get("KINDLING_LOG_LEVEL", "") or "INFO"
        if level not in LEVELS:
            raise BadSetting(f"KINDLING_LOG_LEVEL={level!r}: set it to one of {', '.join(LEVELS)}")
        port = env.get("KINDLING_PORT", "") or "8080"
        if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise BadSetting(f"KINDLING_PORT={port!r}: set it to a port number, 1 to 65535")
        watched = env.get("KINDLING_WATCH_NAMESPACES", "").split(",")
        return Config(
            images=Images(env),
            namespace=_namespace("KINDLING_NAMESPACE", env.get("KINDLING_NAMESPACE") or "kindling-system"),
            pod=env.get("KINDLING_POD") or socket.gethostname(),
            watch_namespaces=tuple(
                _namespace("KINDLING_WATCH_NAMESPACES", name.strip()) for name in watched if name.strip()
            ),
            log_level=logging.getLevelNamesMapping()[level],
            port=int(port),
        )


def _namespace(variable: str, value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise BadSetting(f"{variable}={value!r}: not a namespace's name (a-z, 0-9 and '-', at most 63)")
    return value

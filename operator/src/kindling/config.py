"""The process's settings, from its environment, once, at the start."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class BadSetting(Exception):
    """One environment variable that cannot be used: its name, its value, the remedy."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """`watch_namespaces` empty means all of them."""

    image_postgres: str
    namespace: str
    pod: str
    watch_namespaces: tuple[str, ...]
    log_level: int
    port: int

    @staticmethod
    def load(env: Mapping[str, str] = os.environ) -> Config:
        """:raises BadSetting: for the first variable that is missing or wrong."""
        image = env.get("KINDLING_IMAGE_POSTGRES", "").strip()
        if not image or any(char.isspace() for char in image):
            raise BadSetting(
                f"KINDLING_IMAGE_POSTGRES={image!r}: set it to the image that Postgresql resources run"
            )
        level = env.get("KINDLING_LOG_LEVEL", "") or "INFO"
        if level not in LEVELS:
            raise BadSetting(f"KINDLING_LOG_LEVEL={level!r}: set it to one of {', '.join(LEVELS)}")
        port = env.get("KINDLING_PORT", "") or "8080"
        if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise BadSetting(f"KINDLING_PORT={port!r}: set it to a port number, 1 to 65535")
        watched = env.get("KINDLING_WATCH_NAMESPACES", "").split(",")
        return Config(
            image_postgres=image,
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

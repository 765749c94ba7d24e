"""What a stack can set, read once into types and refused by name where it is wrong.

Both the Pulumi program and the command line read it, so Pulumi is not imported here. Defaults stand in
Pulumi.yaml alone: Pulumi lays them under the stack's values for the program, `read` does for others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from infra.errors import KindlingError
from infra.paths import REPOSITORY

PROJECT = "kindling"
AUTO = "auto"

CLUSTERS = ("kind",)
LOG_LEVELS = ("debug", "info", "warning", "error")
MOST_WORKERS = 8
MOST_REPLICAS = 5
FIRST_PORT, LAST_PORT = 1024, 65535

# The API server's own rule for namespace names (RFC 1123 label).
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# A reference with a tag or a digest: a bare name would mean `latest`, which is another image every day.
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*?(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})")

Value = TypeVar("Value")
Get = Callable[[str], str | None]


@dataclass(frozen=True)
class ClusterSettings:
    """Where the stack runs. `api_server_port` 0 and `node_image` 'auto' are decided at creation."""

    source: str
    name: str
    node_image: str
    workers: int
    api_server_port: int

    @property
    def context(self) -> str:
        """The name that kind gives the cluster in a kubeconfig."""
        return f"kind-{self.name}"


@dataclass(frozen=True)
class OperatorSettings:
    """How the operator runs. No `watch_namespaces` means all of them."""

    replicas: int
    log_level: str
    watch_namespaces: tuple[str, ...]


@dataclass(frozen=True)
class SamplesSettings:
    """Whether the manifests under samples/ are part of the stack."""

    enabled: bool


@dataclass(frozen=True)
class BrokerSettings:
    """Whether a Pulsar broker for samples and tests is part of the stack."""

    enabled: bool


@dataclass(frozen=True)
class Settings:
    """One stack's settings, each value checked."""

    stack: str
    cluster: ClusterSettings
    operator: OperatorSettings
    samples: SamplesSettings
    broker: BrokerSettings


def load(get: Get, *, stack: str) -> Settings:
    """Settings from `get`, which answers a key without its project prefix as Pulumi's Config does:
    text, with lists and booleans as JSON. Raises KindlingError on the first value that is wrong, and
    on a key of the stack's file that means nothing here.
    """
    _refuse_unknown_keys(stack)
    source = _Source(get, stack)
    return Settings(
        stack=stack,
        cluster=ClusterSettings(
            source=source.one_of("cluster", CLUSTERS),
            name=cluster_name(stack),
            node_image=source.parsed("nodeImage", _image, "`auto`, or an image with a tag or a digest"),
            workers=source.number("workers", 0, MOST_WORKERS),
            api_server_port=source.parsed(
                "apiServerPort", _port, f"0 for a free one, or a port from {FIRST_PORT} to {LAST_PORT}"
            ),
        ),
        operator=OperatorSettings(
            replicas=source.number("replicas", 1, MOST_REPLICAS),
            log_level=source.one_of("logLevel", LOG_LEVELS),
            watch_namespaces=source.parsed(
                "watchNamespaces", _namespaces, "a list of namespace names (a-z, 0-9 and -), each named once"
            ),
        ),
        samples=SamplesSettings(enabled=source.enabled("samples")),
        broker=BrokerSettings(enabled=source.enabled("broker")),
    )


def read(stack: str) -> Settings:
    """Settings straight from Pulumi.yaml and Pulumi.STACK.yaml, for those who are not inside Pulumi.

    Raises KindlingError where the stack has no file or a value is wrong.
    """
    if stack not in stacks():
        raise KindlingError(
            f"there is no stack `{stack}`",
            why=f"the stacks are {', '.join(stacks())}, each a file Pulumi.STACK.yaml",
            remedy="name one of them.",
        )
    defaults = {key: declared["default"] for key, declared in _declared().items()}
    values = {**defaults, **_own_keys(stack)}

    def get(key: str) -> str | None:
        value = values.get(key)
        return value if value is None or isinstance(value, str) else json.dumps(value)

    return load(get, stack=stack)


def stacks() -> list[str]:
    """The stacks that have a settings file, by name."""
    return sorted(path.stem.removeprefix("Pulumi.") for path in REPOSITORY.glob("Pulumi.*.yaml"))


def cluster_name(stack: str) -> str:
    """The name of the stack's own cluster."""
    return f"{PROJECT}-{stack}"


class _Source:
    """Reads values and names key, value, stack and what is allowed when one is wrong."""

    def __init__(self, get: Get, stack: str) -> None:
        self._get, self._stack = get, stack

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        return self.parsed(key, lambda text: text if text in allowed else None, ", ".join(allowed))

    def enabled(self, key: str) -> bool:
        return self.one_of(key, ("true", "false")) == "true"

    def number(self, key: str, least: int, most: int) -> int:
        def parse(text: str) -> int | None:
            value = _whole(text)
            return value if value is not None and least <= value <= most else None

        return self.parsed(key, parse, f"a whole number from {least} to {most}")

    def parsed(self, key: str, parse: Callable[[str], Value | None], allowed: str) -> Value:
        text = self._get(key)
        value = None if text is None else parse(text)
        if value is None:
            stands = "is not set" if text is None else f"can not be `{text}`"
            raise KindlingError(
                f"{PROJECT}:{key} of stack `{self._stack}` {stands}",
                why=f"allowed: {allowed}",
                remedy=f"set it in {_stack_file(self._stack).name}.",
            )
        return value


def _refuse_unknown_keys(stack: str) -> None:
    declared = _declared()
    for key in _own_keys(stack):
        if key not in declared:
            raise KindlingError(
                f"{PROJECT}:{key} of stack `{stack}` is not a setting",
                why=f"allowed: {', '.join(sorted(declared))}",
                remedy=f"mend or remove it in {_stack_file(stack).name}.",
            )


def _own_keys(stack: str) -> dict[str, Any]:
    """The stack file's values of this project, without their prefix."""
    path = _stack_file(stack)
    config = (_yaml(path).get("config") or {}) if path.exists() else {}
    prefix = f"{PROJECT}:"
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}


def _declared() -> dict[str, Any]:
    declared: dict[str, Any] = _yaml(REPOSITORY / "Pulumi.yaml")["config"]
    return declared


def _stack_file(stack: str) -> Path:
    return REPOSITORY / f"Pulumi.{stack}.yaml"


def _yaml(path: Path) -> dict[str, Any]:
    # Imported late: the command line imports this module before the environment stands.
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise KindlingError(f"{path.name} is not YAML", why=str(error), remedy="mend the file.") from None
    if not isinstance(content, dict) or not isinstance(content.get("config") or {}, dict):
        raise KindlingError(f"{path.name} must hold a mapping under `config`", remedy="mend the file.")
    return content


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def _port(text: str) -> int | None:
    port = _whole(text)
    return port if port == 0 or (port is not None and FIRST_PORT <= port <= LAST_PORT) else None


def _image(text: str) -> str | None:
    if text == AUTO:
        return text
    return text if _IMAGE.fullmatch(text) and not text.endswith(":latest") else None


def _namespaces(text: str) -> tuple[str, ...] | None:
    try:
        names = json.loads(text)
    except ValueError:
        return None
    if not isinstance(names, list) or len(names) != len(set(map(str, names))):
        return None
    if not all(isinstance(name, str) and _LABEL.fullmatch(name) for name in names):
        return None
    return tuple(names)

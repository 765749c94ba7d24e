"""What a stack can set, read once into types and refused by name where it is wrong.

Both the Pulumi program and the command line read it, so Pulumi is not imported here. Defaults stand in
Pulumi.yaml alone: Pulumi lays them under the stack's values for the program, `read` does for others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import setting_values as values
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.setting_source import PROJECT as PROJECT
from infra.setting_source import Get, Source
from infra.setting_values import AUTO as AUTO
from infra.setting_values import FIRST_PORT, LAST_PORT

KIND, EXISTING = CLUSTERS = ("kind", "existing")
BUILD, PROMOTED = IMAGE_SOURCES = ("build", "promoted")
CLUSTER_WIDE, NAMESPACES = SCOPES = ("cluster", "namespaces")
LOG_LEVELS = ("debug", "info", "warning", "error")
MOST_WORKERS = 8
MOST_REPLICAS = 5
# The kind whose sample needs the broker.
BROKER_USER = "PulsarConsumer"
# Where samples/ puts its objects.
SAMPLES_NAMESPACE = "default"

# What means something for one sort of cluster, or of images, alone.
_OF_KIND = ("nodeImage", "workers", "apiServerPort")
_OF_EXISTING = ("kubeconfig", "context", "registry", "insecureRegistry", "imageSource", "images")
_OF_BUILD = ("registry", "insecureRegistry")
_OF_PROMOTED = ("images",)


@dataclass(frozen=True)
class ClusterSettings:
    """Where the stack runs. `api_server_port` 0 and `node_image` 'auto' are decided at creation.

    Of an existing cluster, `context` is the user's, in `kubeconfig`: a path, or empty for KUBECONFIG's.
    """

    source: str
    name: str
    node_image: str = AUTO
    workers: int = 0
    api_server_port: int = 0
    kubeconfig: str = ""
    existing_context: str = ""

    @property
    def context(self) -> str:
        """The cluster's name in a kubeconfig: the user's, or the one that kind gives."""
        return self.existing_context or f"kind-{self.name}"

    @property
    def is_existing(self) -> bool:
        """Whether the cluster is somebody else's to make and to remove."""
        return self.source == EXISTING


@dataclass(frozen=True)
class ImageSettings:
    """Where an existing cluster's images come from.

    Built here and pushed below `registry` (HOST[:PORT]/PREFIX), or `promoted`: taken as another stack
    has them, by name, and never built. `insecure` is a registry without TLS.
    """

    source: str = BUILD
    registry: str = ""
    insecure: bool = False
    promoted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorSettings:
    """How the operator runs. No `watch_namespaces` means all of them, no `kinds` every kind.

    With `scope` 'namespaces' its rights end where they do: Roles in each, and no ClusterRole.
    """

    replicas: int
    log_level: str
    watch_namespaces: tuple[str, ...]
    scope: str = CLUSTER_WIDE
    kinds: tuple[str, ...] = ()
    pod: Mapping[str, Any] = field(default_factory=dict)
    """What its Pods have beyond ours, in Kubernetes' own words: see `setting_values.OPERATOR_POD`."""


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
    images: ImageSettings = field(default_factory=ImageSettings)
    # Whether Pulumi refuses to remove what holds data: the kinds, the samples, the namespace, the cluster.
    protect: bool = False


def load(get: Get, *, stack: str) -> Settings:
    """Settings from `get`, which answers a key without its project prefix as Pulumi's Config does:
    text, with lists and booleans as JSON. Raises KindlingError on the first value that is wrong, and
    on a key of the stack's file that means nothing here.
    """
    _refuse_unknown_keys(stack)
    source = Source(get, stack=stack, default=_default)
    cluster = _cluster(source, stack)
    samples, broker = source.enabled("samples"), source.enabled("broker")
    operator = _operator(source)
    if samples and not broker and (not operator.kinds or BROKER_USER in operator.kinds):
        # `up` waits for every sample.
        source.wrong("broker", "true while kindling:samples is true, for the PulsarConsumer among them")
    return Settings(
        stack=stack,
        cluster=cluster,
        operator=operator,
        samples=SamplesSettings(enabled=samples),
        broker=BrokerSettings(enabled=broker),
        images=_images(source) if cluster.is_existing else ImageSettings(),
        protect=_protect(source, cluster),
    )


def _protect(source: Source, cluster: ClusterSettings) -> bool:
    """By default what is in a cluster that is not ours alone stays."""
    value = source.one_of("protect", (AUTO, "true", "false"))
    return cluster.is_existing if value == AUTO else value == "true"


def _cluster(source: Source, stack: str) -> ClusterSettings:
    name = cluster_name(stack)
    if source.one_of("cluster", CLUSTERS) == EXISTING:
        source.refuse(_OF_KIND, where="kindling:cluster is `existing`: only a kind cluster is made here")
        return ClusterSettings(
            source=EXISTING,
            name=name,
            kubeconfig=source.parsed("kubeconfig", values.path, "the path of a file, or nothing"),
            existing_context=source.parsed("context", values.context, "the name of a context"),
        )
    source.refuse(_OF_EXISTING, where="kindling:cluster is `kind`: its images are put on its nodes")
    return ClusterSettings(
        source=KIND,
        name=name,
        node_image=source.parsed("nodeImage", values.image, "`auto`, or an image with a tag or a digest"),
        workers=source.number("workers", 0, MOST_WORKERS),
        api_server_port=source.parsed(
            "apiServerPort", values.port, f"0 for a free one, or a port from {FIRST_PORT} to {LAST_PORT}"
        ),
    )


def _images(source: Source) -> ImageSettings:
    if source.one_of("imageSource", IMAGE_SOURCES) == PROMOTED:
        source.refuse(_OF_BUILD, where="kindling:imageSource is `promoted`: nothing is pushed from here")
        allowed = "images by name, each HOST/PATH@sha256:DIGEST, as `python3 -m infra promote` writes them"
        return ImageSettings(PROMOTED, promoted=source.parsed("images", values.promoted, allowed))
    source.refuse(_OF_PROMOTED, where="kindling:imageSource is `build`")
    return ImageSettings(
        BUILD,
        registry=source.parsed("registry", values.registry, "HOST[:PORT]/PREFIX, in small letters"),
        insecure=source.enabled("insecureRegistry"),
    )


def _operator(source: Source) -> OperatorSettings:
    watched = source.parsed(
        "watchNamespaces", values.namespaces, "a list of namespace names (a-z, 0-9 and -), each named once"
    )
    scope = source.one_of("scope", SCOPES)
    if scope == NAMESPACES and not watched:
        source.wrong("watchNamespaces", "at least one namespace while kindling:scope is `namespaces`")
    if watched and SAMPLES_NAMESPACE not in watched and source.enabled("samples"):
        source.wrong("watchNamespaces", f"with `{SAMPLES_NAMESPACE}` in it while kindling:samples is true")
    return OperatorSettings(
        replicas=source.number("replicas", 1, MOST_REPLICAS),
        log_level=source.one_of("logLevel", LOG_LEVELS),
        watch_namespaces=watched,
        scope=scope,
        kinds=_kinds(source),
        pod=source.parsed(
            "operatorPod",
            values.operator_pod,
            f"an object of {', '.join(values.OPERATOR_POD)}, as a Pod has them",
        ),
    )


def _kinds(source: Source) -> tuple[str, ...]:
    # Imported late, as YAML is.
    from infra.components import manifests

    known = manifests.kinds()
    allowed = f"a list of {', '.join(known)}, each named once; none named means all"
    return source.parsed("kinds", lambda text: values.names(text, known), allowed)


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
    own = _own_keys(stack)
    return load(lambda key: _text(own[key]) if key in own else _default(key), stack=stack)


def stacks() -> list[str]:
    """The stacks that have a settings file, by name."""
    return sorted(path.stem.removeprefix("Pulumi.") for path in REPOSITORY.glob("Pulumi.*.yaml"))


def cluster_name(stack: str) -> str:
    """The name of the stack's own cluster."""
    return f"{PROJECT}-{stack}"


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


def _default(key: str) -> str | None:
    return _text(_declared()[key]["default"]) if key in _declared() else None


def _text(value: Any) -> str | None:
    """A value of a YAML file as Pulumi hands it to the program."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


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

"""What a stack can set, read once into types and refused by name where it is wrong.

Both the Pulumi program and the command line read it, so Pulumi is not imported here. Defaults are in
Pulumi.yaml alone: Pulumi lays them under the stack's values for the program, `stack_files` for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra import manifests
from infra import release as releases
from infra.drivers.cluster_context import IN_CLUSTER
from infra.errors import KindlingError
from infra.project import PROJECT as PROJECT
from infra.project import cluster_name as cluster_name
from infra.project import require_stack, stack_file
from infra.project import stacks as stacks
from infra.settings import image_settings, stack_files, validators
from infra.settings.config_reader import ConfigReader, Get
from infra.settings.image_settings import BUILD as BUILD
from infra.settings.image_settings import PROMOTED as PROMOTED
from infra.settings.image_settings import ImageSettings as ImageSettings
from infra.settings.stack_files import CLUSTERS
from infra.settings.stack_files import EXISTING as EXISTING
from infra.settings.stack_files import KIND as KIND
from infra.settings.validators import AUTO as AUTO
from infra.settings.validators import FIRST_PORT, LAST_PORT

CLUSTER_WIDE, NAMESPACES = SCOPES = ("cluster", "namespaces")
LOG_LEVELS = ("debug", "info", "warning", "error")
MOST_WORKERS = 8
MOST_REPLICAS = 5
# The kind whose sample needs the broker.
BROKER_USER = "PulsarConsumer"
# Where samples/ puts its objects.
SAMPLES_NAMESPACE = "default"

# What means something for one source of clusters alone.
_OF_KIND = ("nodeImage", "workers", "apiServerPort")
_TRIALS = ("objectStore",)
_OF_EXISTING = ("kubeconfig", "context")


@dataclass(frozen=True)
class ClusterSettings:
    """Where the stack runs. `api_server_port` 0 and `node_image` 'auto' are decided at creation.

    Of an existing cluster, `context` is the user's, in `kubeconfig`: a path, or empty for KUBECONFIG's; or
    `in-cluster`, the one that Pulumi runs in.
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
        """Whether the cluster is created and removed by others."""
        return self.source == EXISTING


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
    """What its Pods have beyond ours, in Kubernetes' own form: see `validators.OPERATOR_POD`."""

    @property
    def served(self) -> tuple[str, ...] | None:
        """The namespaces in which it has rights, None for all of them."""
        return None if self.scope == CLUSTER_WIDE else self.watch_namespaces


@dataclass(frozen=True)
class SamplesSettings:
    """Whether the manifests under samples/ are part of the stack."""

    enabled: bool


@dataclass(frozen=True)
class BrokerSettings:
    """Whether a Pulsar broker for samples and tests is part of the stack."""

    enabled: bool


@dataclass(frozen=True)
class ObjectStoreSettings:
    """Whether an S3 server for samples and trials is part of the stack."""

    enabled: bool = False


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
    # What others may change in the cluster: property paths by KIND/NAME.
    ignore_changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    object_store: ObjectStoreSettings = field(default_factory=ObjectStoreSettings)


def load(get: Get, *, stack: str) -> Settings:
    """Settings from `get`, which answers a key without its project prefix as Pulumi's Config does:
    text, with lists and booleans as JSON. Raises KindlingError on the first value that is wrong, and
    on a key of the stack's file that means nothing here.
    """
    _refuse_unknown_keys(stack)
    source = ConfigReader(get, stack=stack, default=stack_files.default)
    cluster = _cluster(source, stack)
    samples, broker = source.enabled("samples"), source.enabled("broker")
    operator = read_operator(source)
    if samples and not broker and (not operator.kinds or BROKER_USER in operator.kinds):
        # `up` waits for every sample.
        source.wrong("broker", "true while kindling:samples is true, for the PulsarConsumer among them")
    return Settings(
        stack=stack,
        cluster=cluster,
        operator=operator,
        samples=SamplesSettings(enabled=samples),
        broker=BrokerSettings(enabled=broker),
        images=image_settings.read(source, stack=stack, existing=cluster.is_existing),
        protect=_protect(source, cluster),
        ignore_changes=source.parsed(
            "ignoreChanges",
            validators.exceptions,
            "lists of property paths by KIND/NAME, as {Deployment/kindling-operator: [spec.replicas]}; "
            "a path leads to a field, not to an element of a list",
        ),
        object_store=_object_store(source, cluster),
    )


def _object_store(source: ConfigReader, cluster: ClusterSettings) -> ObjectStoreSettings:
    if cluster.is_existing:
        source.refuse(
            _TRIALS,
            where="kindling:cluster is `existing`: the object store for trials runs in a kind cluster alone; "
            "a Backup takes any store that speaks S3",
        )
        return ObjectStoreSettings()
    return ObjectStoreSettings(enabled=source.enabled("objectStore"))


def _protect(source: ConfigReader, cluster: ClusterSettings) -> bool:
    """By default what is in a cluster that is not ours alone stays."""
    value = source.one_of("protect", (AUTO, "true", "false"))
    return cluster.is_existing if value == AUTO else value == "true"


def _cluster(source: ConfigReader, stack: str) -> ClusterSettings:
    name = cluster_name(stack)
    if source.one_of("cluster", CLUSTERS) == EXISTING:
        source.refuse(_OF_KIND, where="kindling:cluster is `existing`: only a kind cluster is made here")
        context = source.parsed("context", validators.context, "the name of a context")
        if context == IN_CLUSTER:
            source.refuse(
                ["kubeconfig"], where=f"kindling:context is `{context}`: the Pod's service account is used"
            )
        return ClusterSettings(
            source=EXISTING,
            name=name,
            kubeconfig=source.parsed("kubeconfig", validators.path, "the path of a file, or nothing"),
            existing_context=context,
        )
    source.refuse(_OF_EXISTING, where="kindling:cluster is `kind`: kind gives the context")
    return ClusterSettings(
        source=KIND,
        name=name,
        node_image=source.parsed("nodeImage", validators.image, "`auto`, or an image with a tag or a digest"),
        workers=source.number("workers", 0, MOST_WORKERS),
        api_server_port=source.parsed(
            "apiServerPort", validators.port, f"0 for a free one, or a port from {FIRST_PORT} to {LAST_PORT}"
        ),
    )


def read_operator(source: ConfigReader) -> OperatorSettings:
    """The operator's part of them, each value checked."""
    watched = source.parsed(
        "watchNamespaces",
        validators.namespaces,
        "a list of namespace names (a-z, 0-9 and -), each named once",
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
            validators.operator_pod,
            f"an object of {', '.join(validators.OPERATOR_POD)}, as a Pod has them",
        ),
    )


def _kinds(source: ConfigReader) -> tuple[str, ...]:
    known = manifests.kinds()
    allowed = f"a list of {', '.join(known)}, each named once; none named means all"
    return source.parsed("kinds", lambda text: validators.names(text, known), allowed)


def read(stack: str) -> Settings:
    """A stack's settings, for those who are not inside Pulumi.

    Raises KindlingError where the stack has no file, a value is wrong, or this checkout is not the release
    that the stack runs.
    """
    require_stack(stack)
    found = load(lambda key: stack_files.get(stack, key), stack=stack)
    releases.check(stack, found.images.release)
    return found


def _refuse_unknown_keys(stack: str) -> None:
    declared = stack_files.declared()
    for key in stack_files.own(stack):
        if key not in declared:
            raise KindlingError(
                f"{PROJECT}:{key} of stack `{stack}` is not a setting",
                why=f"allowed: {', '.join(sorted(declared))}",
                remedy=f"fix or remove it in {stack_file(stack).name}.",
            )

"""A cluster that others made, as a Pulumi resource. The module's path is state format.

It makes nothing and removes nothing. It writes down which cluster the stack was brought up in, so that a
context that leads elsewhere one day is an error, and new credentials for the same cluster are no change.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from infra.drivers.cluster_context import NoContext, another_cluster
from infra.errors import KindlingError
from infra.resources import host

Props = dict[str, Any]


class ExistingClusterProvider(ResourceProvider):
    """Never replaced: what is in one cluster cannot be moved to another by a changed setting."""

    serialize_as_secret_always = False

    def check(self, _olds: Props, news: Props) -> CheckResult:
        failures = [] if news.get("context") else [CheckFailure("context", "is empty: name a context")]
        return CheckResult(news, failures)

    def diff(self, id_: str, olds: Props, news: Props) -> DiffResult:
        # A preview may run where the cluster cannot be reached; where it can be, it must be the one.
        if (cluster := host.context_readonly(news["context"])) is not None:
            try:
                uid = cluster.uid()
            except KindlingError:
                uid = id_
            _same(id_, uid, context=news["context"])
        return DiffResult(changes=olds.get("context") != news["context"], replaces=[])

    def create(self, props: Props) -> CreateResult:
        cluster = host.cluster_context(props["context"])
        cluster.recent()  # `pulumi up` alone comes here without the preflight
        return CreateResult(cluster.uid(), {"context": props["context"]})

    def read(self, id_: str, props: Props) -> ReadResult:
        # The state's name for it may be an old one; by its new one `diff` asks.
        with contextlib.suppress(NoContext):
            _same(id_, host.cluster_context(props["context"]).uid(), context=props["context"])
        return ReadResult(id_, props)

    def update(self, id_: str, _olds: Props, news: Props) -> UpdateResult:
        _same(id_, host.cluster_context(news["context"]).uid(), context=news["context"])
        return UpdateResult({"context": news["context"]})

    def delete(self, _id: str, _props: Props) -> None:
        """It is not ours to remove."""


class ExistingCluster(Resource, module="existing", name="Cluster"):
    """The cluster a context leads to. The id is the cluster's own, whatever the context is called."""

    context: pulumi.Output[str]

    def __init__(self, name: str, *, context: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(ExistingClusterProvider(), name, {"context": context}, opts)


def _same(recorded: str, found: str, *, context: str) -> None:
    if found != recorded:
        remedy = ", docs/guides/existing-clusters.md says how to start again in the other."
        raise another_cluster(context, found, recorded, stack="this stack", remedy=remedy)

"""What the program declares for an existing cluster, as Kubernetes' objects: for a release.

A program of its own (`python -m infra.render`), as it is under Pulumi: the SDK keeps its state in the
process, and the command line does not import it. Reads requests from standard input, as
`infra.distribution.rendering` writes them, and prints the objects of each, in the order of their declaration.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections.abc import Mapping
from typing import Any

from pulumi.runtime import mocks

from infra import policy_enforcement
from infra.components.cluster import Cluster
from infra.components.images import Images
from infra.errors import KindlingError
from infra.program import Platform
from infra.project import PROJECT
from infra.settings import (
    EXISTING,
    PROMOTED,
    BrokerSettings,
    ClusterSettings,
    ImageSettings,
    OperatorSettings,
    SamplesSettings,
    Settings,
)

STACK = "release"
Manifest = dict[str, Any]


class _Recorder(mocks.Mocks):
    """An engine that makes nothing: inputs come back as outputs, and what is Kubernetes' is kept."""

    def __init__(self) -> None:
        self.objects: list[Manifest] = []

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise KindlingError(
            f"the program asks Pulumi for {args.token}",
            why="a release is made without a cluster, so the program has to know all by itself",
            remedy="a bug of the components: they must not call provider functions.",
        )

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if args.typ.startswith("kubernetes:"):
            self.objects.append(args.inputs)
        return f"{args.name}-id", args.inputs


def settings_of(request: Mapping[str, Any]) -> Settings:
    """The settings of a stack in an existing cluster that runs these images, without samples and broker.

    Nor with `protect`, whose policy has people change the stack.
    """
    operator, images = request["operator"], request["images"]
    return Settings(
        stack=STACK,
        cluster=ClusterSettings(source=EXISTING, name=STACK, existing_context=STACK),
        operator=OperatorSettings(
            **{
                **operator,
                "watch_namespaces": tuple(operator["watch_namespaces"]),
                "kinds": tuple(operator["kinds"]),
            }
        ),
        samples=SamplesSettings(enabled=False),
        broker=BrokerSettings(enabled=False),
        images=ImageSettings(PROMOTED, given=images, pull_secrets=tuple(request["pull_secrets"])),
    )


def objects(settings: Settings) -> list[Manifest]:
    """Every Kubernetes object that an `up` would make; policies are in force, as in one."""
    # The root of a run would outlive it in this context, with all that is registered on it.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return contextvars.copy_context().run(_declared, settings)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _declared(settings: Settings) -> list[Manifest]:
    recorder = _Recorder()
    mocks.set_mocks(recorder, project=PROJECT, stack=settings.stack, preview=False)

    def declare() -> None:
        policy_enforcement.enforce()
        cluster = Cluster("cluster", settings=settings.cluster)
        images = Images("images", cluster=cluster, settings=settings)
        Platform("platform", cluster=cluster, images=images, settings=settings)

    mocks.test(declare)()  # type: ignore[no-untyped-call]
    return recorder.objects


def main() -> int:
    """Answer the requests; an error that a person can act on ends it with its text."""
    try:
        rendered = [objects(settings_of(request)) for request in json.load(sys.stdin)]
    except KindlingError as error:
        print(error, file=sys.stderr)
        return 1
    json.dump(rendered, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

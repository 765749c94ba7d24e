"""Stand-ins at the two edges of the Pulumi program: the machine's tools, and Pulumi's engine.

The real ones are driven in tests/pulumi and tests/cluster; here only what is asked of them matters.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, rpc

from infra.drivers import images
from infra.errors import KindlingError
from infra.resources import host

Props = dict[str, Any]


@dataclass
class FakeRegistry:
    """What is `held` by `REPOSITORY:TAG` and by `REPOSITORY@DIGEST`; None is out of reach."""

    held: dict[str, str] | None = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def digest(self, repository: str, reference: str) -> str | None:
        name = f"{repository}{'@' if reference.startswith('sha256:') else ':'}{reference}"
        self.asked.append(name)
        if self.held is None:
            raise KindlingError(f"the registry {repository.partition('/')[0]} does not answer")
        return self.held.get(name)


@dataclass
class FakeCluster:
    incarnation: str
    running: bool = True
    images: set[str] = field(default_factory=set)


@dataclass
class FakeMachine:
    """An engine and kind in memory; `calls` is every change asked of them, in order."""

    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    archives: set[str] = field(default_factory=set)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    has_engine: bool = True
    # Of the last node image that was asked for.
    workers_asked_for: int | None = None
    failure: Exception | None = None

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
        """Put it in the place of the real tools for one test."""
        machine = cls()
        monkeypatch.setattr(host, "kind", machine.as_kind)
        monkeypatch.setattr(host, "kind_readonly", lambda: machine.as_kind() if machine.has_engine else None)
        monkeypatch.setattr(host, "engine", machine.as_kind)
        monkeypatch.setattr(images, "ensure_node_image", machine.ensure_node_image)
        monkeypatch.setattr(images, "build_archive", machine.build_archive)
        return machine

    @property
    def engine(self) -> FakeMachine:
        return self

    def as_kind(self) -> FakeMachine:
        if not self.has_engine:
            raise KindlingError("no container engine answers on this machine")
        return self

    def create(self, *, name: str, incarnation: str, node_image: str, config: Props, timeout: float) -> None:
        assert timeout > 0
        self.calls.append(("create", name, node_image, config))
        if self.failure is not None:
            raise self.failure
        self.incarnation(name)
        self.clusters[name] = FakeCluster(incarnation)

    def delete(self, name: str) -> None:
        self.calls.append(("delete", name))
        self.incarnation(name)
        self.clusters.pop(name, None)

    def incarnation(self, name: str) -> str | None:
        if name in self.foreign:
            raise KindlingError(f"a kind cluster called `{name}` exists and is not Kindling's")
        return self.clusters[name].incarnation if name in self.clusters else None

    def running(self, name: str) -> bool:
        return name in self.clusters and self.clusters[name].running

    def kubeconfig(self, name: str) -> str:
        return f"kubeconfig of {self.clusters[name].incarnation}"

    def has_image(self, name: str, ref: str) -> bool:
        return name in self.clusters and ref in self.clusters[name].images

    def load(self, name: str, archive: Path) -> None:
        self.calls.append(("load", name, archive.name))
        self.clusters[name].images.add("localhost/" + archive.name)

    def remove_image(self, ref: str) -> None:
        self.calls.append(("remove_image", ref))

    def ensure_node_image(self, engine: object, progress: object = None, *, workers: int = 0) -> str:
        assert engine is self
        self.workers_asked_for = workers
        return "localhost/node:found"

    def build_archive(
        self,
        engine: object,
        *,
        name: str,
        tag: str,
        context: Path,
        containerfile: Path,
        build_args: dict[str, str],
    ) -> Path:
        assert engine is self
        assert context.is_dir()
        assert containerfile.is_file()
        self.calls.append(("build", name, tag, build_args))
        return Path(f"/archives/{name}:{tag}")


@dataclass(frozen=True)
class Registration:
    """A resource as the program declared it; secrets and unknowns in `inputs` are marked, see `rpc`."""

    type: str
    name: str
    custom: bool
    inputs: Props
    urn: str
    parent: str
    provider: str
    deleted_with: str
    protect: bool
    dependencies: frozenset[str]
    secret_outputs: frozenset[str]
    ignore_changes: tuple[str, ...] = ()


class RecordingMonitor(mocks.MockMonitor):
    """The engine's side of registration, keeping what the stock mock throws away."""

    def __init__(self, *, preview: bool) -> None:
        super().__init__(_Answers(preview=preview))
        self.registrations: list[Registration] = []

    def RegisterResource(self, request: Any) -> Any:
        answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        self.registrations.append(
            Registration(
                type=request.type,
                name=request.name,
                custom=request.custom,
                inputs=rpc.deserialize_properties(request.object, keep_unknowns=True),
                urn=answer.urn,
                parent=request.parent,
                provider=request.provider or next(iter(request.providers.values()), ""),
                deleted_with=request.deletedWith,
                protect=request.protect,
                dependencies=frozenset(request.dependencies),
                secret_outputs=frozenset(request.additionalSecretOutputs),
                ignore_changes=tuple(request.ignoreChanges),
            )
        )
        return answer


class _Answers(mocks.Mocks):
    """Inputs come back as outputs; ids and what only a real create computes are unknown in a preview."""

    def __init__(self, *, preview: bool) -> None:
        self._preview = preview

    def call(self, args: mocks.MockCallArgs) -> tuple[Props, None]:
        raise AssertionError(f"{args.token}: a program that asks while it declares cannot be previewed")

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, Props]:
        computed = {}
        if args.typ == "pulumi-python:dynamic/kind:Cluster" and not self._preview:
            computed = {"kubeconfig": "the kubeconfig", "incarnation": "0123abcd"}
        if args.typ == "pulumi-python:dynamic/containers:PushedImage" and not self._preview:
            computed = {"ref": f"{args.inputs['repository']}@sha256:{'d' * 64}"}
        if args.typ == "pulumi-python:dynamic/stores:Credentials" and not self._preview:
            made = ("accessKeyId", "secretAccessKey", "authority", "certificate", "privateKey")
            computed = {name: f"the {name}" for name in made}
        return None if self._preview else f"{args.name}-id", {**args.inputs, **computed}


@dataclass
class Graph:
    """Everything that a run of the program declared."""

    resources: list[Registration]
    exports: Props

    def one(self, type: str, name: str | None = None) -> Registration:
        """The resource of this type, which must be the only one unless `name` says which."""
        found = [item for item in self.of(type) if name in (None, item.name)]
        assert len(found) == 1, f"{type} {name or ''}: {[item.name for item in found]}"
        return found[0]

    def of(self, type: str) -> list[Registration]:
        return [item for item in self.resources if item.type == type]


def declare(
    program: Callable[[], None],
    *,
    stack: str,
    preview: bool,
    then: Callable[[Props], pulumi.Output[None]] | None = None,
) -> Graph:
    """Run a program against the recording engine, to the end of its last registration.

    `then` gets what the program exported while Outputs can still be awaited: the one it returns is.
    """
    # A loop of its own, for Pulumi takes the thread's, which an `asyncio.run` before has taken away; and a
    # context, because the stack's root would outlive the run with all that is registered on it.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return contextvars.copy_context().run(_declare, program, stack, preview, then)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _declare(
    program: Callable[[], None],
    stack: str,
    preview: bool,
    then: Callable[[Props], pulumi.Output[None]] | None,
) -> Graph:
    monitor = RecordingMonitor(preview=preview)
    mocks.set_mocks(monitor.mocks, project="kindling", stack=stack, preview=preview, monitor=monitor)
    exports: Props = {}

    def run() -> pulumi.Output[None] | None:
        program()
        return then(exports) if then is not None else None

    # Stack outputs go to the stack resource, which the mocks do not keep.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulumi, "export", exports.__setitem__)
        mocks.test(run)()  # type: ignore[no-untyped-call]
    return Graph(monitor.registrations, exports)

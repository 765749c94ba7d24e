"""A stack's exceptions from what Pulumi compares: fields that others may change in its cluster.

By `ignore_changes`, Pulumi's own way: what is in the cluster stays, whatever the program says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pulumi

from infra.errors import KindlingError, listed

SHOWN = 50


class IgnoreChanges:
    """`asked` has property paths by KIND/NAME, in whichever namespace the resource is."""

    def __init__(self, asked: Mapping[str, Sequence[str]], *, stack: str) -> None:
        self._asked, self._stack = asked, stack
        self._declared: set[str] = set()
        self._ended = asyncio.Event()
        self._refused: KindlingError | None = None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Have them hold for every resource that is declared inside.

        Raises `KindlingError` at the end for one of a resource that was not; nothing is made then, as each
        registration waits for that end.
        """
        if self._asked:
            pulumi.runtime.register_stack_transformation(self._transform)
        try:
            yield
            self._check()
        except KindlingError as error:
            self._refused = error
            raise
        finally:
            self._ended.set()

    def _check(self) -> None:
        unknown = [name for name in self._asked if name not in self._declared]
        if unknown:
            raise KindlingError(
                f"kindling:ignoreChanges of stack `{self._stack}` names what the stack does not have: "
                f"{', '.join(unknown)}",
                why=f"it has {listed(self._like(unknown[0]), most=SHOWN)}",
                remedy=f"name one of these, as KIND/NAME, in Pulumi.{self._stack}.yaml.",
            )

    def _like(self, name: str) -> list[str]:
        """What it may be meant for: those of its kind, or all where there are none."""
        kind = name.partition("/")[0] + "/"
        return sorted(each for each in self._declared if each.startswith(kind)) or sorted(self._declared)

    async def _end(self) -> list[pulumi.Resource]:
        """No dependencies, once all is declared."""
        await self._ended.wait()
        if self._refused is not None:
            raise pulumi.RunError(str(self._refused))
        return []

    def _transform(
        self, args: pulumi.ResourceTransformationArgs
    ) -> pulumi.ResourceTransformationResult | None:
        if isinstance(args.resource, pulumi.ComponentResource):
            return None
        paths: list[str] = []
        if args.type_.startswith("kubernetes:"):
            name = f"{args.type_.rpartition(':')[2]}/{_name(args.props.get('metadata'))}"
            self._declared.add(name)
            paths = list(self._asked.get(name, ()))
        # A registration waits for what it depends on, and fails with it.
        waits: pulumi.Output[list[pulumi.Resource]] = pulumi.Output.from_input(self._end())
        more = pulumi.ResourceOptions(ignore_changes=paths, depends_on=waits)
        return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, more))


def _name(metadata: Any) -> str:
    """Names are the program's own, and known as they are declared."""
    if isinstance(metadata, Mapping):
        return str(metadata.get("name"))
    return str(getattr(metadata, "name", None))

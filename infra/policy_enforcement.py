"""`policies` asked at each registration of the program, so that what violates one is never made.

Not by the engine's transforms (`register_resource_transform`): their refusal reaches a person as two
tracebacks of gRPC, and mocks do not run them. This judges the same properties in the program's own
process and ends it with the violations alone.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pulumi
from pulumi.runtime import rpc

from infra import policies
from infra.policies import Violation


class PolicyError(pulumi.RunError):
    """Resources that a policy forbids; says all that are known by the time it is printed."""

    def __init__(self, found: list[Violation]) -> None:
        self.found = found
        super().__init__("a policy forbids what the program declares; nothing of this is made:")

    def __str__(self) -> str:
        return "\n".join([self.args[0], *sorted(set(map(str, self.found)))])


def enforce() -> None:
    """Have every resource judged that is declared from here on in this run of the program."""
    pulumi.runtime.register_stack_transformation(_Enforcement().transform)


class _Enforcement:
    """One run's violations, and how many resources are not judged yet."""

    def __init__(self) -> None:
        self._found: list[Violation] = []
        self._open = 0
        self._all_judged = asyncio.Event()

    def transform(
        self, args: pulumi.ResourceTransformationArgs
    ) -> pulumi.ResourceTransformationResult | None:
        """Have a resource that a rule is about wait for its verdict.

        To read the properties of the others, the definitions' schemas above all, takes a quarter of the run.
        """
        if not policies.concern(args.type_):
            return None
        self._open += 1
        verdict: pulumi.Output[list[pulumi.Resource]] = pulumi.Output.from_input(self._verdict(args))
        if pulumi.runtime.is_dry_run():
            # A preview makes nothing: it goes on, and fails at its end with all that is wrong.
            return None
        # A registration waits for what it depends on, and fails with it.
        waits = pulumi.ResourceOptions(depends_on=verdict)
        return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, waits))

    async def _verdict(self, args: pulumi.ResourceTransformationArgs) -> list[pulumi.Resource]:
        """No dependencies; raises PolicyError for a resource that must not be."""
        try:
            props = await _properties(args)
        finally:
            self._open -= 1
            if not self._open:
                self._all_judged.set()
        wrong = policies.violations(args.type_, args.name, props)
        self._found += wrong
        if wrong:
            if pulumi.runtime.is_dry_run():
                await self._all_judged.wait()
            raise PolicyError(self._found)
        return []


async def _properties(args: pulumi.ResourceTransformationArgs) -> dict[str, Any]:
    """What will be registered, once all is known that it is made from."""
    kind = type(args.resource)
    # Typed resources hand their properties over without the type that has the fields' real names.
    inputs = getattr(sys.modules[kind.__module__], f"{kind.__name__}InitArgs", None)
    message = await rpc.serialize_properties(args.props, {}, args.resource, typ=inputs)
    props: dict[str, Any] = _marked(rpc.deserialize_properties(message, keep_unknowns=True))
    return props


def _marked(value: Any, *, hidden: bool = False) -> Any:
    """With the marks of `policies` on what is not known yet and what is a secret."""
    if rpc.is_rpc_secret(value):
        return _marked(rpc.unwrap_rpc_secret(value), hidden=True)
    if isinstance(value, dict):
        return {key: _marked(item, hidden=hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, hidden=hidden) for item in value]
    if value == rpc.UNKNOWN or isinstance(value, pulumi.output.Unknown):
        return policies.UNKNOWN
    return policies.Secret(value) if hidden and isinstance(value, str) else value

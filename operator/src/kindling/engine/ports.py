"""The world outside, as a pass reaches it: what it needs, and from whom it is had is `__main__`'s.

Apart from the pass, so that whoever stands in for the world need not know how a pass is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from kindling.engine.answers import Answers
from kindling.engine.plan import Apply
from kindling.engine.store import Store
from kindling.engine.turns import Turns
from kindling.kube.resources import Object, Ref, ResourceType


class Api(Protocol):
    """What a pass needs of the API server (`kube.client.Client` has it)."""

    async def get(self, ref: Ref) -> Object: ...
    async def apply(self, type: ResourceType, body: Object) -> Object: ...
    async def create(self, type: ResourceType, body: Object) -> Object: ...
    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object: ...
    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None: ...
    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]: ...


Tell = Callable[[ResourceType, Object, Object, Object], None]
"""Told of each written status: (type, resource, status before, status after)."""

Repaired = Callable[[ResourceType, Object, Apply], None]
"""Told of each write that undid what somebody else had done to a child."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The world outside, as a pass reaches it. `turns` is one for all resources: who may be restarted now."""

    api: Api
    store: Store
    answers: Answers
    tell: Tell
    repaired: Repaired = lambda type, cr, action: None
    turns: Turns = field(default_factory=lambda: Turns(exists=lambda key: True, wake=lambda key: None))
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

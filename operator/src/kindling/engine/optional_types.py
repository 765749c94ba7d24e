"""Which types of children a cluster serves that it need not have, and which resources wait for one.

Whether a type is served that was not is asked only when a resource needs it, in its own reconciliations.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence

from kindling.engine.store import Key
from kindling.kube.resources import ResourceType


class OptionalTypes:
    """Those given are not served until `serve` says so; any other type is."""

    def __init__(self, types: Collection[ResourceType] = ()) -> None:
        self._asked = {type: asyncio.Event() for type in types}
        self._waiting: defaultdict[ResourceType, set[Key]] = defaultdict(set)
        self.unserved = frozenset(types)

    def need(self, key: Key, types: Sequence[ResourceType]) -> None:
        """Note that a resource needs these; `asked` returns for those that are not served."""
        for type in self.unserved.intersection(types):
            self._waiting[type].add(key)
            self._asked[type].set()

    async def asked(self, type: ResourceType) -> None:
        """Until a resource needs the type, of those that are reconciled from now on."""
        self._asked[type].clear()
        await self._asked[type].wait()

    def serve(self, type: ResourceType) -> set[Key]:
        """It is served, and what there is of it is in the cache; returns the resources that wait for it."""
        self.unserved -= {type}
        return self._waiting.pop(type, set())

    def withdraw(self, type: ResourceType) -> None:
        """It is not served any more."""
        self.unserved |= {type}

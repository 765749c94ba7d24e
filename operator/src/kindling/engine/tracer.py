"""What a reconciliation says of its course, for whoever traces it; by default nobody does.

The engine knows no tracing library: `kindling.telemetry` has a tracer that does.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

from kindling.engine.metrics import ResultLabel
from kindling.engine.queue import Waited
from kindling.engine.store import Key
from kindling.kube.resources import Object

Step: TypeAlias = Literal["read", "probe", "validate", "decide children", "act outside", "decide status"]


class Tracer(Protocol):
    """What is called within the context of a reconciliation is said of that one."""

    def reconciliation(self, key: Key, waited: Waited) -> AbstractContextManager[object]:
        """All of one reconciliation, with its time in the queue, which is over."""
        ...

    def resource(self, cr: Object) -> None:
        """The resource in the version that the reconciliation is of."""
        ...

    def step(self, name: Step) -> AbstractContextManager[object]:
        """A part of it; steps may contain requests and other steps."""
        ...

    def result(self, label: ResultLabel, *, requeue: float | None, error: BaseException | None) -> None:
        """How it ended: as the metrics have it, in how many seconds it comes again, and what failed."""
        ...


class NoTracer:
    """Does nothing."""

    _nothing = nullcontext()

    def reconciliation(self, key: Key, waited: Waited) -> AbstractContextManager[object]:
        return self._nothing

    def resource(self, cr: Object) -> None:
        pass

    def step(self, name: Step) -> AbstractContextManager[object]:
        return self._nothing

    def result(self, label: ResultLabel, *, requeue: float | None, error: BaseException | None) -> None:
        pass

"""What a reconciliation depends on. `__main__` provides it, and tests provide fakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from kindling.engine.admission import AdmissionChanges
from kindling.engine.edits import Edit
from kindling.engine.event_lookups import EventLookups
from kindling.engine.external import ExternalState
from kindling.engine.flight_recorder import FlightRecorder
from kindling.engine.optional_types import OptionalTypes
from kindling.engine.plan import Apply
from kindling.engine.restart_queue import RestartQueue
from kindling.engine.store import Store
from kindling.engine.tracer import NoTracer, Tracer
from kindling.kinds.base import Notice
from kindling.kinds.planned import Path
from kindling.kube.resources import Object, Ref, ResourceType


class Api(Protocol):
    """The API requests of a reconciliation (`kube.client.Client` implements them)."""

    async def get(self, ref: Ref) -> Object: ...
    async def apply(self, type: ResourceType, body: Object) -> Object: ...
    async def create(self, type: ResourceType, body: Object) -> Object: ...
    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object: ...
    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None: ...
    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]: ...


StatusChanged = Callable[[ResourceType, Object, Object, Object], None]
"""Called for each written status: (type, resource, status before, status after)."""

Repaired = Callable[[ResourceType, Object, Apply, Edit | None], None]
"""Called for each write that reverted another writer's change of a child; no edit if it was deleted."""

ChangedByAdmission = Callable[[ResourceType, Object, Apply, Sequence[Path]], None]
"""Called for each child of which the cluster has these fields otherwise, right after the write."""

Incident = Callable[[ResourceType, Object, Notice], None]
"""Called in each reconciliation for each of the resource's `Kind.incidents`."""


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """`restart_queue` is shared by all resources: it says which one may be disrupted now."""

    api: Api
    store: Store
    external_state: ExternalState
    event_lookups: EventLookups
    status_changed: StatusChanged
    repaired: Repaired = lambda type, cr, action, edit: None
    changed_by_admission: ChangedByAdmission = lambda type, cr, action, paths: None
    incident: Incident = lambda type, cr, found: None
    admission: AdmissionChanges = field(default_factory=AdmissionChanges)
    optional: OptionalTypes = field(default_factory=OptionalTypes)
    recorder: FlightRecorder = field(default_factory=FlightRecorder)
    tracer: Tracer = field(default_factory=NoTracer)
    restart_queue: RestartQueue = field(
        default_factory=lambda: RestartQueue(exists=lambda key: True, wake=lambda key: None)
    )
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

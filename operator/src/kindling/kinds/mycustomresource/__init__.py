"""MyCustomResource: reports whether its friend, a Pod of a given name in any namespace, exists.

It makes nothing. The engine watches Pods once for all resources and hands each of them its own
friends; so the cost of a thousand resources, or of a Pod that concerns none, is a look-up.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds.base import Child, Kind, Observed, StatusReport, SyncResult, WatchedObject
from kindling.kinds.mycustomresource import status
from kindling.kube.resources import POD, Object, ResourceType


class MyCustomResource(Kind):
    """A friend counts from its creation until it is gone: running or not, being deleted or not."""

    type = ResourceType("poc.test.domain", "v1", "MyCustomResource", "mycustomresources")
    watches = (POD,)

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        friend = status.friend_of(cr)
        return [WatchedObject(POD, friend)] if friend else []

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        return []

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        return status.report(cr, observed)

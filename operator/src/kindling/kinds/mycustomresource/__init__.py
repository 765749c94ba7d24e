"""MyCustomResource: tells whether its friend, a Pod of a given name in any namespace, is there.

It makes nothing. The engine watches Pods once for all resources and hands each of them its own
friends; so the cost of a thousand resources, or of a Pod that concerns none, is a look-up.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kinds.contract import Child, Findings, Kind, Observed, Report, Sought
from kindling.kinds.mycustomresource import status
from kindling.kube.resources import POD, Object, ResourceType


class MyCustomResource(Kind):
    """A friend counts from its creation until it is gone: running or not, being deleted or not."""

    type = ResourceType("poc.test.domain", "v1", "MyCustomResource", "mycustomresources")
    sights = (POD,)

    def seeks(self, cr: Object) -> Sequence[Sought]:
        friend = status.friend_of(cr)
        return [Sought(POD, friend)] if friend else []

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        return []

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        return status.report(cr, observed)

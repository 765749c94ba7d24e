"""BindingImport: a copy of the binding of another namespace's Postgresql, in the Secret NAME-binding.

It is the consent of the side that receives: whoever may create one in the namespace. The Postgresql names it
in `spec.bindingExports`, which is the consent of the side that gives. While both stand, the copy follows the
Secret that the operator made for the Postgresql; once one of them is gone, so is the copy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kindling.kinds.base import Child, Kind, Observed, StatusReport, SyncResult, WatchedObject
from kindling.kinds.bindingimport import source, status
from kindling.kinds.database_types import DATABASE_TYPES
from kindling.kinds.metadata import child_metadata, is_held, secret_data
from kindling.kinds.postgresql import exports
from kindling.kinds.postgresql.secrets import BINDING_TYPE, binding_name
from kindling.kube.resources import SECRET, Object, Ref


class BindingImport(Kind):
    """`namespaces` are those that the operator serves; none means all. Of what it does not serve it does not
    see the spec: so it has to serve Postgresqls too (`databases_served`).
    """

    type = exports.BINDING_IMPORT
    children = (SECRET,)
    watches = (SECRET, *DATABASE_TYPES)

    def __init__(self, *, namespaces: Collection[str] = (), databases_served: bool = True) -> None:
        self._namespaces, self._databases_served = namespaces, databases_served

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        return [WatchedObject(ref.type, ref.name, ref.namespace) for ref in source.refs(cr)]

    def secrets(self, cr: Object) -> Sequence[str]:
        return [binding_name(cr)]

    def others_secrets(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        return [source.refs(cr)[1]] if source.given_by(cr, observed) is not None else []

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        """While the Secret is not there for a moment, the copy stays as it is: applications go on with it."""
        if source.given_by(cr, observed) is None:
            return []
        metadata = child_metadata(self.type, cr, name=binding_name(cr))
        if values := source.values(cr, observed):
            data = secret_data(values)
            return [Child(type=SECRET, body={"metadata": metadata, "type": BINDING_TYPE, "data": data})]
        known = observed.objects.get(Ref(SECRET, metadata["namespace"], metadata["name"]))
        if known is None or not is_held(cr, known):
            return []
        return [Child(type=SECRET, body={"metadata": metadata}, frozen=True)]

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        namespace = source.refs(cr)[0].namespace
        served = self._databases_served and (not self._namespaces or namespace in self._namespaces)
        return status.report(cr, observed, sync, served=served)

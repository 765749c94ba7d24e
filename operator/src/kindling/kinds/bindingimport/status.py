"""A BindingImport's status: whether the copy is there, and who has to do what if it is not.

Who creates one need not be allowed to look into the other namespace: that a Postgresql is not there is said
in the words with which it is said that one exports nothing.
"""

from __future__ import annotations

from kindling.kinds import reasons
from kindling.kinds.base import Done, Observed, RequeueAfter, StatusReport, SyncResult
from kindling.kinds.bindingimport import source
from kindling.kinds.conditions import condition
from kindling.kinds.network import NAMESPACE_LABEL
from kindling.kinds.postgresql import exports
from kindling.kinds.postgresql.secrets import binding_name
from kindling.kube.resources import Object


def report(cr: Object, observed: Observed, sync: SyncResult, *, served: bool) -> StatusReport:
    """Ready once the copy is there, as the Secret is that it is a copy of."""
    generation = int(cr["metadata"].get("generation", 0))
    reason, message = _why(cr, observed, sync, served=served)
    ready = reason == reasons.IMPORTED
    status: Object = {
        "observedGeneration": generation,
        "conditions": [condition("Ready", ready, reason=reason, message=message, generation=generation)],
    }
    if ready:
        status["binding"] = {"name": binding_name(cr)}
    if sync.problem is not None:
        return StatusReport(status=status, result=sync.problem.retry)
    return StatusReport(status=status, result=Done() if ready or sync.in_sync else RequeueAfter(30.0))


def _why(cr: Object, observed: Observed, sync: SyncResult, *, served: bool) -> tuple[str, str]:
    if sync.problem is not None:
        return sync.problem.reason, sync.problem.message
    database, secret = source.refs(cr)
    if not served:
        return reasons.NOT_SERVED, (
            f"The operator serves no Postgresqls in namespace {database.namespace}: whoever set it up names "
            "it in `kindling:watchNamespaces`, and Postgresql in `kindling:kinds`; or correct "
            "spec.databaseRef.namespace."
        )
    meta, role = cr["metadata"], exports.asked(cr)[3]
    giver = source.given_by(cr, observed)
    if giver is None:
        entry = f"namespace: {meta['namespace']}, name: {meta['name']}" + (f", role: {role}" if role else "")
        return reasons.NOT_EXPORTED, (
            f"There is no {database} of group {database.type.group} that exports this to BindingImport "
            f"{meta['namespace']}/{meta['name']}: its owner adds `{{{entry}}}` to its spec.bindingExports"
            + (", and the role with `login: true` to its spec.roles." if role else ".")
        )
    if not source.values(cr, observed):
        return reasons.BINDING_PENDING, (
            f"{secret} is not there yet: it is made with the database, and the copy follows by itself."
        )
    if not sync.in_sync:
        return reasons.RECONCILING, "The copy is being written; wait."
    words = f"Secret {binding_name(cr)} has the login of {database}, and follows it."
    if not exports.admits(giver, meta["namespace"]):
        words += (
            " The network is closed: its owner admits the Pods of this namespace in spec.allowedFrom, by the "
            f"label {NAMESPACE_LABEL}."
        )
    return reasons.IMPORTED, words

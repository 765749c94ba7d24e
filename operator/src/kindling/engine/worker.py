"""The workers: each takes a key, reconciles its resource, and requeues the key by the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kindling.engine import finalizers
from kindling.engine.dependencies import Dependencies
from kindling.engine.leader_election import LeaseLost
from kindling.engine.metrics import UNHANDLED, Metrics, ResultLabel
from kindling.engine.plan_for import reconciliation
from kindling.engine.queue import BASE_DELAY_SECONDS, Queue
from kindling.engine.resource_writer import Outdated, ResourceDeleted
from kindling.engine.store import Key
from kindling.kinds.base import Done, Kind, RequeueAfter, Result, Terminal
from kindling.kube.errors import ApiError, Conflict, Rejected, TooManyRequests, Unreachable

log = logging.getLogger(__name__)

WORKERS = 32
FAILED = "failed"
_RESULTS: Mapping[type[Result], ResultLabel] = {
    Done: "success",
    RequeueAfter: "requeue_after",
    Terminal: "terminal",
}


@dataclass(kw_only=True)
class Reconciler:
    """Reconciles one resource. `reconcile` may run for many keys at once, for each key once."""

    dependencies: Dependencies
    kinds: Mapping[str, Kind]

    async def reconcile(self, key: Key) -> Result:
        """:raises ApiError: when the reconciliation failed; its key is to be retried.
        :raises Outdated: when it was of an older version; its key is to be reconciled again soon.
        """
        cr, kind = self.dependencies.store.resource(key), self.kinds[key.group_kind]
        if cr is None or finalizers.is_deleted(cr):
            await self.dependencies.restart_queue.remove(key)
            if cr is None or not finalizers.has_finalizer(kind, cr):
                self._forget(key)
                return Done()
        self.dependencies.tracer.resource(cr)
        if self.dependencies.store.waits_for_list(key):
            return Done()  # it is named once they have been listed
        try:
            return await reconciliation(self.dependencies, key, kind, cr).run()
        except ResourceDeleted:
            self._forget(key)
            await self.dependencies.restart_queue.remove(key)
            return Done()

    def _forget(self, key: Key) -> None:
        self.dependencies.external_state.forget(key)
        self.dependencies.event_lookups.forget(key)
        self.dependencies.admission.forget(key)


async def work(reconciler: Reconciler, queue: Queue[Key], metrics: Metrics) -> None:
    """One worker, for ever: take a key, reconcile it, requeue it by the result. No error of a key ends it.

    :raises LeaseLost: another replica may be the leader.
    """
    while True:
        key = await queue.get()
        with reconciler.dependencies.tracer.reconciliation(key, queue.waited(key)):
            await _work_on(key, reconciler, queue, metrics)


def _is_expected(error: ApiError) -> bool:
    """Whether nothing is wrong: another writer was first, or the namespace is being deleted."""
    deleted = isinstance(error, Rejected) and error.namespace_is_deleted
    return deleted or isinstance(error, (Conflict, Unreachable))


async def _work_on(key: Key, reconciler: Reconciler, queue: Queue[Key], metrics: Metrics) -> None:
    began = time.perf_counter()
    label: ResultLabel = "error"
    requeue: float | None = None
    failure: BaseException | None = None
    type_ = reconciler.kinds[key.group_kind].type
    try:
        result = await reconciler.reconcile(key)
        queue.forget(key)
        if isinstance(result, RequeueAfter):
            requeue = result.seconds
            if result.polls:
                requeue = queue.add_poll(key, requeue)
            else:
                queue.add_after(key, requeue)
        label = _RESULTS[type(result)]
    except Outdated as outdated:
        # How often it has failed says nothing of what it is now. The other watches
        # have a moment to follow.
        queue.forget(key)
        requeue = BASE_DELAY_SECONDS
        queue.add_after(key, requeue)
        label = "requeue_after"
        log.info(f"requeued: {outdated}", extra={"key": str(key)})
    except ApiError as error:
        failure, requeue = error, queue.add_rate_limited(key)
        if isinstance(error, TooManyRequests):
            queue.add_after(key, error.retry_after)
        metrics.failed(type_, type(error).__name__)
        reconciler.dependencies.recorder.record(key, FAILED, {"message": str(error)})
        level = logging.INFO if _is_expected(error) else logging.WARNING
        log.log(level, f"requeued after {requeue:.1f} s: {error}", extra={"key": str(key)})
    except LeaseLost as lost:
        failure = lost
        raise
    except Exception as error:
        failure, requeue = error, queue.add_rate_limited(key)
        metrics.failed(type_, UNHANDLED)
        said = f"{UNHANDLED}: {type(error).__name__}"
        reconciler.dependencies.recorder.record(key, FAILED, {"message": said})
        log.exception("unhandled exception: the reconciliation is requeued", extra={"key": str(key)})
    finally:
        metrics.reconciled(type_, label, time.perf_counter() - began)
        reconciler.dependencies.tracer.result(label, requeue=requeue, error=failure)
        queue.done(key)

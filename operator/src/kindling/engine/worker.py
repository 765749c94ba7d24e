"""The workers: each takes a key, has one pass made over it, and requeues it by the outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kindling.engine.lease import LeaseLost
from kindling.engine.metrics import Metrics
from kindling.engine.ports import Ports
from kindling.engine.queue import Queue
from kindling.engine.reconciliation import Gone, Reconciliation
from kindling.engine.store import Key
from kindling.kinds.contract import After, Done, Kind, Outcome
from kindling.kube.errors import ApiError, Conflict, TooMany, Unreachable

log = logging.getLogger(__name__)

WORKERS = 32


@dataclass(kw_only=True)
class Reconciler:
    """Makes one resource true. `reconcile` may run for many keys at once, for each key once."""

    ports: Ports
    kinds: Mapping[str, Kind]

    async def reconcile(self, key: Key) -> Outcome:
        """:raises ApiError: when the pass could not be ended; its key is to be retried."""
        cr = self.ports.store.resource(key)
        if cr is None or "deletionTimestamp" in cr["metadata"]:
            self.ports.answers.forget(key)
            await self.ports.turns.leave(key)
            return Done()
        if self.ports.store.waits(key):
            return Done()  # it is named once they have been listed
        try:
            return await Reconciliation(ports=self.ports, key=key, kind=self.kinds[key.kind], cr=cr).run()
        except Gone:
            self.ports.answers.forget(key)
            await self.ports.turns.leave(key)
            return Done()


async def work(reconciler: Reconciler, queue: Queue[Key], metrics: Metrics) -> None:
    """One worker, for ever: take a key, make it true, requeue by outcome. No error of a key ends it.

    :raises LeaseLost: when another replica may be at work.
    """
    while True:
        key = await queue.get()
        began = time.perf_counter()
        result = "error"
        try:
            outcome = await reconciler.reconcile(key)
            queue.forget(key)
            if isinstance(outcome, After):
                queue.add_after(key, outcome.seconds)
            result = type(outcome).__name__.lower()
        except ApiError as error:
            pause = queue.retry(key)
            if isinstance(error, TooMany):
                queue.add_after(key, error.retry_after)
            metrics.failed(type(error).__name__)
            level = logging.INFO if isinstance(error, (Conflict, Unreachable)) else logging.WARNING
            log.log(level, f"tried again in {pause:.1f} s: {error}", extra={"key": str(key)})
        except LeaseLost:
            raise
        except Exception:
            queue.retry(key)
            metrics.failed("Bug")
            log.exception("a bug: this pass was given up and is tried again", extra={"key": str(key)})
        finally:
            metrics.reconciled(key.kind, result, time.perf_counter() - began)
            queue.done(key)

"""Leader election by a Lease: a replica acquires it before anything else, and writes nothing without it.

As in client-go, another's lease duration is measured by our own clock from when we saw it renewed, so clocks
need not agree. Kopf's peering has no such lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from kindling.kube.errors import ApiError, Conflict, NotFound, Unreachable
from kindling.kube.resources import LEASE, Object, Ref, ResourceType

log = logging.getLogger(__name__)

LEASE_DURATION_SECONDS = 10
RENEW_DEADLINE_SECONDS = 7.0
RETRY_PERIOD_SECONDS = 2.0
LAST_TRY_SECONDS = 0.5
STALE_AFTER_SECONDS = 240.0
NAME = "kindling-operator"
NOTE = "kindling.dev/turn"
"""Annotation of the Lease: what its holder has noted for the next one."""


class LeaseLost(Exception):
    """Another replica may be the leader now: end this process at once."""


class LeaseApi(Protocol):
    async def get(self, ref: Ref) -> Object: ...
    async def create(self, type: ResourceType, body: Object) -> Object: ...
    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object: ...


class LeaderElector:
    """Call `acquire`, then run `renew`; `release` at the end."""

    def __init__(
        self,
        *,
        api: LeaseApi,
        namespace: str,
        identity: str,
        monotonic: Callable[[], float] = time.monotonic,
        retry_period_seconds: float = RETRY_PERIOD_SECONDS,
    ) -> None:
        self._api = api
        self._ref = Ref(LEASE, namespace, NAME)
        self._identity = identity
        self._monotonic = monotonic
        self._retry_period_seconds = retry_period_seconds
        self._seen: tuple[object, object] = (None, None)
        self._seen_at = self._responded_at = monotonic()
        self._ends_at = monotonic()
        self._renewed_at = monotonic()
        self._version = ""
        self.observed = False
        """Whether the Lease was read at all; until then a standby is not ready."""
        self.is_leader = False
        self.noted = ""
        """What was noted last, by ourselves or by an earlier holder."""
        self._writing = asyncio.Lock()

    @property
    def stalled(self) -> str | None:
        """Whether the API server has not answered a standby for too long, in a sentence.

        (One that leads and hears nothing ends long before.)
        """
        seconds = self._monotonic() - self._responded_at
        return f"no answer about the lease for {seconds:.0f} s" if seconds > STALE_AFTER_SECONDS else None

    def check(self) -> None:
        """To be asked before each write. A process that was asleep wakes up in the midst of its work, and
        would go on before its own timers show that its lease duration has passed.

        :raises LeaseLost: when another may hold the Lease by now.
        """
        if not self.is_leader or self._left <= 0:
            self.is_leader = False
            raise LeaseLost(f"the lease was not renewed for {RENEW_DEADLINE_SECONDS:g} s")

    @property
    def _left(self) -> float:
        return RENEW_DEADLINE_SECONDS - (self._monotonic() - self._renewed_at)

    async def acquire(self) -> None:
        """Wait, however long, until the Lease is ours."""
        last_holder: object = None
        self._responded_at = self._monotonic()
        while True:
            try:
                holder = await self._try_acquire_or_renew()
                self._responded_at = self._monotonic()
                if self.is_leader:
                    return
                if holder != last_holder:
                    log.info(f"waiting for leader election: {holder} is the leader")
                    last_holder = holder
            except ApiError as error:
                if not isinstance(error, Unreachable):
                    self._responded_at = self._monotonic()
                log.warning(f"the lease cannot be acquired yet: {error}")
            # Asked for twice as often as it is renewed, and when the other's term ends: a standby
            # is at work within a term and a second of the leader's death.
            left = self._ends_at - self._monotonic()
            pause = self._retry_period_seconds / 2
            await asyncio.sleep(min(left, pause) if left > 0 else pause)

    async def renew(self) -> None:
        """Renew for ever.

        :raises LeaseLost: when another has it, or it could not be renewed in time.
        """
        pause = self._retry_period_seconds
        while True:
            await asyncio.sleep(pause)
            self.check()
            try:
                # Half of what is left for each try: a connection that hangs must not take all of it.
                async with asyncio.timeout(max(self._left / 2, LAST_TRY_SECONDS)):
                    holder = await self._try_acquire_or_renew()
            except (ApiError, TimeoutError) as error:
                log.warning(f"the lease was not renewed: {error!r}")
                pause = self._retry_period_seconds / 4
                continue
            pause = self._retry_period_seconds
            if not self.is_leader:
                raise LeaseLost(f"{holder} holds the lease now")
            self.check()  # A response that we slept through is of a lease that has expired.
            self._responded_at = self._monotonic()

    async def note(self, text: str) -> None:
        """Keep a text for whoever holds the Lease next; written only while it is ours.

        :raises ApiError: when it could not be written.
        """
        if text == self.noted:
            return
        self.check()
        async with self._writing:
            await self._write({}, annotations={NOTE: text or None})
            self.noted = text

    async def release(self) -> None:
        """Let a standby have it at once; failing to is no harm, its term ends."""
        if not self.is_leader:
            return
        self.is_leader = False
        given_up: Object = {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            try:
                await self._write(given_up)
            except Conflict:
                # A renewal that was cut off by the end may have come through.
                lease = await self._api.get(self._ref)
                if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                    self._version = lease["metadata"]["resourceVersion"]
                    await self._write(given_up)
        except ApiError as error:
            log.info(f"the lease was not released: {error}")

    async def _try_acquire_or_renew(self) -> str:
        """Take or renew it where that is right; sets `held`, returns who holds it."""
        async with self._writing:
            return await self._try_locked()

    async def _try_locked(self) -> str:
        # Our term is counted from before it is asked for, that of the others from after.
        began = self._monotonic()
        if self.is_leader:
            with contextlib.suppress(Conflict, NotFound):
                await self._write({"renewTime": _now()})
                self._renewed_at = began
                return self._identity
        try:
            lease = await self._api.get(self._ref)
        except NotFound:
            meta = {"namespace": self._ref.namespace, "name": self._ref.name}
            made = await self._api.create(LEASE, {"metadata": meta, "spec": self._spec(transitions=0)})
            self._version = made["metadata"]["resourceVersion"]
            self.observed = self.is_leader = True
            self._renewed_at = began
            return self._identity
        self.observed = True
        self.noted = (lease["metadata"].get("annotations") or {}).get(NOTE, "")
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if (holder, spec.get("renewTime")) != self._seen:
            self._seen, self._seen_at = (holder, spec.get("renewTime")), self._monotonic()
        term = float(spec.get("leaseDurationSeconds") or LEASE_DURATION_SECONDS)
        self._ends_at = self._seen_at + term
        if holder not in ("", self._identity) and self._monotonic() < self._ends_at:
            self.is_leader = False
            return str(holder)
        moved = int(spec.get("leaseTransitions") or 0) + (holder != self._identity)
        self._version = lease["metadata"]["resourceVersion"]
        spec = self._spec(transitions=moved)
        if holder == self._identity:
            del spec["acquireTime"]
        await self._write(spec)
        self.is_leader = True
        self._renewed_at = began
        return self._identity

    async def _write(self, spec: Object, *, annotations: Object | None = None) -> None:
        """:raises Conflict: when another replica wrote since we read."""
        meta: Object = {"resourceVersion": self._version}
        if annotations is not None:
            meta["annotations"] = annotations
        patch = {"metadata": meta, "spec": spec}
        self._version = (await self._api.merge(self._ref, patch))["metadata"]["resourceVersion"]

    def _spec(self, *, transitions: int) -> Object:
        now = _now()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

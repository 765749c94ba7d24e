"""One works, one stands by; a term that is not renewed ends; a lease that is lost is noticed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kindling.engine.leader_election import (
    LEASE_DURATION_SECONDS,
    RENEW_DEADLINE_SECONDS,
    STALE_AFTER_SECONDS,
    LeaderElector,
    LeaseLost,
)
from kindling.kube.errors import ApiError, Conflict, NotFound, Rejected, ServerError, Unreachable
from kindling.kube.resources import Object, Ref, ResourceType


class Server:
    """The one Lease object, with versions; `down` makes every call fail."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.annotations: dict[str, str] = {}
        self.down: ApiError | None = None

    async def get(self, ref: Ref) -> Object:
        self._fail()
        if self.lease is None:
            raise NotFound(status=404, reason="NotFound", message="no lease")
        return self._seen()

    async def create(self, type: ResourceType, body: Object) -> Object:
        self._fail()
        if self.lease is not None:
            raise Conflict(status=409, reason="AlreadyExists", message="there")
        return self._put(body["spec"])

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        self._fail()
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(status=409, reason="Conflict", message="changed")
        for name, value in (patch["metadata"].get("annotations") or {}).items():
            self.annotations = {name: value} if value is not None else {}
        return self._put({**self.lease["spec"], **patch["spec"]})

    def _put(self, spec: Object) -> Object:
        self.version += 1
        self.lease = {"spec": spec}
        return self._seen()

    def _seen(self) -> Object:
        meta = {"resourceVersion": str(self.version), "annotations": self.annotations}
        return {**(self.lease or {}), "metadata": meta}

    def _fail(self) -> None:
        if self.down is not None:
            raise self.down


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lease(server: Server, clock: Clock, name: str) -> LeaderElector:
    return LeaderElector(
        api=server, namespace="ns", identity=name, monotonic=clock, retry_period_seconds=0.01
    )


async def still_waits(candidate: LeaderElector) -> bool:
    try:
        await asyncio.wait_for(candidate.acquire(), 0.06)
    except TimeoutError:
        return True
    return False


def test_second_waits_until_the_term_is_over() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        first, second = lease(server, clock, "a"), lease(server, clock, "b")
        await first.acquire()
        assert await still_waits(second)
        assert second.observed
        assert not second.is_leader
        clock.now += LEASE_DURATION_SECONDS - 1
        assert await still_waits(second)
        clock.now += 2
        assert not await still_waits(second)
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1

    asyncio.run(run())


def test_renewals_are_seen_by_the_one_that_waits() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        first, second = lease(server, clock, "a"), lease(server, clock, "b")
        await first.acquire()
        for _ in range(4):
            assert await still_waits(second)
            clock.now += LEASE_DURATION_SECONDS - 1
            await first._try_acquire_or_renew()

    asyncio.run(run())


def test_released_is_taken_at_once() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        first, second = lease(server, clock, "a"), lease(server, clock, "b")
        await first.acquire()
        await first.release()
        assert not await still_waits(second)
        await first.release()  # which is not the other's undoing
        assert server.lease is not None
        assert server.lease["spec"]["holderIdentity"] == "b"

    asyncio.run(run())


def test_it_is_released_though_a_renewal_that_was_cut_off_came_through() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        first, second = lease(server, clock, "a"), lease(server, clock, "b")
        await first.acquire()
        server.version += 1
        await first.release()
        assert not await still_waits(second)

    asyncio.run(run())


def test_what_another_took_meanwhile_is_not_released() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        first = lease(server, clock, "a")
        await first.acquire()
        assert server.lease is not None
        server._put({**server.lease["spec"], "holderIdentity": "b"})
        await first.release()
        assert server.lease["spec"]["holderIdentity"] == "b"

    asyncio.run(run())


def test_restarted_under_its_name_takes_up_its_own() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        await lease(server, clock, "a").acquire()
        assert not await still_waits(lease(server, clock, "a"))

    asyncio.run(run())


@pytest.mark.parametrize("by", ["another", "silence"])
def test_lost_ends_it(by: str) -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        mine = lease(server, clock, "a")
        await mine.acquire()
        keeping = asyncio.create_task(mine.renew())
        await asyncio.sleep(0.05)
        assert not keeping.done()
        if by == "another":
            spec: dict[str, Any] = {"holderIdentity": "b", "renewTime": "x", "leaseDurationSeconds": 15}
            server._put(spec)
        else:
            server.down = ServerError(status=500, reason="", message="down")
            await asyncio.sleep(0.05)
            assert not keeping.done()
            clock.now += RENEW_DEADLINE_SECONDS + 1
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(keeping, 1)
        assert not mine.is_leader

    asyncio.run(run())


def test_a_standby_without_an_answer_is_stalled_and_one_that_is_rejected_is_not() -> None:
    server, clock = Server(), Clock()
    one, two = lease(server, clock, "one"), lease(server, clock, "two")

    async def scenario() -> list[str | None]:
        await one.acquire()
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(0.05)
        said = [two.stalled]
        for error in (
            Unreachable("no route"),
            Rejected(status=403, reason="Forbidden", message="no"),
        ):
            server.down = error
            await asyncio.sleep(0.05)
            clock.now += STALE_AFTER_SECONDS + 1
            await asyncio.sleep(0.05)
            said.append(two.stalled)
        waiting.cancel()
        return said

    late = f"no answer about the lease for {STALE_AFTER_SECONDS + 1:.0f} s"
    assert asyncio.run(scenario()) == [None, late, None]


def test_a_standby_asks_when_the_term_ends_not_a_pause_later() -> None:
    server = Server()
    one = LeaderElector(api=server, namespace="ns", identity="one")
    two = LeaderElector(api=server, namespace="ns", identity="two", retry_period_seconds=600)

    async def scenario() -> float:
        await one.acquire()
        assert server.lease is not None
        server.lease["spec"]["leaseDurationSeconds"] = 1
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(two.acquire(), 20)
        return asyncio.get_running_loop().time() - began

    assert 0.9 < asyncio.run(scenario()) < 10


def test_after_a_sleep_nothing_may_be_written_any_more() -> None:
    server, clock = Server(), Clock()
    one = lease(server, clock, "one")
    with pytest.raises(LeaseLost):
        one.check()  # It never held the lease.
    asyncio.run(one.acquire())
    clock.now += RENEW_DEADLINE_SECONDS - 1
    one.check()
    clock.now += 2
    with pytest.raises(LeaseLost, match=f"not renewed for {RENEW_DEADLINE_SECONDS:g} s"):
        one.check()
    assert not one.is_leader


def test_a_term_is_counted_from_before_it_was_asked_for() -> None:
    """A slow answer takes from our own time: others count from when they see the lease renewed."""
    server, clock = Server(), Clock()

    async def scenario(seconds: float) -> None:
        one = lease(server, clock, "one")
        await one.acquire()
        merge, version = server.merge, server.version

        async def slow(ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
            clock.now += seconds
            one._retry_period_seconds = 600  # What is found is found now, not with the next renewal.
            return await merge(ref, patch, subresource=subresource)

        server.merge = slow  # type: ignore[method-assign]
        keeping = asyncio.create_task(one.renew())
        while server.version == version:
            await asyncio.sleep(0.005)
        server.merge = merge  # type: ignore[method-assign]
        if seconds > RENEW_DEADLINE_SECONDS:
            with pytest.raises(LeaseLost):
                await asyncio.wait_for(keeping, 1)
            return
        keeping.cancel()
        one.check()
        clock.now += 3
        with pytest.raises(LeaseLost):
            one.check()

    asyncio.run(scenario(RENEW_DEADLINE_SECONDS - 2))
    asyncio.run(scenario(RENEW_DEADLINE_SECONDS + 2))


def test_what_the_holder_notes_the_next_one_reads() -> None:
    async def run() -> None:
        server, clock = Server(), Clock()
        first, second = lease(server, clock, "a"), lease(server, clock, "b")
        await first.acquire()
        assert first.noted == ""
        await first.note("kind/ns/name")
        before = server.version
        await first.note("kind/ns/name")  # so it is already
        assert server.version == before
        keeping = asyncio.create_task(first.renew())
        await asyncio.sleep(0.05)
        assert not keeping.done()
        assert first.noted == "kind/ns/name"
        keeping.cancel()
        assert await still_waits(second)
        clock.now += LEASE_DURATION_SECONDS + 1
        assert not await still_waits(second)
        assert second.noted == "kind/ns/name"
        with pytest.raises(LeaseLost):
            await first.note("")  # its term is over
        await second.note("")
        assert server.annotations == {}

    asyncio.run(run())


def test_noted_only_by_the_holder() -> None:
    """One that was frozen, and does not know yet that another has it."""

    async def run() -> None:
        server, clock = Server(), Clock()
        first, second = lease(server, clock, "a"), lease(server, clock, "b")
        await first.acquire()
        assert server.lease is not None
        server.lease["spec"]["holderIdentity"] = ""
        await second.acquire()
        with pytest.raises(Conflict):
            await first.note("kind/ns/name")
        assert server.annotations == {}
        assert first.noted == ""

    asyncio.run(run())


def test_a_request_that_hangs_does_not_cost_the_lease() -> None:
    """A connection that a firewall forgot: the next try has another one."""
    server = Server()
    mine = LeaderElector(api=server, namespace="ns", identity="a", retry_period_seconds=0.2)
    merge, hung = server.merge, 0

    async def hangs_once(ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        nonlocal hung
        hung += 1
        if hung == 1:
            await asyncio.sleep(60)
        return await merge(ref, patch, subresource=subresource)

    async def scenario() -> None:
        await mine.acquire()
        server.merge = hangs_once  # type: ignore[method-assign]
        keeping = asyncio.create_task(mine.renew())
        await asyncio.sleep(RENEW_DEADLINE_SECONDS + 1)
        assert not keeping.done()
        assert mine.is_leader
        keeping.cancel()

    asyncio.run(scenario())


def test_a_renewal_is_one_request_and_reads_the_lease_only_after_a_conflict() -> None:
    async def scenario() -> None:
        server, clock = Server(), Clock()
        mine = lease(server, clock, "a")
        await mine.acquire()
        read, get = [], server.get

        async def counted(ref: Ref) -> Object:
            read.append(ref)
            return await get(ref)

        server.get = counted  # type: ignore[method-assign]
        keeping = asyncio.create_task(mine.renew())
        await asyncio.sleep(0.05)
        assert (read, server.version > 2) == ([], True)
        assert server.lease is not None
        server._put({**server.lease["spec"], "preferredHolder": "nobody"})  # another writer's field
        await asyncio.sleep(0.05)
        assert (len(read), mine.is_leader) == (1, True)
        keeping.cancel()

    asyncio.run(scenario())

"""The prober's one process that lasts: takes jobs, has a worker for each, kills those whose time is over."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from contextlib import suppress

from kindling.kinds import reasons
from kindling.prober import jobs, results
from kindling.prober.activity import ActivityLog
from kindling.prober.fair_queue import FairQueue, PriorityLevel
from kindling.prober.jobs import Job
from kindling.prober.sessions import CONNECT_SECONDS, LOGIN, PATIENT
from kindling.prober.tokens import TokenCache
from kindling.prober.workers import EXHAUSTED, FUSE_SECONDS, Parent

QUICK_SECONDS = 6.0
"""For a health check, an HTTP request, a look at statistics."""
LOGIN_SECONDS = CONNECT_SECONDS + 1.0
"""For a login and the first question after it."""
WORK_SECONDS = 60.0
"""For all of a job: a database is made from a copy, on whatever disk there is."""
assert WORK_SECONDS < FUSE_SECONDS


class _Exhausted(Exception):
    """The worker's processor time is spent."""


class Pool:
    """`take` serves one connection of the operator: a job's line in, an answer's line out."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._numbers = itertools.count()
        self._fair_queue: FairQueue[int] = FairQueue()
        self._started: dict[int, asyncio.Event] = {}
        self._tokens = TokenCache()
        self._activity = ActivityLog()
        self.broken = asyncio.Event()
        """No worker can be started any more: the process must be restarted."""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            job = jobs.job(line)
        except (ValueError, TypeError, LookupError):
            writer.close()
            return
        answering = asyncio.create_task(self._run(job))
        leaving = asyncio.create_task(reader.read(1))  # nothing more is received: its end is the operator's
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                with suppress(OSError):  # there is no worker, or nobody who wants to know
                    writer.write(answering.result())
                    await writer.drain()
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
            writer.close()

    async def _run(self, job: Job) -> bytes:
        number = next(self._numbers)
        started = self._started[number] = asyncio.Event()
        slow = self._fair_queue.level(job.server) is PriorityLevel.SLOW
        self._fair_queue.add(number, job.server)
        hung: bool | None = None
        try:
            self._advance()
            await started.wait()
            job = self._tokens.with_token(job)
            line = await self._work(job.slowed() if slow else job)
            result = jobs.read(line)
            if result is not None:
                self._tokens.keep(job, line, result)
            result = self._activity.note(job, line, result)
            hung = result is None or result.reason == reasons.NOT_RESPONDING
            return jobs.written(result or results.broken_off(job.request))
        except _Exhausted:
            hung = True
            return jobs.written(results.too_much_computing(job.request))
        except TimeoutError:
            hung = True
            return jobs.written(
                results.not_responding(job.request, QUICK_SECONDS if job.quick else LOGIN_SECONDS)
            )
        finally:
            self._fair_queue.done(number, hung=hung)
            del self._started[number]
            self._advance()

    def _advance(self) -> None:
        while (number := self._fair_queue.next()) is not None:
            self._started[number].set()

    async def _work(self, job: Job) -> bytes:
        """What the worker writes last; empty where it ended without an answer.

        :raises TimeoutError: when its time was over.
        :raises _Exhausted: when its processor time was.
        """
        try:
            channel, process = self._parent.start()
        except OSError:
            self.broken.set()
            raise
        channel.setblocking(False)
        try:
            async with asyncio.timeout(QUICK_SECONDS if job.quick else WORK_SECONDS):
                return await _talk(channel, job)
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)
            channel.close()


async def _talk(channel: socket.socket, job: Job) -> bytes:
    """Give it the job, follow its stages, and take its answer."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(channel, job.line())
    received = b""
    async with asyncio.timeout(LOGIN_SECONDS) as login:
        while not received.endswith(b"\n") and len(received) < jobs.MAX_RESULT_BYTES:
            try:
                data = await loop.sock_recv(channel, jobs.MAX_RESULT_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                return b""
            received += data
            stages, received = _parted(received)
            if EXHAUSTED in stages:
                raise _Exhausted
            if stages:
                login.reschedule(None if stages.endswith(PATIENT) else loop.time() + LOGIN_SECONDS)
    return received


def _parted(received: bytes) -> tuple[bytes, bytes]:
    """The stages that it went through, and the beginning of the answer."""
    result = received.lstrip(LOGIN + PATIENT + EXHAUSTED)
    return received[: len(received) - len(result)], result

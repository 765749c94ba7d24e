"""The prober's one process that lasts: takes jobs, has a worker for each, kills those whose time is over."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from contextlib import suppress

from kindling.prober import answers, jobs
from kindling.prober.jobs import Job
from kindling.prober.lanes import Lane, Lanes
from kindling.prober.sessions import CONNECT_SECONDS, LOGIN, PATIENT
from kindling.prober.workers import FUSE_SECONDS, Parent

LOOK_SECONDS = 6.0
LOGIN_SECONDS = CONNECT_SECONDS + 1.0
"""For a login and the first question after it."""
WORK_SECONDS = 60.0
"""For all of a job: a database is made from a copy, on whatever disk there is."""
assert WORK_SECONDS < FUSE_SECONDS


class Pool:
    """`take` serves one connection of the operator: a job's line in, an answer's line out."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._numbers = itertools.count()
        self._lanes: Lanes[int] = Lanes()
        self._turns: dict[int, asyncio.Event] = {}
        self.broken = asyncio.Event()
        """No worker can be had any more: the process is to start anew."""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            job = jobs.job(line)
        except (ValueError, TypeError, LookupError):
            writer.close()
            return
        answering = asyncio.create_task(self._answer(job))
        leaving = asyncio.create_task(reader.read(1))  # nothing more is said: its end is the operator's
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

    async def _answer(self, job: Job) -> bytes:
        number = next(self._numbers)
        turn = self._turns[number] = asyncio.Event()
        slow = self._lanes.lane(job.server) is Lane.SLOW
        self._lanes.add(number, job.server)
        hung: bool | None = None
        try:
            self._advance()
            await turn.wait()
            line = await self._work(job.slowed() if slow else job)
            answer = jobs.read(line)
            hung = answer is None or answer.reason == "NotResponding"
            return jobs.written(answer or answers.broken_off(job.login))
        except TimeoutError:
            hung = True
            return jobs.written(
                answers.not_responding(job.login, LOOK_SECONDS if job.look else LOGIN_SECONDS)
            )
        finally:
            self._lanes.done(number, hung=hung)
            del self._turns[number]
            self._advance()

    def _advance(self) -> None:
        while (number := self._lanes.next()) is not None:
            self._turns[number].set()

    async def _work(self, job: Job) -> bytes:
        """What the worker writes last; empty where it ended without an answer.

        :raises TimeoutError: when its time was over.
        """
        try:
            channel, process = self._parent.start()
        except OSError:
            self.broken.set()
            raise
        channel.setblocking(False)
        try:
            async with asyncio.timeout(LOOK_SECONDS if job.look else WORK_SECONDS):
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
    said = b""
    async with asyncio.timeout(LOGIN_SECONDS) as login:
        while not said.endswith(b"\n") and len(said) < jobs.LONGEST_ANSWER:
            try:
                data = await loop.sock_recv(channel, jobs.LONGEST_ANSWER)
            except ConnectionError:
                data = b""
            if not data:
                return b""
            said += data
            stages, said = _parted(said)
            if stages:
                login.reschedule(None if stages.endswith(PATIENT) else loop.time() + LOGIN_SECONDS)
    return said


def _parted(said: bytes) -> tuple[bytes, bytes]:
    """The stages that it went through, and the beginning of the answer."""
    answer = said.lstrip(LOGIN + PATIENT)
    return said[: len(said) - len(answer)], answer

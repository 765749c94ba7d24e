"""The processes that speak to servers: one for each job, forked from a parent that never sees a job.

A server may have its client compute for minutes inside libpq, or send without an end; so each job has a
process of its own, with little memory, which is killed when its time is over. What is in it when a
server takes it over is one job, no other's password and no token.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from contextlib import suppress

from kindling.kinds.backup.archive import ArchiveRequest
from kindling.kinds.base import ExternalResult
from kindling.kinds.http import HttpRequest
from kindling.kinds.memcached.access import AccessRequest
from kindling.kinds.postgresql.logins import LoginsRequest
from kindling.kinds.postgresql.objects import Objects
from kindling.kinds.postgresql.reload import Reload
from kindling.kinds.postgresql.usage import UsageRequest
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.kinds.pulsarconsumer.replay import ReplayRequest
from kindling.prober import (
    activity,
    archive,
    http,
    logins,
    memcached,
    objects,
    postgres,
    pulsar,
    reload,
    sessions,
    tokens,
    usage,
)
from kindling.prober.jobs import LONGEST_LINE, Job, job, written
from kindling.prober.results import broken_off

HEADROOM_BYTES = 12 * 2**20
"""Memory that a worker may take beyond what its parent has: an honest answer needs a tenth of it."""
NICE = 10
CPU_SECONDS = 3
"""Of processor time: a login takes a hundredth of one."""
EXHAUSTED = bytes([signal.SIGXCPU])
"""What a worker writes, as a stage, once that is spent: then it is killed."""
FUSE_SECONDS = 90.0
"""A worker ends by itself after so long, whatever became of those who should have killed it."""


class Parent:
    """Forks workers on request. Start it before the process has anything else: no thread, no secret."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._socket = ours

    @property
    def fileno(self) -> int:
        """Readable once the parent has ended, or while a `start` waits for its answer."""
        return self._socket.fileno()

    def start(self) -> tuple[socket.socket, int]:
        """A new worker: the socket that takes its job and gives its answer, and its pidfd.

        :raises OSError: when none can be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            socket.send_fds(self._socket, [b"+"], [theirs.fileno()])
        _, fds, _, _ = socket.recv_fds(self._socket, 1, 1)
        if not fds:
            ours.close()
            raise OSError("no worker can be started")
        return ours, fds[0]


def _serve(requests: socket.socket) -> None:
    """Until nobody asks any more; then all workers end with it."""
    os.setpgid(0, 0)
    os.nice(NICE)  # what a hostile server has computed is not at the operator's cost
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: the kernel forgets them
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the end of the socket says it
    _warm_up()
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 1, 1)
        if not data:
            os.killpg(0, signal.SIGKILL)
        try:
            pid = os.fork()
        except OSError:
            requests.send(b"-")
            os.close(fds[0])
            continue
        if not pid:
            requests.close()
            _work(socket.socket(fileno=fds[0]))
        os.close(fds[0])
        handle = os.pidfd_open(pid)
        socket.send_fds(requests, [b"+"], [handle])
        os.close(handle)


def _work(channel: socket.socket) -> None:
    """One job, and then nothing is left of this process."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, FUSE_SECONDS)
        with channel.makefile("rb") as lines:
            given = job(lines.readline(LONGEST_LINE))
        _limit_memory()  # of what a server may send; the job is the operator's own
        if given.slow:
            os.nice(19 - NICE)
        _report_exhaustion(channel)
        sessions.stage = channel.sendall
        channel.sendall(_line(_result(given)))
        code = 0
    except BaseException as error:  # noqa: BLE001 nothing of it may reach the parent's code below
        with suppress(BaseException):
            print(f"kindling.prober: a worker gave up: {type(error).__name__}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _result(given: Job) -> ExternalResult | pulsar.ResultAndToken:
    address = given.host, given.port
    try:
        if isinstance(given.request, HttpRequest):
            return http.send(address, given.request)
        if isinstance(given.request, AccessRequest):
            return memcached.query(address, given.request)
        if isinstance(given.request, ArchiveRequest):
            return archive.ask(address, given.request)
        if isinstance(given.request, BacklogRequest):
            return pulsar.query(address, given.request)
        if isinstance(given.request, ReplayRequest):
            return pulsar.replay(address, given.request)
        if isinstance(given.request, UnsubscribeRequest):
            return pulsar.unsubscribe(address, given.request)
        if isinstance(given.request, UsageRequest):
            return usage.ask(address, given.request)
        if isinstance(given.request, LoginsRequest):
            return logins.ask(address, given.request)
        if isinstance(given.request, Objects):
            return objects.sync(address, given.request)
        if isinstance(given.request, Reload):
            return reload.sync(address, given.request)
        if given.request.check:
            return postgres.check_health(address, given.request)
        # A role's own verifier may ask for more computing than there is time: it is set again first.
        return postgres.sync(address, given.request, provision_first=given.slow)
    except MemoryError:
        return broken_off(given.request)


def _line(answer: ExternalResult | pulsar.ResultAndToken) -> bytes:
    """The pool keeps what is beside the result."""
    beside: dict[str, object] = {activity.COUNTED: sessions.opened}
    if isinstance(answer, ExternalResult):
        return written(answer, **beside)
    if answer.token is not None:
        beside[tokens.ANSWER] = list(answer.token)
    return written(answer.result, **beside)


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + HEADROOM_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _report_exhaustion(channel: socket.socket) -> None:
    """A handler in Python waits until libpq returns; the byte of the interpreter's own handler does not."""
    channel.setblocking(False)
    signal.signal(signal.SIGXCPU, lambda *_: None)
    signal.set_wakeup_fd(channel.fileno())


def _warm_up() -> None:
    """What a login loads once, loaded for all workers: codecs, the resolver, libpq's own."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    postgres.warm_up(port)

"""The prober's process: hostile servers of each sort end in an answer, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.http import HttpRequest
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.objects import Objects
from kindling.prober import jobs
from kindling.prober.client import ChildProber, ProberClient, Unanswered
from kindling.prober.pool import LOGIN_SECONDS, QUICK_SECONDS
from kindling.prober.workers import NICE

from tests.unit.operator.conftest import Files
from tests.unit.operator.hostile import SORTS, hostile
from tests.unit.operator.test_postgres_port import as_superuser, login

ENDED = {
    "cleartext": {"UnsafeAuthentication"},
    "md5": {"UnsafeAuthentication"},
    "trust": {"UnsafeAuthentication"},
    "hang": {"NotResponding"},
    # Its processor time is spent or, on a busy machine, the time that it had altogether.
    "iterations": {"NotResponding"},
}
MEMORY_BYTES = 400 * 2**20
MARGIN_SECONDS = 4.0


def to(port: int, **changes: object) -> Login:
    return replace(login(Files(Path(), port)), **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def prober() -> AsyncIterator[ChildProber]:
    own = ChildProber()
    try:
        yield own
    finally:
        await own.close()


def run(scenario: Callable[[ChildProber], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with prober() as own:
            await own.start()
            await scenario(own)

    asyncio.run(whole())


def family(pid: int) -> Iterator[int]:
    """This process and all that descend from it."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            yield from family(int(child))
        except OSError:
            continue


def memory(pid: int) -> int:
    """Bytes that the processes have between them, what they share counted once."""
    total = 0
    for member in family(pid):
        try:
            lines = Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("sort", SORTS)
def test_every_hostile_server_ends_in_an_answer(sort: str, look: bool) -> None:
    async def scenario(own: ChildProber) -> None:
        with hostile(sort) as there:
            began = time.monotonic()
            answer = await (own.send(to(there.port).health_check()) if look else own.run(to(there.port)))
            took = time.monotonic() - began
        assert answer is not None
        if look and sort == "odd_version":
            assert answer.ok
        else:
            assert not answer.ok
            assert answer.reason in ENDED.get(sort, {"LoginFailed"}), answer
        assert "version" not in answer.facts
        assert took < max(LOGIN_SECONDS, QUICK_SECONDS) + MARGIN_SECONDS
        assert "lovelace" not in repr(answer)
        assert not any(b"lovelace" in last_result for last_result in there.last_result)

    run(scenario)


def test_a_prober_has_started_once_it_takes_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a busy machine, time passes between the socket's file and the first connection taken."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\n"
        "listen = socket.socket.listen\n"
        "socket.socket.listen = lambda self, *rest: (time.sleep(0.5), listen(self, *rest))[1]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    async def scenario(own: ChildProber) -> None:
        with hostile("odd_version") as there:
            answer = await own.send(to(there.port).health_check())
        assert answer is not None
        assert answer.ok

    run(scenario)


def test_while_forty_of_each_sort_rage_an_honest_server_answers_and_memory_is_bounded(
    server: Files,
) -> None:
    async def scenario(own: ChildProber) -> None:
        assert own._process is not None
        honest = login(server, namespace="honest")
        assert (await own.run(honest)).ok
        with hostile("hang") as hang, hostile("iterations") as bomb, hostile("flood_of_rows") as rows:
            raging = [
                asyncio.create_task(
                    own.run(to(there.port, namespace=f"ns-{number}", host=f"127.0.0.{2 + kind}"))
                )
                for number in range(40)
                for kind, there in enumerate((hang, bomb, rows))
            ]
            most, slowest = 0, 0.0
            deadline = time.monotonic() + 12
            while time.monotonic() < deadline:
                began = time.monotonic()
                answer = await own.send(honest.health_check())
                assert answer is not None
                assert answer.ok, answer
                slowest = max(slowest, time.monotonic() - began)
                most = max(most, memory(own._process.pid))
                await asyncio.sleep(0.2)
            for task in raging:
                task.cancel()
            await asyncio.gather(*raging, return_exceptions=True)
        assert most < MEMORY_BYTES
        assert slowest < QUICK_SECONDS

    run(scenario)


def test_a_verifier_with_too_many_iterations_is_replaced(server: Files) -> None:
    """Any role may set its own verifier, and then nobody could log in by it any more."""

    async def scenario(own: ChildProber) -> None:
        first = await own.run(login(server))
        assert first.ok
        asked = login(server, identifier=first.facts["system_identifier"])
        bomb = "SCRAM-SHA-256$30000000:c2FsdHNhbHRzYWx0c2FsdA==$" + ":".join(["A" * 43 + "="] * 2)
        as_superuser(server, f"UPDATE pg_authid SET rolpassword = '{bomb}' WHERE rolname = 'ada'")
        answer = await own.run(asked)
        assert not answer.ok
        assert answer.reason in ENDED["iterations"], answer
        assert (await own.run(asked)).ok

    run(scenario)


def test_it_ends_with_the_operator_however_that_ends() -> None:
    """Its standard input ends, and with it the workers, even one in the midst of its work."""

    async def scenario() -> list[int]:
        own = ChildProber()
        await own.start()
        assert own._process is not None
        with hostile("hang") as there:
            asking = asyncio.create_task(own.run(to(there.port)))
            while len(found := list(family(own._process.pid))) < 3:
                await asyncio.sleep(0.02)
            await own.close()
            asking.cancel()
        return found

    found = asyncio.run(scenario())
    deadline = time.monotonic() + 5
    while left := [pid for pid in found if Path(f"/proc/{pid}").exists() and not zombie(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def test_its_workers_give_way_to_the_operator_in_whose_session_they_are() -> None:
    """The kernel may share out processor time by sessions; niceness says nothing outside of one."""

    async def scenario(own: ChildProber) -> None:
        assert own._process is not None
        pid = own._process.pid
        with hostile("iterations") as there:
            asking = asyncio.create_task(own.run(to(there.port)))
            while len(found := list(family(pid))) < 3:
                await asyncio.sleep(0.02)
            # The prober, the workers' parent, a worker.
            nice = [os.getpriority(os.PRIO_PROCESS, member) for member in found[:3]]
            assert nice == [base := nice[0], base + NICE, base + NICE]
            assert {os.getsid(member) for member in found[:3]} == {os.getsid(0)}
            assert os.getpgid(pid) == pid, "a Ctrl-C is the operator's"
            asking.cancel()

    run(scenario)


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_one_is_started_again_and_the_job_done(server: Files) -> None:
    async def scenario(own: ChildProber) -> None:
        assert (await own.run(login(server))).ok
        assert own._process is not None
        own._process.kill()
        assert (await own.run(login(server))).ok
        # Or only what forks the workers.
        os.kill(list(family(own._process.pid))[1], signal.SIGKILL)
        assert (await own.run(login(server))).ok

    run(scenario)


def test_a_prober_that_is_not_there_says_nothing_of_the_server(tmp_path: Path) -> None:
    nobody = ProberClient(tmp_path / "socket")
    assert asyncio.run(nobody.send(to(1).health_check())) is None
    with pytest.raises(Unanswered):
        asyncio.run(nobody._put(to(1)))


def test_it_has_nothing_of_the_environment_and_no_token(server: Files) -> None:
    """What is in a worker when a server takes it over."""

    async def scenario(own: ChildProber) -> None:
        assert own._process is not None
        with hostile("hang") as there:
            asking = asyncio.create_task(own.run(to(there.port)))
            while len(found := list(family(own._process.pid))) < 3:
                await asyncio.sleep(0.02)
            environ = Path(f"/proc/{found[-1]}/environ").read_text()
            assert {word.partition("=")[0] for word in environ.split("\0") if word} <= {
                "PYTHONPATH",
                "LANG",
                "RES_OPTIONS",
            }
            # It limits itself first of all, and is found by its number before that.
            while not there.sockets:
                await asyncio.sleep(0.02)
            limits = Path(f"/proc/{found[-1]}/limits").read_text()
            assert "unlimited" not in next(line for line in limits.splitlines() if "address space" in line)
            asking.cancel()

    os.environ["KINDLING_SECRET"] = "canary"
    try:
        run(scenario)
    finally:
        del os.environ["KINDLING_SECRET"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[1]\n",
        b'{"ok":1,"reason":"","message":"","facts":{}}\n',
        b'{"ok":false,"reason":"SomeThingElse","message":"","facts":{}}\n',
        b'{"ok":false,"reason":"LoginFailed","message":null,"facts":{}}\n',
        b'{"ok":false,"reason":["LoginFailed"],"message":"","facts":{}}\n',
    ],
)
def test_what_is_no_answer_is_none(line: bytes) -> None:
    assert jobs.read(line) is None


def test_an_answer_is_as_large_as_a_status_takes_and_has_the_facts_that_are_known() -> None:
    facts = {
        "login": "yes",
        "version": "1" * 999,
        "pending_restart": ["x" * 999] * 999,
        "restarted": "all",
        "more": 1,
    }
    answer = jobs.read(
        jobs.written(ExternalResult(ok=False, reason="LoginFailed", message="m" * 99999, facts=facts))
    )
    assert answer is not None
    assert len(answer.message) == 4096
    assert answer.facts == {"version": "1" * 64, "pending_restart": ["x" * 128] * 64}


def test_what_is_said_of_roles_and_databases_is_cut_to_what_a_status_takes() -> None:
    facts = {
        "roles": {
            "r" * 999: ["NameConflict", "m" * 9999],
            "odd": ["NoReason", "m"],
            "odder": "m",
            "oddest": [1, 2],
        },
        "databases": {f"d{number}": ["Reconciling", "m"] for number in range(999)},
        "extensions": {"d": {"e": "1" * 999}, "odd": 7},
    }
    answer = jobs.read(jobs.written(ExternalResult(ok=False, reason="NameConflict", facts=facts)))
    assert answer is not None
    assert answer.facts["roles"] == {"r" * 128: ("NameConflict", "m" * 300)}
    assert len(answer.facts["databases"]) == 400
    assert answer.facts["extensions"] == {"d": {"e": "1" * 128}}


def test_a_job_is_the_same_on_the_other_side() -> None:
    asked = to(1, parameters={"work_mem": "1MB"}, superuser_password=None, provision=False)
    objects = Objects(
        host="h", port=1, namespace="ns", pod="p", superuser="s", superuser_password="w", identifier="7",
        default_user="u", roles=({"name": "r", "member_of": ["g"]},), databases=({"name": "d"},),
        drop_roles=("x",), apply=False, cache_key=None,
    )  # fmt: skip
    http = HttpRequest(namespace="ns", host="n", port=1, path="/a")
    for request in (asked, asked.health_check(), http, objects):
        job = jobs.Job(request=request, host="h", port=2)
        assert jobs.job(job.line()) == job


def test_it_says_how_it_is_called() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kindling.prober"],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "usage:" in done.stderr) == (2, True)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_prober_of_our_own_goes_with_us_however_we_end(loop: str) -> None:
    """Killed, we close nothing: its standard input ends, whatever kind of pipe that is."""
    program = (
        f"import asyncio, {loop}\n"
        "from kindling.prober.client import ChildProber\n"
        "async def main():\n"
        "    prober = ChildProber()\n"
        "    await prober.start()\n"
        "    print(prober._process.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        f"{loop}.run(main())\n"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, env={"PYTHONPATH": os.pathsep.join(sys.path)}, stdout=subprocess.PIPE) as us:
        assert us.stdout is not None
        prober = Path("/proc") / us.stdout.readline().decode().strip()
        assert prober.exists()
        us.kill()
    deadline = time.monotonic() + 20
    while prober.exists() and "State:\tZ" not in (prober / "status").read_text():
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.1)

"""Where a story is told, over and over: cluster, proxy, recorder, database, and the operator's process.

The first two tellings are undisturbed and must end alike; every other, whatever was done to it, must end
as they did, with as many objects having come and gone on the way, and then stay so.
"""

from __future__ import annotations

import base64
import itertools
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kindling.kinds.conditions import find_condition
from kindling.kube.resources import Ref, ResourceType

from tests.apiserver.apiclient import Api
from tests.apiserver.cluster import KINDS_BY_NAME, Cluster, cluster, path
from tests.apiserver.conftest import ENVIRONMENT
from tests.apiserver.operator_process import OperatorProcess, operator
from tests.convergence import database
from tests.convergence.proxy import Proxy, Write, proxy
from tests.convergence.recorder import REPLICA_SET, End, Recorder, recorder
from tests.convergence.scenarios import FIRST, Scenario
from tests.convergence.tunnel import Door
from tests.unit.operator.conftest import Files

STILL_SECONDS = 2.5
"""Longer than any controller or the kubelet takes for its next step."""
SECONDS = 60.0
LOGIN_SECONDS = 20.0
TRIES = 3
UNANSWERED = {"Reconciling", "LoginFailed", "NotResponding", "Running", "MembersUnknown", "MembersDiffer"}
"""Reasons of Ready that none of the stories begins or ends with: something is still to come."""
ALWAYS = {**ENVIRONMENT, "KINDLING_TUNNEL": "1"}
NAMESPACES = "/api/v1/namespaces"


@dataclass(frozen=True)
class Telling:
    """A story being told in a namespace of its own."""

    scenario: Scenario
    namespace: str
    ref: Ref

    def __str__(self) -> str:
        return self.scenario.name


@dataclass(frozen=True, kw_only=True)
class Undisturbed:
    """How a story goes by itself: before its act and in the end.

    `writes` and `events` are what the operator wrote and was told after the act, the events counted by
    resource.
    """

    before: End
    end: End
    writes: Sequence[Write]
    events: Mapping[str, int]


@dataclass
class Stage:
    cluster: Cluster
    proxy: Proxy
    recorder: Recorder
    files: Files
    env: Mapping[str, str]
    learnt: dict[str, Undisturbed] = field(default_factory=dict)
    _process: OperatorProcess | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def start(self) -> None:
        """Start the operator; whoever wants to see it at work waits for what it does."""
        self._process = self._stack.enter_context(operator(self.proxy.plane, env=self.env, kept=True))

    def kill(self) -> None:
        """As a lost node would; harmless where it is dead already. Callable from any thread."""
        assert self._process is not None
        self._process.process.kill()

    def restart(self, env: Mapping[str, str] | None = None) -> None:
        """With no time to tidy up; from now on with that environment, where it is given."""
        assert self._process is not None
        self.check_alive()
        if env is not None:
            self.env = {**ALWAYS, **env}
        self._process.kill()
        self._stack.close()
        self.start()

    def check_alive(self) -> None:
        """It ends when it is killed, and of itself only where its lease ran out, which is made good."""
        assert self._process is not None
        ended = self._process.ended()
        assert ended in (None, -signal.SIGKILL), f"the operator ended of itself ({ended}):\n{self.log()}"

    def stop(self) -> None:
        self._stack.close()

    def log(self) -> str:
        assert self._process is not None
        return self._process.log()[-6000:]

    def open(self, scenario: Scenario) -> Telling:
        """Make the state before the act, in a new namespace."""
        namespace = self.cluster.namespace(f"sweep-{next(self._numbers):05}")
        return Telling(scenario, namespace, scenario.prepare(self.cluster, namespace))

    def act(self, telling: Telling) -> None:
        telling.scenario.act(self.cluster, telling.ref)

    def close(self, tellings: Sequence[Telling]) -> None:
        """Make room. A resource goes first: its namespace's going would refuse its repair."""
        for telling in tellings:
            self.cluster.api.delete(path(telling.ref))
        for telling in tellings:
            self.cluster.api.delete(f"{NAMESPACES}/{telling.namespace}")
        users = [telling.namespace for telling in tellings if telling.scenario.password]
        if users:
            database.drop(self.files, *users)

    def learn(self, scenarios: Sequence[Scenario]) -> None:
        """Let each story go undisturbed, twice, all at once.

        Again where the operator was started anew meanwhile: with none at work, all is still too early.
        """
        new = [scenario for scenario in scenarios if scenario.name not in self.learnt]
        for _ in range(TRIES):
            assert self._process is not None
            process = self._process.process
            try:
                learnt = self._learn(new)
            except AssertionError:
                if process is self._process.process:
                    raise
            else:
                if process is self._process.process:
                    self.learnt.update(learnt)
                    return
        raise AssertionError(f"the operator was started anew each time:\n{self.log()}")

    def _learn(self, scenarios: Sequence[Scenario]) -> dict[str, Undisturbed]:
        pairs = [(self.open(scenario), self.open(scenario)) for scenario in scenarios]
        both = [telling for pair in pairs for telling in pair]
        self.wait_still(both)
        for one, other in pairs:
            self._wait_alike(one, other, moment="before")
        before = {telling.namespace: self.recorder.end(telling.namespace) for telling in both}
        prepared = {telling.namespace: self.proxy.written(telling.namespace) for telling in both}
        seen = Counter(dict(self.proxy.streams.seen))
        for telling in both:
            self.act(telling)
        self.wait_still(both)
        learnt = {}
        for one, other in pairs:
            self._wait_alike(one, other, moment="in the end")
            longer = max(one, other, key=lambda telling: self.proxy.written(telling.namespace))
            events = Counter(dict(self.proxy.streams.seen)) - seen
            learnt[one.scenario.name] = Undisturbed(
                before=before[one.namespace],
                end=self.recorder.end(one.namespace),
                writes=self.proxy.writes(longer.namespace)[prepared[longer.namespace] :],
                events={plural: n for (namespace, plural), n in events.items() if namespace == one.namespace},
            )
            assert not self._try_login(one)
        self.close(both)
        return learnt

    def _wait_alike(self, one: Telling, other: Telling, *, moment: str) -> None:
        """On a slow machine one of them may be still because its next step is late."""
        deadline = time.monotonic() + SECONDS
        while differences := self.recorder.end(one.namespace).differs(self.recorder.end(other.namespace)):
            assert time.monotonic() < deadline, f"{one} {moment}: {differences}"
            time.sleep(0.05)

    def wait_still(self, tellings: Sequence[Telling], *, seconds: float = SECONDS) -> None:
        """Until nothing has changed anywhere for long, and each resource that is there has its status."""
        deadline = time.monotonic() + seconds
        for telling in tellings:
            while self.recorder.still_for(telling.namespace) < STILL_SECONDS or not self._reported(telling):
                found = self.cluster.get(telling.ref)
                assert time.monotonic() < deadline, f"{telling} is not still: {found}\n{self.log()}"
                time.sleep(0.05)

    def _reported(self, telling: Telling) -> bool:
        """A server's first answer comes when it comes, and what follows from it with it."""
        found = self.cluster.get(telling.ref)
        status = (found or {}).get("status") or {}
        if found is None or status.get("observedGeneration") != found["metadata"]["generation"]:
            return found is None
        return find_condition(status, "Ready").get("reason") not in UNANSWERED

    def wait_prepared(self, tellings: Sequence[Telling]) -> None:
        for telling in tellings:
            self.wait_end(telling, self.learnt[telling.scenario.name].before)

    def ended(self, telling: Telling) -> list[str]:
        """In what it is otherwise than in the end of the undisturbed."""
        return self.recorder.end(telling.namespace).differs(self.learnt[telling.scenario.name].end)

    def wait_end(self, telling: Telling, end: End, *, seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while differences := self.recorder.end(telling.namespace).differs(end):
            assert time.monotonic() < deadline, _lines(f"{telling}, {telling.namespace}", differences)
            time.sleep(0.02)

    def wait_ended(self, tellings: Sequence[Telling], *, seconds: float) -> None:
        """Until each has ended as it should, but no longer than that: `verdict` says so then."""
        deadline = time.monotonic() + seconds
        for telling in tellings:
            while self.ended(telling) and time.monotonic() < deadline:
                time.sleep(0.02)

    def wait_quiet(self, tellings: Sequence[Telling], *, rest_seconds: float = STILL_SECONDS) -> bool:
        """Until nothing was written for so long; False if that does not come."""
        deadline = time.monotonic() + SECONDS
        written = -1
        while (now := sum(self.proxy.written(telling.namespace) for telling in tellings)) != written:
            if time.monotonic() > deadline:
                return False
            written = now
            time.sleep(rest_seconds)
        return True

    def verdict(
        self,
        tellings: Mapping[Telling, str],
        *,
        seconds: float = SECONDS,
        rest_seconds: float = STILL_SECONDS,
    ) -> list[str]:
        """What is wrong with those that were told to their end, each named by what was done to it.

        They end as the undisturbed did, and then nothing is written any more.
        """
        wrong = []
        self.wait_ended(list(tellings), seconds=seconds)
        self.check_alive()
        if not self.wait_quiet(list(tellings), rest_seconds=rest_seconds):
            wrong.append("it does not come to rest")
        for telling, what in tellings.items():
            differences = self.ended(telling)
            if differences:
                wrong.append(_lines(f"{telling}, {what} ({telling.namespace})", differences))
            elif why := self._wait_login(telling):
                wrong.append(f"{telling}, {what}: {why}")
        return wrong

    def _wait_login(self, telling: Telling) -> str:
        """A password that changed in a Secret changes no status: nothing says when the server has it."""
        deadline = time.monotonic() + LOGIN_SECONDS
        while (why := self._try_login(telling)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return why

    def _try_login(self, telling: Telling) -> str:
        password = telling.scenario.password
        if not password:
            return ""
        lets_in = partial(database.lets_in, self.files, user=telling.namespace)
        if password != FIRST and lets_in(password=FIRST):
            return "the password that was changed still lets in"
        return "" if lets_in(password=password) else "no login with the password that was asked for"


def _lines(head: str, lines: Sequence[str]) -> str:
    return "\n  ".join((f"{head} ended otherwise:", *lines))


@contextmanager
def stage(*, directory: Path) -> Iterator[Stage]:
    """Everything up, the operator's process started and nothing told yet."""
    types: list[ResourceType] = [REPLICA_SET]
    for kind in KINDS_BY_NAME.values():
        types += [type for type in (kind.type, *kind.children, *kind.watches) if type not in types]
    with (
        database.database() as files,
        cluster(directory=directory) as running,
        closing(Api(running.plane)) as api,
        proxy(
            running.operator_plane,
            directory=directory,
            database=Door(files.port, partial(let_the_operator_in, api, files)),
        ) as between,
        recorder(running.plane, types) as record,
    ):
        made = Stage(running, between, record, files, ALWAYS)
        made.start()
        try:
            yield made
        finally:
            made.stop()


def let_the_operator_in(api: Api, files: Files, namespace: str, pod: str) -> None:
    """As in a cluster, the superuser's password is the one in the Secret that the Pod mounts."""
    found = api.get(f"{NAMESPACES}/{namespace}/pods/{pod}")
    for volume in found.body["spec"]["volumes"] if found.status == 200 else ():
        if volume["name"] == "superuser":
            secret = api.get(f"{NAMESPACES}/{namespace}/secrets/{volume['secret']['secretName']}")
            if secret.status == 200:
                password = base64.b64decode(secret.body["data"]["password"]).decode()
                database.set_superuser_password(files, password)


class Progress:
    """Says how far a long sweep has come, how long it took, how long the rest will take, what is wrong."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._began = time.monotonic()
        self._done = self._told = 0

    def step(self, count: int, wrong: Sequence[str], words: str = "") -> None:
        """`wrong` is all that was found so far; each is told once."""
        for line in wrong[self._told :]:
            print(line, flush=True)
        self._told = len(wrong)
        self._done += count
        took = time.monotonic() - self._began
        left = took / max(1, self._done) * (self._total - self._done)
        head = f"{self._what}: {self._done} of {self._total}, {took:.0f} s, {left:.0f} s left"
        print(f"{head}; {len(wrong)} wrong{words}", flush=True)

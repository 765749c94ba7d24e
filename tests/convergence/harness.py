"""Where scenarios run, over and over: cluster, proxy, recorder, database, and the operator's process.

The first two runs are undisturbed and must end alike; every other, whatever was done to it, must end
as they did, with as many objects having come and gone on the way, and then stay so.
"""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kindling.kinds.base import Kind
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import Ref

from tests.apiserver.conftest import ENVIRONMENT
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, cluster, path
from tests.apiserver.support.kubelet import End
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.convergence import admin_api, backup_runs, database
from tests.convergence.database import Databases, databases
from tests.convergence.forward_target import ForwardTarget
from tests.convergence.mounts import admit_operator, mount_config, pod_of
from tests.convergence.progress import in_chunks
from tests.convergence.proxy import Proxy, Write, proxy
from tests.convergence.recorder import REPLICA_SET, Recorder, Snapshot, recorder
from tests.convergence.scenario import FIRST, Scenario

STILL_SECONDS = 2.5
"""Longer than any controller or the kubelet takes for its next step."""
SECONDS = 60.0
MANY_SECONDS = 180.0
"""For many scenarios at once, on a machine that does other things too."""
LEARNED_AT_ONCE = 16
"""The weight of the scenarios that go at once, each of them twice: they share a few database servers."""
LOGIN_SECONDS = 20.0
TRIES = 3
UNANSWERED = {
    "Reconciling", "LoginFailed", "NotResponding", "Running", "MembersUnknown", "MembersDiffer",
    "DatabaseNotReady", "NotVerifiedYet", "AccessDenied", "BackupNotFound",
}  # fmt: skip
"""Reasons of Ready that none of the scenarios begins or ends with: something is still to come."""
PROBED = {kind.type for kind in KINDS_BY_NAME.values() if type(kind).probes is not Kind.probes}
ALWAYS = {**ENVIRONMENT, "KINDLING_TUNNEL": "1"}
NAMESPACES = "/api/v1/namespaces"


@dataclass(frozen=True)
class ScenarioRun:
    """A run of a scenario in a namespace of its own."""

    scenario: Scenario
    namespace: str
    ref: Ref

    def __str__(self) -> str:
        return self.scenario.name


@dataclass(frozen=True, kw_only=True)
class ReferenceRun:
    """How a scenario goes by itself: before its act and in the end.

    `writes` and `events` are what the operator wrote and received after the act, the events counted by
    resource.
    """

    before: Snapshot
    end: Snapshot
    writes: Sequence[Write]
    events: Mapping[str, int]


@dataclass
class Harness:
    cluster: Cluster
    proxy: Proxy
    recorder: Recorder
    databases: Databases
    env: Mapping[str, str]
    settled_seconds: float = math.inf
    """For specs that are not known here: after so many seconds without a change, a resource is settled,
    whatever is still to come. One whose servers are asked is settled earlier only if it is Ready.
    """
    logs: Path | None = None
    """A folder for the logs of the operators, numbered in their order, if anybody wants them."""
    references: dict[str, ReferenceRun] = field(default_factory=dict)
    _process: OperatorProcess | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lives: Iterator[int] = field(default_factory=lambda: itertools.count(1))

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
        self.stop()
        self.start()

    def check_alive(self) -> None:
        """It ends by itself only if its lease runs out, after which it is started again."""
        assert self._process is not None
        ended = self._process.ended()
        assert ended in (None, -signal.SIGKILL), f"the operator ended of itself ({ended}):\n{self.log()}"

    def stop(self) -> None:
        if self.logs is not None and self._process is not None:
            (self.logs / f"operator-{next(self._lives):04}.log").write_text(self._process.log())
        self._stack.close()

    def log(self) -> str:
        assert self._process is not None
        return self._process.log()[-6000:]

    def open(self, scenario: Scenario) -> ScenarioRun:
        """Make the state before the act, in a new namespace."""
        namespace = self.cluster.namespace(f"sweep-{next(self._numbers):05}")
        if scenario.apart:
            self.databases.assign_own(namespace)
        return ScenarioRun(scenario, namespace, scenario.prepare(self.cluster, namespace))

    def act(self, run: ScenarioRun) -> None:
        run.scenario.act(self.cluster, run.ref)

    def close(self, runs: Sequence[ScenarioRun]) -> None:
        """Delete all runs. The resources go first: their namespace's deletion would reject their repair."""
        for run in runs:
            for ref in run.scenario.resources(run.namespace):
                self.cluster.api.delete(path(ref))
        for run in runs:
            self.cluster.api.delete(f"{NAMESPACES}/{run.namespace}")
        self.databases.drop(*(run.namespace for run in runs))

    def learn(self, scenarios: Sequence[Scenario]) -> None:
        """Let each scenario go undisturbed, twice, many at once.

        Again if the operator was restarted meanwhile: while no replica works, all looks settled too early.
        """
        new = [scenario for scenario in scenarios if scenario.name not in self.references]
        for group in in_chunks(new, LEARNED_AT_ONCE, weight=lambda scenario: scenario.weight):
            self._learn_undisturbed(group)

    def _learn_undisturbed(self, scenarios: Sequence[Scenario]) -> None:
        for _ in range(TRIES):
            assert self._process is not None
            process = self._process.process
            try:
                references = self._learn(scenarios)
            except AssertionError:
                if process is self._process.process:
                    raise
            else:
                if process is self._process.process:
                    self.references.update(references)
                    return
        raise AssertionError(f"the operator was restarted each time:\n{self.log()}")

    def _learn(self, scenarios: Sequence[Scenario]) -> dict[str, ReferenceRun]:
        pairs = [(self.open(scenario), self.open(scenario)) for scenario in scenarios]
        both = [run for pair in pairs for run in pair]
        seconds = MANY_SECONDS + (self.settled_seconds if self.settled_seconds < math.inf else 0)
        self.wait_still(both, seconds=seconds)
        for one, other in pairs:
            self._wait_alike(one, other, moment="before")
        before = {run.namespace: self.recorder.end(run.namespace) for run in both}
        prepared = {run.namespace: self.proxy.written(run.namespace) for run in both}
        seen = Counter(dict(self.proxy.streams.seen))
        for run in both:
            self.act(run)
        self.wait_still(both, seconds=seconds)
        references = {}
        for one, other in pairs:
            self._wait_alike(one, other, moment="in the end")
            longer = max(one, other, key=lambda run: self.proxy.written(run.namespace))
            events = Counter(dict(self.proxy.streams.seen)) - seen
            references[one.scenario.name] = ReferenceRun(
                before=before[one.namespace],
                end=self.recorder.end(one.namespace),
                writes=self.proxy.writes(longer.namespace)[prepared[longer.namespace] :],
                events={plural: n for (namespace, plural), n in events.items() if namespace == one.namespace},
            )
            assert not self._try_login(one)
            assert not (one.scenario.once and (again := self.recorder.end(one.namespace).repeated())), again
        self.close(both)
        return references

    def _wait_alike(self, one: ScenarioRun, other: ScenarioRun, *, moment: str) -> None:
        """On a slow machine one of them may be still because its next step is late."""
        deadline = time.monotonic() + SECONDS
        while differences := self.recorder.end(one.namespace).differs(self.recorder.end(other.namespace)):
            assert time.monotonic() < deadline, f"{one} {moment}: {differences}"
            time.sleep(0.1)

    def wait_still(self, runs: Sequence[ScenarioRun], *, seconds: float = SECONDS) -> None:
        """Until nothing has changed anywhere for long, and each resource that is there has its status."""
        began = time.monotonic()
        deadline = began + seconds
        for run in runs:
            while not self._is_still(run, since=began):
                found = self.cluster.get(run.ref)
                assert time.monotonic() < deadline, f"{run} is not still: {found}\n{self.log()}"
                time.sleep(0.1)

    def _is_still(self, run: ScenarioRun, *, since: float) -> bool:
        seconds = self.recorder.still_for(run.namespace)
        settled = min(seconds, time.monotonic() - since) >= self.settled_seconds
        return settled or (seconds >= STILL_SECONDS and self._reported(run))

    def _reported(self, run: ScenarioRun) -> bool:
        """A server's first answer comes when it comes, and what follows from it with it."""
        return all(self._is_reported(ref) for ref in run.scenario.resources(run.namespace))

    def _is_reported(self, ref: Ref) -> bool:
        found = self.cluster.get(ref)
        status = (found or {}).get("status") or {}
        if found is None or status.get("observedGeneration") != found["metadata"]["generation"]:
            return found is None
        ready = find_condition(status, "Ready")
        if self.settled_seconds < math.inf and ref.type in PROBED:
            return ready.get("status") == "True"
        return ready.get("reason") not in UNANSWERED

    def wait_prepared(self, runs: Sequence[ScenarioRun]) -> None:
        for run in runs:
            self.wait_end(run, self.references[run.scenario.name].before, seconds=MANY_SECONDS)

    def ended(self, run: ScenarioRun) -> list[str]:
        """In what it is otherwise than in the end of the undisturbed."""
        return self.recorder.end(run.namespace).differs(self.references[run.scenario.name].end)

    def wait_end(self, run: ScenarioRun, end: Snapshot, *, seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while differences := self.recorder.end(run.namespace).differs(end):
            assert time.monotonic() < deadline, _lines(f"{run}, {run.namespace}", differences)
            time.sleep(0.1)

    def wait_ended(self, runs: Sequence[ScenarioRun], *, seconds: float) -> None:
        """Until each has ended as it should, but no longer than that: `verdict` says so then."""
        deadline = time.monotonic() + seconds
        for run in runs:
            while self.ended(run) and time.monotonic() < deadline:
                time.sleep(0.1)

    def wait_quiet(self, runs: Sequence[ScenarioRun], *, steady_seconds: float = STILL_SECONDS) -> bool:
        """Until nothing was written for so long; False if that does not come."""
        deadline = time.monotonic() + SECONDS
        written = -1
        while (now := sum(self.proxy.written(run.namespace) for run in runs)) != written:
            if time.monotonic() > deadline:
                return False
            written = now
            time.sleep(steady_seconds)
        return True

    def verdict(
        self,
        runs: Mapping[ScenarioRun, str],
        *,
        seconds: float = SECONDS,
        steady_seconds: float = STILL_SECONDS,
    ) -> list[str]:
        """What is wrong with the runs that have ended, each named by what was done to it.

        They end as the undisturbed did, and then nothing is written any more.
        """
        wrong = []
        self.wait_ended(list(runs), seconds=seconds)
        self.check_alive()
        if not self.wait_quiet(list(runs), steady_seconds=steady_seconds):
            wrong.append("it reaches no steady state")
        for run, what in runs.items():
            # On a busy machine a server may not answer just now; what is written too much stays.
            self.wait_ended([run], seconds=seconds)
            differences = self.ended(run)
            if differences:
                wrong.append(_lines(f"{run}, {what} ({run.namespace})", differences))
            elif why := self._wait_login(run):
                wrong.append(f"{run}, {what}: {why}")
        return wrong

    def _wait_login(self, run: ScenarioRun) -> str:
        """A password that changed in a Secret changes no status: nothing says when the server has it."""
        deadline = time.monotonic() + LOGIN_SECONDS
        while (why := self._try_login(run)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return why

    def _try_login(self, run: ScenarioRun) -> str:
        password = run.scenario.password
        if not password:
            return ""
        lets_in = partial(database.lets_in, self.databases.of(run.namespace), user=run.namespace)
        if password != FIRST and lets_in(password=FIRST):
            return "the password that was changed still lets in"
        return "" if lets_in(password=password) else "no login with the password that was asked for"


def _lines(head: str, lines: Sequence[str]) -> str:
    return "\n  ".join((f"{head} ended otherwise:", *lines))


@contextmanager
def running_harness(
    *,
    directory: Path,
    apart: bool = False,
    end: End = backup_runs.end,
    env: Mapping[str, str] = {},
    settled_seconds: float = math.inf,
    logs: Path | None = None,
) -> Iterator[Harness]:
    """Everything up, the operator's process started and no scenario run yet.

    `apart`: each Pod of a database has a server of its own. `end`: how the Pods of Jobs end. `env` is the
    operator's, beside what it has always.
    """
    # Each once: two watches of a type would count everything twice.
    types = dict.fromkeys(
        type for kind in KINDS_BY_NAME.values() for type in (kind.type, *kind.children, *kind.watches)
    )
    apis: dict[int, Api] = {}  # one for each server, since a connection has one request at a time

    def enters(namespace: str, pod: str) -> None:
        files = servers.of(namespace, pod)
        if files.port not in apis:
            apis[files.port] = stack.enter_context(closing(Api(running.plane)))
        if (found := pod_of(apis[files.port], namespace, pod)) is None:
            return
        admit_operator(apis[files.port], files, found)
        if apart:
            mount_config(apis[files.port], servers, found)

    with (
        admin_api.running(),
        databases(apart=apart) as servers,
        cluster(directory=directory, end=end) as running,
        ExitStack() as stack,
        proxy(
            running.operator_plane,
            directory=directory,
            database=ForwardTarget(lambda namespace, pod: servers.of(namespace, pod).port, enters),
        ) as between,
        recorder(running.plane, [REPLICA_SET, *types]) as record,
    ):
        made = Harness(running, between, record, servers, {**ALWAYS, **env}, settled_seconds, logs)
        made.start()
        try:
            yield made
        finally:
            made.stop()

"""The jobs that a workflow makes of an event: in their order, each with all its inputs.

`Perform` runs a job; here is decided which job runs, after which others, with which secrets and rights.
A key of a workflow that is not known here is an error and not passed over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.pipelines.expressions import Open, Scope, as_text
from tests.pipelines.github import Environment, Event, Json, Repository

CALLED = "./.github/workflows/"
TOKEN = "GITHUB_TOKEN"
# Of a repository whose workflows are not said to have more.
READING = {"contents": "read", "packages": "read"}
RIGHTS = ("none", "read", "write")
_TOP = {"name", "on", "permissions", "concurrency", "jobs", "env", "run-name"}
_JOB = {
    "name", "if", "needs", "runs-on", "timeout-minutes", "environment", "strategy", "steps", "permissions",
    "env", "outputs", "concurrency", "uses", "with", "secrets",
}  # fmt: skip


class WorkflowError(Exception):
    """A workflow that says something that GitHub, or this reading of it, does not know."""


@dataclass(frozen=True)
class Job:
    """One job that runs: `id` as `preview (dev)`, or `up-dev / up` for one of a called workflow.

    `contexts` are those that its steps see, but for what only the runner knows. `environment` is the name, or
    empty. `permissions` are those of its token.
    """

    id: str
    steps: tuple[Json, ...]
    contexts: Mapping[str, Any]
    environment: str
    permissions: Mapping[str, str]
    env: Mapping[str, Any]
    outputs: Mapping[str, str]
    minutes: float
    group: str


@dataclass(frozen=True)
class Result:
    """How a job ended: success, failure, skipped or cancelled."""

    result: str
    outputs: Mapping[str, str] = field(default_factory=dict)


Perform = Callable[[Job], Result]


def load(folder: Path) -> dict[str, Json]:
    """The workflows of a checkout, by their file's name without its ending."""
    found = {}
    for file in sorted((folder / ".github" / "workflows").glob("*.y*ml")):
        content = yaml.safe_load(file.read_text())
        # YAML reads the word `on` as true.
        triggers = content.pop(True)
        asked = [triggers] if isinstance(triggers, str) else triggers
        content["on"] = asked if isinstance(asked, dict) else dict.fromkeys(asked)
        _known(content, _TOP, file.name)
        found[file.stem] = content
    return found


class Run:
    """What one event starts. `given` are jobs, by their ids in the file, that are said to have ended so."""

    def __init__(
        self,
        workflows: Mapping[str, Json],
        repository: Repository,
        event: Event,
        perform: Perform,
        *,
        given: Mapping[str, str] | None = None,
    ) -> None:
        self._workflows = workflows
        self._repository = repository
        self._event = event
        self._perform = perform
        self._given = given or {}
        self.results: dict[str, Result] = {}
        """By the job's id, in the order in which they ended."""

    def everything(self) -> dict[str, str]:
        """Run the workflows that the event starts; how each job ended."""
        for name, workflow in self._workflows.items():
            if self._event.starts(name, workflow["on"]):
                self._workflow(name, workflow, inputs=dict(self._event.inputs), secrets=None, rights=None)
        return {id: result.result for id, result in self.results.items()}

    def _workflow(
        self,
        name: str,
        workflow: Json,
        *,
        inputs: Json,
        secrets: Mapping[str, str] | None,
        rights: Mapping[str, str] | None,
        caller: str = "",
        group: str = "",
    ) -> Result:
        """Its jobs, each after those that it needs. `secrets` and `rights` are what a caller lets it have."""
        called = workflow["on"].get("workflow_call" if caller else "workflow_dispatch") or {}
        outer = _Outer(self, name, workflow, _inputs(called, inputs, name), secrets, rights, caller, group)
        ended: dict[str, Result] = {}
        for id in _in_order(workflow["jobs"], name):
            job = workflow["jobs"][id]
            _known(job, _JOB, f"{name}.yml, job {id}")
            ended[id] = outer.job(id, job, ended)
        outputs = Scope({**outer.base, "jobs": {id: _need(result) for id, result in ended.items()}})
        said = {key: as_text(outputs.value(each["value"])) for key, each in called.get("outputs", {}).items()}
        return Result(_together(result.result for result in ended.values()), said)


class _Outer:
    """One workflow at work: what all of its jobs have in common."""

    def __init__(
        self,
        run: Run,
        name: str,
        workflow: Json,
        inputs: Json,
        secrets: Mapping[str, str] | None,
        rights: Mapping[str, str] | None,
        caller: str,
        group: str,
    ) -> None:
        self._run = run
        self._workflow = workflow
        self._secrets = secrets
        self._rights = rights
        self._caller = caller
        self._group = group
        github = {**run._event.context(run._repository.name), "workflow": workflow.get("name", name)}
        self.base = {"github": github, "inputs": inputs, "vars": Open(run._repository.variables)}

    def job(self, id: str, job: Json, ended: Mapping[str, Result]) -> Result:
        """All that a job of the file becomes, by its matrix or by a call; also kept in the run's results."""
        needs = {need: ended[need] for need in _listed(job.get("needs"))}
        contexts = {**self.base, "needs": {need: _need(result) for need, result in needs.items()}}
        shown = f"{self._caller}{id}"
        if (said := self._run._given.get(id)) is not None and not self._caller:
            return self._keep(shown, Result(said))
        before = [ended[name].result for name in _ancestors(self._workflow["jobs"], id)]
        # One that was skipped, however far back, is no success.
        status = "skipped" if set(before) - {"success"} == {"skipped"} else _together(before or ["success"])
        if not Scope(contexts, status=status).holds(job.get("if")):
            return self._keep(shown, Result("skipped"))
        results: list[Result] = []
        strategy = job.get("strategy", {})
        for values in _matrix(Scope(contexts).value(strategy.get("matrix", {}))):
            name = f"{shown} ({', '.join(map(as_text, values.values()))})" if values else shown
            stopped = strategy.get("fail-fast", True) and any(r.result == "failure" for r in results)
            result = Result("cancelled") if stopped else self._one(name, job, {**contexts, "matrix": values})
            results.append(self._keep(name, result))
        outputs = {key: value for result in results for key, value in result.outputs.items()}
        return Result(_together(result.result for result in results), outputs)

    def _keep(self, id: str, result: Result) -> Result:
        self._run.results[id] = result
        return result

    def _one(self, id: str, job: Json, contexts: Json) -> Result:
        rights = self._permissions(job)
        Scope(contexts).fill(f"{job.get('name', '')} {job.get('runs-on', '')}")
        said = job.get("concurrency", "")
        group = Scope(contexts).fill(said["group"] if isinstance(said, dict) else said) or self._group
        if "uses" in job:
            return self._call(id, job, contexts, rights, group)
        place = job.get("environment", "")
        name = Scope(contexts).fill(place["name"] if isinstance(place, dict) else place)
        settings = self._run._repository.environments.get(name, Environment()) if name else Environment()
        if settings.branches and self._run._event.ref not in [f"refs/heads/{b}" for b in settings.branches]:
            # GitHub does not start it.
            return Result("failure")
        secrets = {**self._given_secrets(), **(settings.secrets if self._reaches() else {})}
        contexts["vars"] = Open({**contexts["vars"], **settings.variables})
        secrets[TOKEN] = f"token of {id}"
        contexts["github"] = {**contexts["github"], "token": secrets[TOKEN], "job": id.rpartition(" / ")[2]}
        whole = {**contexts, "secrets": Open(secrets)}
        scope = Scope(whole)
        return self._run._perform(
            Job(
                id,
                tuple(job["steps"]),
                whole,
                name,
                rights,
                {**scope.value(self._workflow.get("env", {})), **scope.value(job.get("env", {}))},
                job.get("outputs", {}),
                job.get("timeout-minutes", 360),
                group,
            )
        )

    def _reaches(self) -> bool:
        """Whether an environment's secrets do: not in a stranger's run, or a call that hands on none."""
        return self._run._event.trusted and (not self._caller or self._secrets is not None)

    def _given_secrets(self) -> dict[str, str]:
        if not self._run._event.trusted:
            return {}
        return dict(self._run._repository.secrets if not self._caller else self._secrets or {})

    def _permissions(self, job: Json) -> Mapping[str, str]:
        """A called workflow has at most what its caller has, a stranger's run reads at most."""
        asked = job.get("permissions", self._workflow.get("permissions", self._rights or READING))
        if not isinstance(asked, dict):
            raise WorkflowError(f"permissions: {asked}: name each")
        for name, right in asked.items():
            if self._rights is not None and RIGHTS.index(right) > RIGHTS.index(
                self._rights.get(name, "none")
            ):
                raise WorkflowError(f"{self._caller}: it asks for {name}: {right}, which its caller has not")
        if self._run._event.trusted:
            return dict(asked)
        return {name: "read" for name, right in asked.items() if right != "none" and name != "id-token"}

    def _call(self, id: str, job: Json, contexts: Json, rights: Mapping[str, str], group: str) -> Result:
        uses = str(job["uses"])
        if not uses.startswith(CALLED):
            raise WorkflowError(f"{id}: {uses} is no workflow of this repository")
        name = Path(uses).stem
        if name not in self._run._workflows:
            raise WorkflowError(f"{id}: there is no {uses}")
        own = self._given_secrets()
        handed = job.get("secrets")
        secrets = own if handed == "inherit" else None
        if isinstance(handed, dict):
            secrets = Scope({**contexts, "secrets": Open(own)}).value(handed)
        inputs = Scope(contexts).value(job.get("with", {}))
        return self._run._workflow(
            name,
            self._run._workflows[name],
            inputs=inputs,
            secrets=secrets,
            rights=rights,
            caller=f"{id} / ",
            group=group,
        )


def _inputs(asked: Json, given: Json, name: str) -> Json:
    """What a workflow is given, with its defaults; both sides must know each."""
    wanted: Json = asked.get("inputs") or {}
    if unknown := set(given) - set(wanted):
        raise WorkflowError(f"{name}.yml has no input {', '.join(sorted(unknown))}")
    if missing := [key for key, each in wanted.items() if each.get("required") and key not in given]:
        raise WorkflowError(f"{name}.yml wants the input {', '.join(missing)}")
    return {key: given.get(key, (each or {}).get("default", "")) for key, each in wanted.items()}


def _known(found: Json, words: set[str], where: str) -> None:
    if unknown := set(found) - words:
        raise WorkflowError(f"{where}: {', '.join(sorted(unknown))} is not known here")


def _listed(needs: str | list[str] | None) -> list[str]:
    return [needs] if isinstance(needs, str) else needs or []


def _ancestors(jobs: Json, id: str) -> list[str]:
    direct = _listed(jobs[id].get("needs"))
    return list(dict.fromkeys([*direct, *itertools.chain(*(_ancestors(jobs, need) for need in direct))]))


def _in_order(jobs: Json, name: str) -> Iterator[str]:
    """Each after those that it needs."""
    done: list[str] = []
    while len(done) < len(jobs):
        ready = [id for id in jobs if id not in done and set(_listed(jobs[id].get("needs"))) <= set(done)]
        if not ready:
            raise WorkflowError(f"{name}.yml: of {', '.join(set(jobs) - set(done))} none can begin")
        done.append(ready[0])
        yield ready[0]


def _matrix(matrix: Json) -> list[Json]:
    if odd := {"include", "exclude"} & set(matrix):
        raise WorkflowError(f"matrix: {', '.join(odd)} is not known here")
    return [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]


def _need(result: Result) -> Json:
    return {"result": result.result, "outputs": Open(result.outputs)}


def _together(results: Iterable[str]) -> str:
    """What several come to: failure where one failed, skipped where nothing but that happened."""
    found = set(results)
    return next((word for word in ("failure", "cancelled", "success") if word in found), "skipped")

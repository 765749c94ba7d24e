"""Runs a job: a new machine for each, its steps one after the other as GitHub's runner does it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.pipelines import actions, root
from tests.pipelines.actions import Call, Hosting
from tests.pipelines.expressions import Open, Scope, as_text
from tests.pipelines.github import Event, Json
from tests.pipelines.root import HOME, UID, Runner
from tests.pipelines.workflow import Job, Result

WORK = HOME / "work"
TEMP = WORK / "_temp"
_STEP = {"name", "id", "if", "uses", "run", "with", "env", "working-directory", "shell", "continue-on-error"}
# https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax, `shell`
_SHELLS = {"": ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}
_FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")


class Machines:
    """For one run of an event. `logs` are what each job said, by its id; `env` is laid over each step's.

    `more` are words that are put behind a `run:` that ends so, for a job that is too long as a whole.
    """

    def __init__(
        self,
        folder: Path,
        hosting: Hosting,
        event: Event,
        *,
        env: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
        seconds: float = 240.0,
    ) -> None:
        self._folder = folder
        self._hosting = hosting
        self._event = event
        self._env = env or {}
        self._seconds = seconds
        self._more = more or {}
        self._numbers = itertools.count()
        self.logs: dict[str, str] = {}
        self.workspaces: dict[str, Path] = {}

    def __call__(self, job: Job) -> Result:
        folder = self._folder / f"job-{next(self._numbers)}"
        work = folder / "work"
        (work / TEMP.name).mkdir(parents=True)
        lent = {str(WORK): str(work), actions.LENT_SCRIPT: str(actions.script_packages())}
        runner = Runner(root.location(), folder / "layers", lent=lent)
        at_work = _AtWork(
            job,
            self._hosting,
            self._event,
            runner,
            work,
            folder / "log",
            self._env,
            self._more,
            self._seconds,
        )
        _give(work)
        try:
            return at_work.result()
        finally:
            log = folder / "log"
            self.logs[job.id] = log.read_text(errors="replace") if log.exists() else ""
            self.workspaces[job.id] = at_work.workspace
            # What the job wrote beside its workspace may be much.
            for layers in folder.glob("layers*"):
                shutil.rmtree(layers, ignore_errors=True)


@dataclass
class _AtWork:
    job: Job
    hosting: Hosting
    event: Event
    runner: Runner
    work: Path
    log: Path
    over: Mapping[str, str]
    more: Mapping[str, str]
    seconds: float
    status: str = "success"
    steps: Json = field(default_factory=dict)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    added: dict[str, str] = field(default_factory=dict)

    @property
    def repository(self) -> str:
        return str(self.job.contexts["github"]["repository"])

    @property
    def workspace(self) -> Path:
        name = self.repository.rpartition("/")[2]
        return self.work / name / name

    def result(self) -> Result:
        token = self.job.contexts["secrets"]["GITHUB_TOKEN"]
        self.hosting.api.rights[token] = self.job.permissions
        self.workspace.mkdir(parents=True)
        _give(self.workspace.parent)
        _give(self.workspace)
        event = self.work / TEMP.name / "event.json"
        event.write_text(json.dumps(self.event.payload))
        for number, step in enumerate(self.job.steps):
            self._step(number, step)
        if self.status == "success":
            for each in reversed(self.afterwards):
                each()
        outputs = {key: self._scope({}).fill(each) for key, each in self.job.outputs.items()}
        return Result(self.status, outputs)

    def _scope(self, env: Mapping[str, str]) -> Scope:
        runner = {
            "os": "Linux",
            "arch": "X64",
            "temp": str(TEMP),
            "name": "runner",
            "environment": "github-hosted",
        }
        contexts = {
            **self.job.contexts,
            "github": {**self.job.contexts["github"], "workspace": self._inside(self.workspace)},
            "runner": runner,
            "steps": self.steps,
            "env": Open(env),
            "job": {"status": self.status},
        }
        return Scope(contexts, status=self.status, workspace=self.workspace)

    def _step(self, number: int, step: Json) -> None:
        if unknown := set(step) - _STEP:
            raise actions.ActionError(
                f"{self.job.id}: a step's {', '.join(sorted(unknown))} is not known here"
            )
        outer = {**{key: as_text(each) for key, each in self.job.env.items()}, **self.added}
        env = {**outer, **_texts(self._scope(outer).value(step.get("env", {})))}
        scope = self._scope(env)
        result = "skipped"
        outputs: dict[str, str] = {}
        if scope.holds(step.get("if")):
            files = {name: self.work / TEMP.name / f"{name}-{number}" for name in _FILES}
            for file in files.values():
                file.touch()
                _give(file)
            variables = {**env, **self._variables(files), **self.over}
            failed = self._act(step, scope, variables, outputs) != 0
            outputs |= _read(files["GITHUB_OUTPUT"])
            self.added |= _read(files["GITHUB_ENV"])
            result = "failure" if failed else "success"
        passes = scope.value(step.get("continue-on-error", False))
        if result == "failure" and not passes:
            self.status = "failure"
        if "id" in step:
            conclusion = "success" if result == "failure" and passes else result
            self.steps[step["id"]] = {"outputs": Open(outputs), "outcome": result, "conclusion": conclusion}

    def _act(self, step: Json, scope: Scope, env: Mapping[str, str], outputs: dict[str, str]) -> int:
        if "run" in step:
            return self._run(step, scope, env)
        given = _texts(scope.value(step.get("with", {})))
        call = Call(
            {key: each for key, each in given.items() if each},
            self.hosting,
            self.runner,
            self.workspace,
            self.work,
            self.runner.layers,
            self.event.sha,
            {**env, "GITHUB_TOKEN_OF_JOB": self.job.contexts["secrets"]["GITHUB_TOKEN"]},
            lambda words, more: self._program(words, {**env, **more}),
            self.afterwards,
        )
        status = actions.perform(step["uses"], call)
        outputs |= call.outputs
        return status

    def _run(self, step: Json, scope: Scope, env: Mapping[str, str]) -> int:
        script = self.work / TEMP.name / "step.sh"
        line = scope.fill(step["run"]).rstrip()
        behind = [words for end, words in self.more.items() if line.endswith(end)]
        script.write_text(" ".join([line, *behind]))
        _give(script)
        words = [*_SHELLS[step.get("shell", "")], self._inside(script)]
        return self._program(words, env, Path(scope.fill(step.get("working-directory", "."))))

    def _program(self, words: Sequence[str], env: Mapping[str, str], folder: Path = Path(".")) -> int:
        cwd = Path(self._inside(self.workspace), folder)
        return self.runner.run(words, cwd=cwd, env=env, log=self.log, timeout=self.seconds)

    def _inside(self, path: Path) -> str:
        """A path below `work` as the runner sees it."""
        return str(WORK / path.relative_to(self.work))

    def _variables(self, files: Mapping[str, Path]) -> dict[str, str]:
        """What every step finds in its environment."""
        github: Mapping[str, Any] = self.job.contexts["github"]
        names = (
            "actor event_name ref ref_name ref_type head_ref base_ref sha repository repository_owner run_id "
            "run_number run_attempt server_url workflow job"
        )
        return {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            **{f"GITHUB_{name.upper()}": str(github[name]) for name in names.split()},
            "GITHUB_API_URL": self.hosting.api.url,
            "GITHUB_WORKSPACE": self._inside(self.workspace),
            "GITHUB_EVENT_PATH": str(TEMP / "event.json"),
            "RUNNER_OS": "Linux",
            "RUNNER_ARCH": "X64",
            "RUNNER_TEMP": str(TEMP),
            **{name: self._inside(file) for name, file in files.items()},
        }


def _texts(values: Json) -> dict[str, str]:
    return {key: as_text(value) for key, value in values.items()}


def _give(path: Path) -> None:
    os.chown(path, UID, UID)
    for below in path.rglob("*") if path.is_dir() else ():
        os.chown(below, UID, UID, follow_symlinks=False)


def _read(file: Path) -> dict[str, str]:
    """What a step put out: NAME=VALUE, or NAME<<MARK, lines, MARK."""
    text = file.read_text()
    found = dict(re.findall(r"^(\w[\w-]*)=(.*)$", text, re.MULTILINE))
    several = re.findall(r"^(\w[\w-]*)<<(\S+)\n(.*?)\n?^\2$", text, re.MULTILINE | re.DOTALL)
    return {**found, **{name: value for name, _, value in several}}

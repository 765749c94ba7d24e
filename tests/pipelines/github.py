"""What GitHub knows when a run begins: the repository with its settings, and what happened in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from tests.pipelines.expressions import Open

MAIN = "refs/heads/main"
NAME = "example/kindling"
DEPENDABOT = "dependabot[bot]"
PULL_REQUEST_TYPES = ("opened", "synchronize", "reopened")

Json = dict[str, Any]


@dataclass(frozen=True)
class Environment:
    """Under Settings, Environments; `branches` are those that may use it, none named means all."""

    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    branches: Sequence[str] = ()


@dataclass(frozen=True)
class Repository:
    """A repository's own settings. An environment that nobody made is one with nothing in it."""

    name: str = NAME
    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    environments: Mapping[str, Environment] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """What happened: `payload` is the content of the file at GITHUB_EVENT_PATH.

    Who is not `trusted` gets no secrets, and a token that may read alone.
    """

    name: str
    sha: str
    ref: str = MAIN
    actor: str = "maintainer"
    payload: Json = field(default_factory=dict)
    trusted: bool = True
    inputs: Mapping[str, Any] = field(default_factory=dict)
    changed: Sequence[str] = ()
    """The files that a push has changed."""
    workflow: str = ""
    """That is started by hand, by its file's name without the ending."""

    @property
    def branch(self) -> str:
        """The branch's name; that of the base for a pull request."""
        if self.name == "pull_request":
            return str(self.payload["pull_request"]["base"]["ref"])
        return self.ref.removeprefix("refs/heads/")

    def starts(self, name: str, triggers: Json) -> bool:
        """Whether the `on:` of the workflow of this name asks for it.

        Raises `NotImplementedError` for a filter that is not known here.
        """
        if self.name not in triggers or self.workflow not in ("", name):
            return False
        asked = triggers[self.name]
        if self.name == "schedule":
            return True
        asked = asked or {}
        if unknown := set(asked) - {"branches", "paths", "types", "inputs"}:
            raise NotImplementedError(f"on.{self.name}: {', '.join(sorted(unknown))}")
        if self.branch not in asked.get("branches", [self.branch]):
            return False
        paths = asked.get("paths", [])
        if paths and not any(fnmatch(file, path) for file in self.changed for path in paths):
            return False
        return self.name != "pull_request" or self.payload["action"] in asked.get("types", PULL_REQUEST_TYPES)

    def context(self, repository: str) -> Json:
        """The context `github`, as far as it is the same in all jobs."""
        request = self.payload.get("pull_request", {})
        return {
            "actor": self.actor,
            "triggering_actor": self.actor,
            "event": Open(self.payload),
            "event_name": self.name,
            "ref": self.ref,
            "ref_name": self.ref.removeprefix("refs/heads/").removeprefix("refs/"),
            "ref_type": "branch",
            "head_ref": request.get("head", {}).get("ref", ""),
            "base_ref": request.get("base", {}).get("ref", ""),
            "sha": self.sha,
            "repository": repository,
            "repository_owner": repository.partition("/")[0],
            "run_id": "1",
            "run_number": "1",
            "run_attempt": "1",
            "server_url": "https://github.com",
        }


def push(sha: str, *, branch: str = "main", changed: Sequence[str] = ()) -> Event:
    payload = {"ref": f"refs/heads/{branch}", "after": sha}
    return Event("push", sha, ref=f"refs/heads/{branch}", payload=payload, changed=changed)


def pull_request(
    sha: str, *, number: int = 7, actor: str = "maintainer", fork: bool = False, action: str = "opened"
) -> Event:
    """By whoever; neither a fork's nor Dependabot's has secrets."""
    head = "somebody/kindling" if fork else NAME
    payload: Json = {
        "action": action,
        "number": number,
        "pull_request": {
            "number": number,
            "head": {"ref": "topic", "sha": sha, "repo": {"full_name": head, "fork": fork}},
            "base": {"ref": "main", "repo": {"full_name": NAME}},
            "user": {"login": actor},
            "draft": False,
        },
    }
    trusted = not fork and actor != DEPENDABOT
    return Event("pull_request", sha, f"refs/pull/{number}/merge", actor, payload, trusted)


def schedule(sha: str) -> Event:
    return Event("schedule", sha, payload={"schedule": "17 3 * * *"})


def dispatch(sha: str, workflow: str, *, branch: str = "main", **inputs: Any) -> Event:
    """By hand."""
    payload = {"inputs": inputs}
    ref = f"refs/heads/{branch}"
    return Event("workflow_dispatch", sha, ref, payload=payload, inputs=inputs, workflow=workflow)

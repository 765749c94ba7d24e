"""A change of one file as a pull request: a branch, a commit, a push, one call of GitHub's API.

The checkout is left alone: the branch is made in a worktree of its own, from what the remote has today.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from infra import paths, processes, promotion
from infra.drivers import git
from infra.errors import KindlingError
from infra.release import SHORT, Release

REMOTE = "origin"
API = "https://api.github.com"
SERVER = "https://github.com"
VERSION = "2022-11-28"
SECONDS = 30.0
MOST_COMMITS = 50
# GitHub's answer where there is an open one for the branch.
UNPROCESSABLE = 422


@dataclass(frozen=True)
class Forge:
    """GitHub, by GITHUB_API_URL, GITHUB_REPOSITORY (OWNER/NAME) and GITHUB_TOKEN; the first has a default."""

    api: str
    repository: str
    token: str

    @property
    def login(self) -> dict[str, str]:
        """Variables with which Git sends the token by HTTP; it is on no command line, and in no file."""
        word = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        server = os.environ.get("GITHUB_SERVER_URL", SERVER).rstrip("/")
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{server}/.extraheader",
            "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {word}",
        }


def forge() -> Forge:
    """Raises `KindlingError` for the first variable that is missing."""
    for variable, means in (
        ("GITHUB_TOKEN", "who asks; it wants the rights contents: write and pull-requests: write"),
        ("GITHUB_REPOSITORY", "whose pull request it is, as OWNER/NAME"),
    ):
        if not os.environ.get(variable):
            raise KindlingError(
                f"{variable} is not set, or empty",
                why=f"it says {means}",
                remedy=f"set {variable}, or promote without --pull-request and commit the file yourself.",
            )
    api = os.environ.get("GITHUB_API_URL") or API
    return Forge(api.rstrip("/"), os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])


@contextmanager
def branch_off(forge: Forge) -> Iterator[tuple[Path, str]]:
    """A worktree of the remote's main branch as it is there now, and that branch's name."""
    output = git.run("ls-remote", "--symref", REMOTE, "HEAD", folder=paths.REPOSITORY, extra=forge.login)
    base = next((line.split()[1] for line in output.splitlines() if line.startswith("ref:")), "")
    base = base.removeprefix("refs/heads/")
    if not base:
        raise KindlingError(
            f"the remote `{REMOTE}` has no main branch",
            why=output or "it is empty",
            remedy="push one, then promote.",
        )
    git.run("fetch", "--quiet", REMOTE, base, folder=paths.REPOSITORY, extra=forge.login)
    with tempfile.TemporaryDirectory(prefix="kindling-promote-") as folder:
        root = Path(folder, "checkout")
        git.run("worktree", "add", "--quiet", "--detach", root, "FETCH_HEAD", folder=paths.REPOSITORY)
        try:
            yield root, base
        finally:
            with suppress(processes.ProgramError):
                git.run("worktree", "remove", "--force", root, folder=paths.REPOSITORY)


def propose(
    forge: Forge, root: Path, *, base: str, target: str, before: Release | None, after: Release, file: Path
) -> None:
    """Commit the file, push the branch and open the pull request, or say that it is open already.

    :raises KindlingError: where the remote or GitHub refuses, with its own message.
    """
    branch = f"promote/{target}/{after.commit[:SHORT]}"
    title = f"{target}: the release of {after.source} at {after.commit[:SHORT]}"
    git.run("add", "--", file, folder=root)
    git.run("commit", "--quiet", "--message", title, "--", file, folder=root, extra=_author(root))
    # The branch is ours by its name; one that a run left behind is overwritten.
    push = ("push", "--quiet", "--force", REMOTE, f"HEAD:refs/heads/{branch}")
    git.run(*push, folder=root, extra=forge.login)
    page = promotion.page(target, before, after, commits=_commits(before, after))
    _open(forge, {"title": title, "head": branch, "base": base, "body": page})


def _commits(before: Release | None, after: Release) -> list[str]:
    """What the new release has and the old one has not, as far as this clone knows."""
    if before is None or not all(
        git.resolve(each.commit, folder=paths.REPOSITORY) for each in (before, after)
    ):
        return []
    between = f"{before.commit}..{after.commit}"
    output = git.run("log", f"-{MOST_COMMITS}", "--format=%h %s", between, folder=paths.REPOSITORY)
    return output.splitlines()


def _author(root: Path) -> dict[str, str]:
    """Whoever Git says, else the user that runs the workflow."""
    actor = os.environ.get("GITHUB_ACTOR", "")
    try:
        git.run("config", "user.email", folder=root)
    except processes.ProgramError:
        if actor:
            name, address = actor, f"{actor}@users.noreply.github.com"
            return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                    for what, value in (("NAME", name), ("EMAIL", address))}  # fmt: skip
    return {}


def _open(forge: Forge, content: dict[str, str]) -> None:
    request = urllib.request.Request(
        f"{forge.api}/repos/{forge.repository}/pulls",
        data=json.dumps(content).encode(),
        method="POST",
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {forge.token}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": VERSION,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            print(f"Pull request: {json.load(answer)['html_url']}")
    except urllib.error.HTTPError as error:
        with error:
            message = error.read().decode(errors="replace")
        if error.code == UNPROCESSABLE and "already exists" in message:
            print(f"The pull request of branch {content['head']} is open already, and has the change.")
            return
        raise KindlingError(
            f"GitHub opened no pull request for branch {content['head']} of {forge.repository}",
            why=f"{request.full_url} answers with status {error.code}: {_message(message)}",
            remedy="the branch is pushed: open it by hand; or give the token the right pull-requests: write, "
            "allow Actions to create pull requests (Settings, Actions, General), and run it again.",
        ) from None
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise KindlingError(
            f"GitHub's API at {forge.api} does not answer as it should",
            why=str(getattr(error, "reason", error)),
            remedy="check GITHUB_API_URL and the network, then run it again; the branch is pushed.",
        ) from None


def _message(message: str) -> str:
    """GitHub's sentence, of its JSON."""
    try:
        found = json.loads(message)
    except ValueError:
        return message[:200]
    errors = [each.get("message", "") for each in found.get("errors", []) if isinstance(each, dict)]
    return " ".join(filter(None, [str(found.get("message", "")), *errors]))

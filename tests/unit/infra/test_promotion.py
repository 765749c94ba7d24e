"""`promote`, as far as it needs no Pulumi: by the command line in a real clone, with a real remote.

What a stack was proven with is promoted in tests/apiserver/test_releases.py. GitHub's API is a small server
here, which speaks the one endpoint that is asked.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from infra import promotion, release
from infra.cli import pull_request
from infra.promotion import ImageChange, changes
from infra.release import Release
from tests.unit.infra.cli_machine import Machine, new_machine
from tests.unit.infra.repository import commit, git

TOKEN = "canary-token"
PROD = """\
config:
  kindling:cluster: existing
  kindling:context: ours
  kindling:imageSource: promoted
"""


def ref(name: str, letter: str = "a") -> str:
    return f"registry.example:5000/kindling/kindling-{name}@sha256:{letter * 64}"


def of(letter: str, source: str = "staging") -> Release:
    images = {"operator": ref("operator", letter), "postgres": ref("postgres")}
    return Release(letter * 40, letter * 64, images, source)


@dataclass
class GitHub:
    """What was asked of it; `status` and `answer` are given to each."""

    api: str
    status: int = 201
    answer: Any = field(default_factory=lambda: {"html_url": "https://github.example/k/k/pull/7"})
    asked: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def github() -> Iterator[GitHub]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known.asked.append({"path": self.path, "headers": dict(self.headers), **content})
            answer = json.dumps(known.answer).encode()
            self.send_response(known.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known = GitHub(f"http://127.0.0.1:{server.server_port}/api")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield known
        server.shutdown()


@dataclass
class Clone:
    """A clone with the command line in it, its remote, and releases in its history: a, b, and c of `eu`."""

    machine: Machine
    remote: Path

    @property
    def folder(self) -> Path:
        return self.machine.checkout

    @property
    def file(self) -> Path:
        return self.folder / "releases" / "prod.json"

    def write(self, found: Release) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(release.written(found))
        commit(self.folder, f"prod: {found.commit[:4]}")

    def promote(self, *words: str, status: int = 0) -> str:
        done = self.machine.cli("promote", "staging", "prod", *words)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert TOKEN not in done.stdout + done.stderr
        return done.stderr if status else done.stdout

    def branches(self) -> set[str]:
        return set(git(self.remote, "branch", "--format=%(refname:short)").split())


@pytest.fixture
def clone(tmp_path: Path, github: GitHub) -> Clone:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch", "main", str(remote))
    machine = new_machine(tmp_path)
    machine.extra |= {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "GITHUB_API_URL": github.api,
        "GITHUB_REPOSITORY": "k/kindling",
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_ACTOR": "ada",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    (machine.checkout / "Pulumi.prod.yaml").write_text(PROD)
    (machine.checkout / ".gitignore").write_text("__pycache__/\n")
    git(machine.checkout, "init", "--quiet", "--initial-branch", "main")
    git(machine.checkout, "remote", "add", "origin", str(remote))
    commit(machine.checkout)
    made = Clone(machine, remote)
    for found in (of("a"), of("b"), of("c", source="eu"), of("b")):
        made.write(found)
    git(machine.checkout, "push", "--quiet", "origin", "main")
    return made


def test_what_differs_is_reported_by_name() -> None:
    before = {"a": ref("a"), "b": ref("b"), "c": ref("c")}
    after = {"a": ref("a"), "b": ref("b", "f"), "d": ref("d")}
    assert changes(before, after) == [
        ImageChange("b", ref("b"), ref("b", "f")),
        ImageChange("c", ref("c"), ""),
        ImageChange("d", "", ref("d")),
    ]


def test_the_release_before_is_taken_of_gits_history(clone: Clone) -> None:
    reported = clone.promote("--release", "aaaa")
    assert release.parse(clone.file.read_text(), name="x") == of("a")
    operator = "registry.example:5000/kindling/kindling-operator@sha256"
    assert reported.splitlines() == [
        "releases/prod.json now has the release of stack staging:",
        "  commit: bbbbbbbbbbbb -> aaaaaaaaaaaa",
        f"  operator: {operator}:bbbbbbbbbbbb -> {operator}:aaaaaaaaaaaa",
        "Next: commit releases/prod.json",
        "The way back: python3 -m infra promote staging prod --release bbbbbbbbbbbb",
    ]
    assert git(clone.folder, "status", "--porcelain") == "M releases/prod.json"
    assert "nothing was written" in clone.promote("--release", "aaaa")


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        ("0123", "`0123` names no release of stack `prod`"),
        # That one was proven on another stack.
        ("cccc", "`cccc` names no release of stack `prod`"),
    ],
)
def test_a_release_that_never_was_is_not_taken(clone: Clone, wanted: str, what: str) -> None:
    reported = clone.promote("--release", wanted, status=1)
    assert what in reported
    assert "known are bbbbbbbbbbbb, aaaaaaaaaaaa" in reported
    assert "git fetch --unshallow" in reported
    assert release.parse(clone.file.read_text(), name="x") == of("b")


def test_a_stack_that_builds_is_not_promoted_to(clone: Clone) -> None:
    done = clone.machine.cli("promote", "prod", "staging", "--release", "aaaa")
    assert done.returncode == 1
    assert "stack `staging` does not run promoted images" in done.stderr
    assert not (clone.folder / "releases" / "staging.json").exists()


def test_a_pipeline_without_the_record_is_refused(clone: Clone) -> None:
    """Not that there was nothing to promote."""
    clone.machine.extra |= {"CI": "true", "PULUMI_BACKEND_URL": ""}
    assert "PULUMI_BACKEND_URL is not set, or empty" in clone.promote(status=1)


def test_a_stack_is_not_promoted_to_itself(clone: Clone) -> None:
    done = clone.machine.cli("promote", "prod", "prod")
    assert done.returncode == 1
    assert "stack `prod` cannot be promoted to itself" in done.stderr


def test_it_is_proposed_as_a_pull_request(clone: Clone, github: GitHub) -> None:
    """From what the remote has today; the checkout with all that is under way in it stays as it is."""
    (clone.folder / "Pulumi.staging.yaml").write_text("config: {}\n")
    head = git(clone.folder, "rev-parse", "HEAD")
    other = clone.folder.parent / "other"
    git(clone.folder.parent, "clone", "--quiet", str(clone.remote), str(other))
    (other / "README.md").write_text("merged meanwhile\n")
    merged = commit(other)
    git(other, "push", "--quiet", "origin", "main")

    reported = clone.promote("--release", "aaaa", "--pull-request")
    assert reported.splitlines()[-1] == "Pull request: https://github.example/k/k/pull/7"
    branch = "promote/prod/aaaaaaaaaaaa"
    assert clone.branches() == {"main", branch}
    assert git(clone.remote, "rev-parse", f"{branch}~") == merged
    assert git(clone.remote, "diff", "--name-only", "main", branch) == "releases/prod.json"
    assert git(clone.remote, "show", "--no-patch", "--format=%an <%ae> %s", branch) == (
        "ada <ada@users.noreply.github.com> prod: the release of staging at aaaaaaaaaaaa"
    )
    proposed = git(clone.remote, "show", f"{branch}:releases/prod.json")
    assert release.parse(proposed, name="x") == of("a")
    [asked] = github.asked
    assert asked["path"] == "/api/repos/k/kindling/pulls"
    assert asked["headers"]["Authorization"] == f"Bearer {TOKEN}"
    assert asked["headers"]["Accept"] == "application/vnd.github+json"
    assert (asked["head"], asked["base"]) == (branch, "main")
    assert asked["title"] == "prod: the release of staging at aaaaaaaaaaaa"
    assert "commit: bbbbbbbbbbbb -> aaaaaaaaaaaa" in asked["body"]
    back = "python3 -m infra promote staging prod --release bbbbbbbbbbbb --pull-request"
    assert f"The way back: `{back}`" in asked["body"]

    assert git(clone.folder, "rev-parse", "HEAD") == head
    assert git(clone.folder, "status", "--porcelain") == "M Pulumi.staging.yaml"
    assert len(git(clone.folder, "worktree", "list").splitlines()) == 1
    # Once more: the branch is overwritten, and the pull request is there.
    github.status = 422
    github.answer = {
        "message": "Validation Failed",
        "errors": [{"message": f"A pull request already exists for k:{branch}."}],
    }
    assert f"of branch {branch} is open already" in clone.promote("--release", "aaaa", "--pull-request")


def test_what_github_refuses_is_reported_in_its_message(clone: Clone, github: GitHub) -> None:
    github.status, github.answer = 403, {"message": "Resource not accessible by integration"}
    reported = clone.promote("--release", "aaaa", "--pull-request", status=1)
    assert "opened no pull request for branch promote/prod/aaaaaaaaaaaa of k/kindling" in reported
    assert "status 403: Resource not accessible by integration" in reported
    assert "pull-requests: write" in reported
    assert len(git(clone.folder, "worktree", "list").splitlines()) == 1


def test_an_api_that_is_not_there_is_reported(clone: Clone) -> None:
    clone.machine.extra["GITHUB_API_URL"] = "http://127.0.0.1:9"
    reported = clone.promote("--release", "aaaa", "--pull-request", status=1)
    assert "GitHub's API at http://127.0.0.1:9 does not answer as it should" in reported
    assert "refused" in reported


@pytest.mark.parametrize("variable", ["GITHUB_TOKEN", "GITHUB_REPOSITORY"])
def test_what_is_missing_is_reported_before_anything_is_pushed(
    clone: Clone, github: GitHub, variable: str
) -> None:
    clone.machine.extra[variable] = ""
    reported = clone.promote("--release", "aaaa", "--pull-request", status=1)
    assert reported.startswith(f"error: {variable} is not set, or empty")
    assert clone.branches() == {"main"}
    assert github.asked == []


def test_a_remote_that_refuses_speaks_for_itself(clone: Clone, github: GitHub) -> None:
    clone.remote.rename(clone.remote.with_name("elsewhere"))
    reported = clone.promote("--release", "aaaa", "--pull-request", status=1)
    assert "`git ls-remote" in reported
    assert "does not appear to be a git repository" in reported
    assert github.asked == []


@pytest.fixture
def forge(clone: Clone) -> Iterator[str]:
    """The remote by HTTP, as Git's own server program has it, for whoever has the token."""
    word = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    git(clone.remote, "config", "http.receivepack", "true")

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if self.headers.get("Authorization", "").lower() != f"basic {word}".lower():
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            length = self.headers.get("Content-Length", "")
            done = subprocess.run(
                ["git", "http-backend"],
                input=self.rfile.read(int(length or 0)),
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(clone.remote.parent),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REMOTE_USER": "x-access-token",
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": length,
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                },
                capture_output=True,
                timeout=60,
                check=True,
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in {**fields, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_token_opens_the_remote(clone: Clone, github: GitHub, forge: str) -> None:
    """Where the checkout keeps no credentials, as in the workflow."""
    git(clone.folder, "remote", "set-url", "origin", f"{forge}/{clone.remote.name}")
    # Another server's, as which the token is not sent.
    clone.machine.extra["GITHUB_SERVER_URL"] = "https://github.example"
    assert "`git ls-remote" in clone.promote("--release", "aaaa", "--pull-request", status=1)
    clone.machine.extra["GITHUB_SERVER_URL"] = forge
    clone.promote("--release", "aaaa", "--pull-request")
    assert clone.branches() == {"main", "promote/prod/aaaaaaaaaaaa"}
    assert len(github.asked) == 1
    assert TOKEN not in (clone.folder / ".git" / "config").read_text()


def test_git_sends_the_token_to_its_own_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TOKEN", TOKEN), ("REPOSITORY", "k/k"), ("SERVER_URL", "https://git.example/")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    login = pull_request.forge().login
    word = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    assert login == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.https://git.example/.extraheader",
        "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {word}",
    }


def test_the_page_names_what_comes_with_it() -> None:
    text = promotion.page("prod", None, of("a"), commits=["1a2b one", "3c4d two"])
    assert "commit: none -> aaaaaaaaaaaa" in text
    assert text.endswith("- 1a2b one\n- 3c4d two\n")


def test_a_checkout_has_the_releases_commit_and_the_settings_of_today(clone: Clone, tmp_path: Path) -> None:
    first = git(clone.folder, "rev-parse", "HEAD")
    found = Release(first, release.contents(clone.folder), of("a").images, "staging")
    (clone.folder / "infra" / "rbac.py").write_text("# another commit's rights\n")
    (clone.folder / "Pulumi.prod.yaml").write_text(PROD + "  kindling:replicas: 3\n")
    clone.write(found)
    folder = tmp_path / "there"
    done = clone.machine.cli("checkout", "prod", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"the release of stack staging ({first[:12]})" in done.stdout
    assert release.contents(folder) == found.contents
    assert (folder / "Pulumi.prod.yaml").read_text().endswith("kindling:replicas: 3\n")
    assert release.read("prod", folder) == found
    assert git(folder, "rev-parse", "HEAD") == first
    # A folder that is taken is Git's to refuse.
    done = clone.machine.cli("checkout", "prod", str(folder))
    assert done.returncode == 1
    assert "already exists" in done.stderr
    shutil.rmtree(folder)
    assert clone.machine.cli("checkout", "prod", str(folder)).returncode == 0
    assert git(folder, "rev-parse", "HEAD") == first


def test_a_stack_without_a_release_is_this_commit(clone: Clone, tmp_path: Path) -> None:
    done = clone.machine.cli("checkout", "staging", str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "there", "rev-parse", "HEAD") == git(clone.folder, "rev-parse", "HEAD")


def test_a_commit_that_the_clone_lacks_is_reported_with_the_way_to_it(clone: Clone, tmp_path: Path) -> None:
    done = clone.machine.cli("checkout", "prod", str(tmp_path / "there"))
    assert done.returncode == 1
    assert "this clone does not have commit bbbbbbbbbbbb, the release of stack `prod`" in done.stderr
    assert "git fetch --unshallow" in done.stderr


def test_a_record_that_was_written_by_hand_leads_nowhere(clone: Clone, tmp_path: Path) -> None:
    clone.write(Release(git(clone.folder, "rev-parse", "HEAD"), "0" * 64, of("a").images, "staging"))
    done = clone.machine.cli("checkout", "prod", str(tmp_path / "there"))
    assert done.returncode == 1
    assert "its `contents` are not those of commit" in done.stderr
    assert not (tmp_path / "there").exists()
    assert len(git(clone.folder, "worktree", "list").splitlines()) == 1

"""The jobs themselves, run: their own steps, by an ordinary user of a machine like a hosted runner.

What GitHub's own actions do is done here (`actions.py`); everything that a `run:` says is run as it stands.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.paths import REPOSITORY
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.existing import PROGRAM, ROWS, SETTINGS
from tests.apiserver.support.object_store import ObjectStore
from tests.pipelines import github, root, workflow
from tests.pipelines.actions import Hosting
from tests.pipelines.checkouts import Origin, check_out
from tests.pipelines.github import Environment, Event, Repository
from tests.pipelines.machines import Machines
from tests.pipelines.rest import GitHub
from tests.pipelines.root import Runner
from tests.pipelines.workflow import Run
from tests.unit.infra.registry_server import registry

PREVIEWS = ("preview (dev)", "preview (staging)", "preview (prod)")


@dataclass
class Happened:
    """How each job ended, and what it said."""

    results: Mapping[str, str]
    machines: Machines

    def log(self, job: str) -> str:
        """What the job said, or the one that it calls."""
        logs = self.machines.logs.items()
        return "".join(text for id, text in logs if id == job or id.startswith(f"{job} / "))


Happen = Callable[..., Happened]


@pytest.fixture
def happen(tmp_path: Path, hosting: Hosting) -> Happen:
    """Have an event happen; jobs that are `given` are not run but said to have ended so."""
    runs: list[Machines] = []

    def run(
        event: Event, *, given: Mapping[str, str], settings: Repository | None = None, **how: object
    ) -> Happened:
        machines = Machines(tmp_path / f"run-{len(runs)}", hosting, event, **how)  # type: ignore[arg-type]
        runs.append(machines)
        hosting.artifacts = tmp_path / f"artifacts-{len(runs)}"
        workflows = workflow.load(REPOSITORY)
        results = Run(workflows, settings or Repository(), event, machines, given=given).everything()
        return Happened(results, machines)

    return run


def ended(done: Happened, how: str, *jobs: str) -> None:
    for job in jobs:
        assert done.results[job] == how, f"{job} is a {done.results[job]}:\n{done.log(job)}"


@pytest.mark.thorough
def test_the_first_push_to_a_new_repository_is_green(happen: Happen, origin: Origin) -> None:
    """Stacks that still hold placeholders are skipped by name, with what to fill in."""
    done = happen(
        github.push(origin.first, changed=["Pulumi.prod.yaml"]),
        given={"test": "success", "up-dev": "success"},
    )
    ended(done, "success", "up-staging")
    assert "::notice::Stack staging is skipped" in done.log("up-staging")
    assert "kindling:context: staging.example.com" in done.log("up-staging")
    notices = [log for log in done.machines.logs.values() if "::notice::Stack prod is skipped" in log]
    assert notices, "prod too"


def test_a_pull_request_is_previewed_and_reported_in_one_comment(
    happen: Happen, origin: Origin, api_of_github: GitHub
) -> None:
    """Of a new repository: dev from nothing, and what the others wait for."""
    api_of_github.say(7, "Looks good.", user=None)
    given = {"test": "success"}
    done = happen(github.pull_request(origin.first), given=given)
    ended(done, "success", *PREVIEWS, "comment")
    other, comment = api_of_github.comments[7]
    assert other["body"] == "Looks good."
    assert "<!-- kindling-preview: dev -->" in comment["body"]
    assert re.search(r"## Preview of stack `dev`: \d+ to create\n", comment["body"])
    assert "Stack staging is skipped: its file has kindling:context: staging.example.com" in comment["body"]
    assert "Stack prod is skipped" in comment["body"]


STAGING = """\
config:
  pulumi:disable-default-providers:
    - kubernetes
  kindling:cluster: existing
  kindling:context: test
  kindling:registry: {host}/kindling
  kindling:insecureRegistry: true
  kindling:protect: false
  kindling:replicas: {replicas}
"""
PASSPHRASE = "canary-passphrase"


def kubeconfig(plane: ControlPlane) -> str:
    """With the certificate in it, as the file goes to other machines."""
    config = json.loads(plane.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    del cluster["certificate-authority"]
    cluster["certificate-authority-data"] = base64.b64encode(plane.ca.read_bytes()).decode()
    return json.dumps(config)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where staging's registry answers."""
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def settings(plane: ControlPlane, store: ObjectStore) -> Repository:
    """Staging as its guide says; what stands in for a login by OIDC are keys of the object store."""
    record = {"PULUMI_BACKEND_URL": store.pulumi_backend, "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE}
    writing = {**record, "KUBECONFIG": kubeconfig(plane)}
    return Repository(
        environments={
            "staging-read": Environment(record),
            "staging-drift": Environment(writing, branches=["main"]),
            "staging": Environment(writing, branches=["main"]),
        }
    )


def test_a_stack_is_brought_up_looked_at_and_previewed(
    happen: Happen,
    origin: Origin,
    settings: Repository,
    store: ObjectStore,
    cluster: Api,
    host: str,
    api_of_github: GitHub,
) -> None:
    """Staging, with its record on S3 and a real API server, from the push to the comment on a pull request.

    Its program is a small one on the real settings and the real Cluster, as nothing runs Pods here.
    """
    written = {"__main__.py": PROGRAM, "Pulumi.staging.yaml": STAGING.format(host=host, replicas=2)}
    main = origin.commit(origin.first, written)
    how = {"env": store.variables, "settings": settings}

    done = happen(github.push(main), given={"test": "success", "up-dev": "success"}, **how)
    ended(done, "success", "up-staging")
    assert cluster.get(ROWS).accepted()["data"] == {"replicas": "2"}

    done = happen(github.schedule(main), given={}, **how)
    ended(done, "success", "drift (staging)", "drift (prod)")
    assert "everything is as the last `up` left it" in done.log("drift (staging)")

    cluster.request("DELETE", SETTINGS).accepted()
    done = happen(github.schedule(main), given={}, **how)
    ended(done, "failure", "drift (staging)")
    ended(done, "success", "drift (prod)")
    assert "ConfigMap default/settings: gone" in done.log("drift (staging)")
    assert cluster.get(SETTINGS).status == 404, "it only looks"

    given = {"test": "success"}
    topic = origin.commit(main, {"Pulumi.staging.yaml": STAGING.format(host=host, replicas=3)})
    done = happen(github.pull_request(topic), given=given, **how)
    ended(done, "success", "preview (staging)", "comment")
    [first] = api_of_github.comments[7]
    assert "## Preview of stack `staging`: 1 " in first["body"], first["body"]
    before = dict(first)
    wrong = origin.commit(topic, {"Pulumi.staging.yaml": STAGING.format(host=host, replicas="many")})
    done = happen(github.pull_request(wrong, action="synchronize"), given=given, **how)
    ended(done, "failure", "preview (staging)")
    ended(done, "success", "comment")
    [again] = api_of_github.comments[7]
    assert again["id"] == before["id"]
    assert "kindling:replicas" in again["body"]
    assert cluster.get(ROWS).accepted()["data"] == {"replicas": "2"}, "a pull request changes nothing"


def test_without_its_secrets_a_stack_is_left_alone_and_the_job_says_which_is_missing(
    happen: Happen, origin: Origin, host: str
) -> None:
    """Never another backend, gone with the runner."""
    main = origin.commit(origin.first, {"Pulumi.staging.yaml": STAGING.format(host=host, replicas=2)})
    given = {"test": "success", "up-dev": "success"}
    done = happen(github.push(main), given=given)
    ended(done, "failure", "up-staging")
    assert "PULUMI_BACKEND_URL is not set, or empty, and stack `staging`" in done.log("up-staging")
    assert "Traceback" not in done.log("up-staging")


def test_what_the_tests_need_is_installed_by_a_user_who_is_not_root(
    earlier: object, origin: Origin, tmp_path: Path
) -> None:
    """As `infra test` installs it, with the rights that a hosted runner's user has."""
    workspace = tmp_path / "checkout"
    check_out(origin.folder, origin.first, workspace, depth=1, owner=root.UID)
    runner = Runner(root.location(), tmp_path / "layers", lent={"/checkout": str(workspace)})
    code = (
        "import os; from infra.bootstrap import apt as p\n"
        "assert os.geteuid() != 0 and not p.has_registry() and not p.has_postgresql()\n"
        "assert not p.has_memcached() and not p.has_prometheus()\n"
        "p.install_registry(); p.install_postgresql(); p.install_memcached(); p.install_prometheus()\n"
        "assert p.has_registry() and p.has_postgresql() and p.has_memcached() and p.has_prometheus()"
    )
    log = tmp_path / "log"
    assert runner.run(["python3", "-c", code], cwd=Path("/checkout"), log=log) == 0, log.read_text()
    # None is started.
    assert runner.run(["pgrep", "docker-registry|postgres|memcached|prometheus"], log=log) == 1


@pytest.mark.parametrize(
    "fork", [pytest.param(False, id="push"), pytest.param(True, id="fork", marks=pytest.mark.thorough)]
)
def test_a_change_is_linted_and_tested(happen: Happen, origin: Origin, fork: bool) -> None:
    """The job `test`, with one file of unit tests in place of all.

    Cluster, engine and the long builds are left out. A fork's has no secrets and needs none.
    """
    event = github.pull_request(origin.first, fork=True) if fork else github.push(origin.first)
    given = {"up-dev": "success", "up-staging": "success"}
    done = happen(event, given=given, more={"infra test": "tests/unit/infra/test_locks.py"}, seconds=500.0)
    ended(done, "success", "test")
    assert "mypy" in done.log("test")
    assert re.search(r"\d+ passed", done.log("test"))


def test_dev_without_a_container_engine_is_one_error_with_a_remedy(happen: Happen, origin: Origin) -> None:
    """`up` of dev as far as the engine: no Docker daemon runs in a root file system."""
    done = happen(github.push(origin.first), given={"test": "success"}, env={"KINDLING_ENGINE": "docker"})
    ended(done, "failure", "up-dev")
    ended(done, "skipped", "up-staging")
    assert "no container engine answers on this machine" in done.log("up-dev")
    assert "remedy: " in done.log("up-dev")
    assert "Traceback" not in done.log("up-dev")

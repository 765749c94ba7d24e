"""GitHub's own actions, replaced by what they do. Of any other a run ends with its name."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra import locks, processes
from infra.bootstrap import apt
from tests.pipelines import root
from tests.pipelines.checkouts import check_out
from tests.pipelines.rest import GitHub
from tests.pipelines.root import HOME, UID, Runner
from tests.pipelines.stores import Caches

SCRIPT = Path(__file__).parent / "script"
LENT_SCRIPT = "/opt/github-script"


class ActionError(Exception):
    """An action, or an input of one, that is not known here."""


@dataclass
class Hosting:
    """What GitHub has beside a job's machine: the repository, what outlives a job, and its API."""

    origin: Path
    caches: Caches
    artifacts: Path
    api: GitHub


@dataclass
class Call:
    """One use of an action. `work` is what the runner has at /home/runner/work; `sha` the event's commit.

    `afterwards` takes what is to be done once the job has succeeded, `outputs` what the action puts out.
    """

    inputs: Mapping[str, str]
    hosting: Hosting
    runner: Runner
    workspace: Path
    work: Path
    layers: Path
    sha: str
    env: Mapping[str, str]
    run: Callable[..., int]
    afterwards: list[Callable[[], None]]
    outputs: dict[str, str] = field(default_factory=dict)

    def knows(self, *names: str) -> None:
        if unknown := set(self.inputs) - set(names):
            raise ActionError(f"the input {', '.join(sorted(unknown))} is not known here")

    def inside(self, path: Path) -> Path:
        """A path of the workspace as this machine has it."""
        return self.workspace / path


def checkout(call: Call) -> int:
    call.knows("persist-credentials", "fetch-depth", "ref", "token")
    commit = call.inputs.get("ref") or call.sha
    depth = int(call.inputs.get("fetch-depth", "1"))
    check_out(call.hosting.origin, commit, call.workspace, depth=depth, owner=UID)
    return 0


def cache(call: Call) -> int:
    """What is found is a layer below the job's own, so that nothing is copied."""
    call.knows("path", "key", "restore-keys")
    key, prefixes = call.inputs["key"], call.inputs.get("restore-keys", "").split()
    [place] = call.inputs["path"].split()
    place = place.replace("~", str(HOME), 1)
    found = call.hosting.caches.find(key, prefixes)
    layers = call.layers.with_name(f"{call.layers.name}-cache-{len(call.runner.restored)}")
    nothing = layers / "nothing"
    nothing.mkdir(parents=True)
    os.chown(nothing, UID, UID)
    below = (nothing,) if found is None else call.hosting.caches.entries[found]
    call.runner.restored[place] = (":".join(map(str, below)), str(layers))
    call.outputs["cache-hit"] = "" if found is None else str(found == key).lower()
    if found != key:
        call.afterwards.append(lambda: call.hosting.caches.keep(key, layers / "upper", below))
    return 0


def upload(call: Call) -> int:
    call.knows("name", "path", "if-no-files-found", "retention-days")
    files = [file for line in call.inputs["path"].split("\n") if line for file in call.workspace.glob(line)]
    if not files:
        return 1 if call.inputs.get("if-no-files-found") == "error" else 0
    target = call.hosting.artifacts / call.inputs["name"]
    target.mkdir(parents=True)
    for file in files:
        shutil.copytree(file, target, dirs_exist_ok=True) if file.is_dir() else shutil.copy(file, target)
    call.outputs["artifact-id"] = str(len(_folders(call.hosting.artifacts)))
    return 0


def download(call: Call) -> int:
    """By name, or all that match a pattern; without `merge-multiple` each in a folder of its name."""
    call.knows("name", "pattern", "merge-multiple", "path")
    pattern = call.inputs.get("name") or call.inputs.get("pattern", "*")
    found = [folder for folder in _folders(call.hosting.artifacts) if fnmatch.fnmatch(folder.name, pattern)]
    if "name" in call.inputs and not found:
        return 1
    target = call.inside(Path(call.inputs.get("path", ".")))
    for folder in found:
        flat = "name" in call.inputs or call.inputs.get("merge-multiple") == "true"
        shutil.copytree(folder, target if flat else target / folder.name, dirs_exist_ok=True)
    for made in (target, *target.rglob("*")):
        if made.exists():
            os.chown(made, UID, UID)
    return 0


def script(call: Call) -> int:
    """By the packages that the action is made of, and the runner's Node."""
    call.knows("script", "github-token")
    token = call.inputs.get("github-token") or call.env["GITHUB_TOKEN_OF_JOB"]
    env = {"INPUT_SCRIPT": call.inputs["script"], "INPUT_GITHUB-TOKEN": token}
    return call.run(["node", f"{LENT_SCRIPT}/run.js"], env)


ACTIONS: Mapping[str, Callable[[Call], int]] = {
    "actions/checkout": checkout,
    "actions/cache": cache,
    "actions/upload-artifact": upload,
    "actions/download-artifact": download,
    "actions/github-script": script,
}


def perform(uses: str, call: Call) -> int:
    """The exit status of the action."""
    name = uses.partition("@")[0]
    if name not in ACTIONS:
        raise ActionError(f"the action {name} is not known here")
    try:
        return ACTIONS[name](call)
    except ActionError as error:
        raise ActionError(f"{name}: {error}") from None


def script_packages() -> Path:
    """`script` with its locked packages, installed once, as a folder to lend."""
    made = root.folder() / "script"
    with locks.exclusive(locks.lock_path(made)):
        lock = (SCRIPT / "package-lock.json").read_bytes()
        if not (made / "package-lock.json").exists() or (made / "package-lock.json").read_bytes() != lock:
            shutil.rmtree(made, ignore_errors=True)
            partial = made.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(SCRIPT, partial)
            if shutil.which("npm") is None:
                apt.install(["npm"])
            processes.run(
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=partial, timeout=300
            )
            os.rename(partial, made)
        shutil.copy(SCRIPT / "run.js", made)
    return made


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("*") if each.is_dir())

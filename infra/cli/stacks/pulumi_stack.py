"""A stack as Pulumi is to see it: its environment, its passphrase, its settings file.

Pulumi writes the salt of the passphrase into the settings file of a stack. Ours is tracked and shared
while the passphrase is this machine's own, so Pulumi is given a copy in the state folder: a checkout
stays clean, and a removed stack leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra import bootstrap, paths, processes
from infra.bootstrap import Toolchain
from infra.cli.stacks import credentials, file_backend
from infra.cli.stacks.tempdir import scratch, variables
from infra.errors import KindlingError
from infra.paths import PROVIDER_VERSION
from infra.project import PROJECT
from infra.settings import stack_files

CALL_SECONDS = 120.0
PULUMI_DEFAULTS = {
    # Pulumi and its providers run for seconds: a sixth of their processor time went into collecting garbage.
    "GOGC": "400",
    # Megabytes of its own logs, one for each command; 500 by default.
    "PULUMI_LOG_ROTATION_MAX_TOTAL_MB": "50",
}
"""What Pulumi is given unless the environment says otherwise."""
# Pulumi's exit statuses are a contract (sdk/go/common/util/cmdutil/exit.go).
NO_SUCH_STACK = 6


class Stack:
    """One stack and the Pulumi that drives it, whose tools and passphrase are made where they are missing."""

    def __init__(self, name: str, *, toolchain: Toolchain, tools: tuple[str, ...] = ("pulumi",)) -> None:
        credentials.check(name)
        self.name = name
        self.program = toolchain.ensure("pulumi")
        self.environment = env_vars(name, toolchain=toolchain, tools=tools)

    def prepare(self) -> None:
        """Have the copy of the settings and the stack's state in place."""
        copy_settings(self.name)
        if self.state() is not None:
            return
        if (folder := file_backend.folder()) is not None:
            folder.parent.mkdir(parents=True, exist_ok=True)
        self._init({})

    def _init(self, extra: dict[str, str]) -> None:
        copy_settings(self.name)
        # By itself it takes no notice of the provider that the settings name.
        provider = stack_files.top(self.name, "secretsprovider")
        args = [f"--secrets-provider={provider}"] if provider else []
        try:
            self._call("stack", "init", "--no-select", *args, "--stack", self.name, extra=extra)
        except processes.ProgramError as error:
            if "already exists" not in error.why:
                raise

    def state(self) -> file_backend.StackState | None:
        """The stack's state on whatever backend, None where it has none; nothing is locked or written.

        A file backend's is read as a file; of any other Pulumi is asked, which takes a second.
        """
        state = file_backend.state(self.name)
        if state is None or state.known:
            return state
        copy_settings(self.name)
        try:
            exported = self._call("stack", "export", "--stack", self.name)
        except processes.ProgramError as error:
            if error.status == NO_SUCH_STACK:
                return None
            raise
        return file_backend.read_checkpoint({"latest": json.loads(exported).get("deployment")})

    @contextmanager
    def with_state(self) -> Iterator[dict[str, str]]:
        """Variables with which Pulumi finds a state, which it needs even to say what it would create.

        Where the backend has none it is an empty one in a folder of its own, which goes with the context.
        """
        if self.state() is not None:
            copy_settings(self.name)
            yield {}
            return
        with tempfile.TemporaryDirectory(prefix="kindling-record-") as folder:
            variables = {"PULUMI_BACKEND_URL": f"file://{quote(folder)}"}
            self._init(variables)
            yield variables

    def recover(self) -> bool:
        """Clear up after a run that was killed; returns whether there was anything.

        Raises `KindlingError` when a run is at work. What was being created is forgotten by the
        record; our resources adopt or remove what they find of it.
        """
        stale = file_backend.check_lock(self.name)
        if stale:
            self._call("cancel", "--yes", "--stack", self.name)
        state = self.state()
        if state is None or not state.unfinished:
            return stale
        root = f"urn:pulumi:{self.name}::{PROJECT}::pulumi:pulumi:Stack::{PROJECT}-{self.name}"
        # Looking at the root alone suffices, and asks nothing of a cluster that may be half-made.
        target = ["--target", root] if root in state.resources else []
        self._call(
            "refresh", "--yes", "--skip-preview", "--clear-pending-creates", "--stack", self.name, *target,
            cwd=paths.REPOSITORY, settings=True,
        )  # fmt: skip
        return True

    def operate(
        self,
        *args: str,
        extra: dict[str, str] | None = None,
        remedy: str = "fix the cause and run the same command again: it continues from what exists.",
        asks: bool = False,
    ) -> None:
        """Run one operation in the foreground, its own output passed through; with `asks`, our input too.

        Raises `KindlingError` when it fails; Pulumi has said why by then.
        """
        argv: list[str | Path] = [
            self.program,
            *args,
            "--stack",
            self.name,
            "--config-file",
            str(settings_file(self.name)),
        ]
        with scratch(scratch_folder(self.name)) as held:
            status = processes.run_foreground(
                argv,
                env={**self.environment, **(extra or {})},
                cwd=paths.REPOSITORY,
                inherits=[held],
                asks=asks,
            )
        if status != 0:
            raise KindlingError(
                f"`pulumi {args[0]}` of stack `{self.name}` ended with status {status}",
                why="its own messages are above",
                remedy=remedy,
            )

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs by name; secrets are masked."""
        copy_settings(self.name)
        found: dict[str, Any] = json.loads(self._call("stack", "output", "--json", "--stack", self.name))
        return found

    def last_update(self) -> str:
        """How its last `up` ended, in Pulumi's word (`succeeded`, `failed`); empty where there was none."""
        copy_settings(self.name)
        output = self._call(
            "stack", "history", "--json", "--page-size", "20", "--page", "1", "--stack", self.name
        )
        return next((str(each["result"]) for each in json.loads(output) if each["kind"] == "update"), "")

    def config(self) -> dict[str, str]:
        """All values by Pulumi's keys, as the program gets them: secrets in clear, Pulumi ESC's laid under.

        Raises `KindlingError` for a stack of an ESC environment that has no state yet.
        """
        if stack_files.top(self.name, "environment") and self.state() is None:
            raise KindlingError(
                f"stack `{self.name}` takes values from Pulumi ESC and has no state yet",
                why="Pulumi opens an environment for a stack that there is",
                remedy=f"python3 -m infra exec --stack {self.name} pulumi stack init {self.name}",
            )
        with self.with_state() as variables:
            output = self._call("config", "--json", "--show-secrets", settings=True, extra=variables)
        return {key: entry.get("value", "") for key, entry in json.loads(output).items()}

    def ask(self, *args: str, timeout: float) -> None:
        """Run a preview that nobody watches, for the events that it logs; raises `ProgramError`."""
        # `--event-log` is a word of Pulumi's for developers, and for its own Automation API.
        debug = {"PULUMI_DEBUG_COMMANDS": "true"}
        self._call(*args, timeout=timeout, cwd=paths.REPOSITORY, settings=True, extra=debug)

    def remove(self) -> None:
        """Take the emptied stack out of the backend, with its history, and drop our copy of its settings."""
        copy_settings(self.name)
        self._call("stack", "rm", "--yes", "--remove-backups", "--stack", self.name)
        shutil.rmtree(settings_file(self.name).parent, ignore_errors=True)

    def _call(
        self,
        *args: str,
        cwd: Path | None = None,
        settings: bool = False,
        timeout: float = CALL_SECONDS,
        extra: dict[str, str] | None = None,
    ) -> str:
        argv: list[str | Path] = [self.program, *args, "--non-interactive"]
        if settings:
            argv += ["--config-file", str(settings_file(self.name))]
        # In the copy's folder, `stack init` writes the salt to the copy and `stack rm` removes it.
        with scratch(scratch_folder(self.name)) as held:
            return processes.run(
                argv,
                timeout=timeout,
                env={**self.environment, **(extra or {})},
                cwd=cwd or settings_file(self.name).parent,
                inherits=[held],
            )


def env_vars(stack: str, *, toolchain: Toolchain, tools: tuple[str, ...]) -> dict[str, str]:
    """What Pulumi and the program it runs need; makes the named tools and the passphrase if missing."""
    python = bootstrap.virtualenv.location()
    bootstrap.virtualenv.link()
    own = {
        "PATH": os.pathsep.join([str(python / "bin"), toolchain.path(tools), os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(python),
        "PULUMI_HOME": str(toolchain.pulumi_home()),
        "PULUMI_BACKEND_URL": file_backend.url(),
        "PULUMI_STACK": stack,
        **variables(scratch_folder(stack)),
        **stack_files.kubeconfig(stack),
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # What lies beside the program on PATH is its own; without this each run warns of it.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": os.environ.get("PULUMI_IGNORE_AMBIENT_PLUGINS", "true"),
        **{name: os.environ.get(name, value) for name, value in PULUMI_DEFAULTS.items()},
    }
    if toolchain.builds_provider():
        own[PROVIDER_VERSION] = toolchain.provider_version()
        # Else Pulumi would first look for the SDK's on the network, which this machine has no way to.
        own["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys():
        own["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(passphrase_file())
    return own


def state_of(stack: str, *, toolchain: Toolchain) -> file_backend.StackState | None:
    """The stack's state on whatever backend; makes Pulumi only where there is no file to read."""
    state = file_backend.state(stack)
    return state if state is None or state.known else Stack(stack, toolchain=toolchain).state()


def settings_file(stack: str) -> Path:
    """The copy of the stack's settings, in a folder of its own beside one of the project's."""
    return paths.state_dir() / "stacks" / stack / f"Pulumi.{stack}.yaml"


def scratch_folder(stack: str) -> Path:
    """Where Pulumi's programs put their temporary files, beside that copy."""
    return settings_file(stack).parent / "tmp"


def copy_settings(stack: str) -> None:
    """Make the copy again. Pulumi takes the salt from its state where it has none (see `env_vars`)."""
    copy = settings_file(stack)
    copy.parent.mkdir(parents=True, exist_ok=True)
    for source in (paths.REPOSITORY / "Pulumi.yaml", paths.REPOSITORY / copy.name):
        if source.exists():
            shutil.copyfile(source, copy.parent / source.name)


def passphrase_path() -> Path:
    """The passphrase that Pulumi's secrets are encrypted with, where the environment names none."""
    return paths.state_dir() / "passphrase"


def passphrase_file() -> Path:
    """The same, made once and readable by its user alone."""
    path = passphrase_path()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        try:
            # Complete or not at all, and never over one that another run made meanwhile.
            os.link(partial, path)
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path

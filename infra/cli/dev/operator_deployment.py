"""Taking the place of the cluster's operator for a while, and giving it back.

Its Deployment is scaled to none. How many replicas it had is written down beside the stack's state
first, under a lock that ends with its process: whoever finds the note without the lock knows that a run
was killed, and gives the replicas back in its stead.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from infra import paths, processes
from infra.cli.stacks import kubectl
from infra.errors import KindlingError
from infra.project import OPERATOR as NAME
from infra.project import OPERATOR_NAMESPACE as NAMESPACE

MANAGER = "kindling-dev"


class OperatorDeployment:
    """The operator's Deployment in a stack's cluster."""

    def __init__(self, stack: str, *, kubectl: Path) -> None:
        self._stack = stack
        self._program = kubectl
        self._note = paths.state_dir() / "stacks" / stack / "dev.json"

    def read(self) -> dict[str, Any]:
        """As it is; raises `KindlingError` where there is none, or no cluster."""
        try:
            return self._get()
        except processes.ProgramError as error:
            raise KindlingError(
                f"stack `{self._stack}` has no operator whose place could be taken",
                why=error.why or error.what,
                remedy=f"python3 -m infra up {self._stack}",
            ) from None

    def kubeconfig(self) -> str:
        """A kubeconfig of the stack's context alone, complete in itself. Holds credentials."""
        return self._kubectl("config", "view", "--minify", "--flatten", "--raw")

    @contextmanager
    def scaled_down(self) -> Iterator[int]:
        """Nobody else works while it lasts; yields how many replicas get their place back at the end.

        Raises `KindlingError` when another run has the place already.
        """
        deployment = self.read()
        with self._noted() as note:
            if note is None:
                raise KindlingError(
                    f"the operator's place in stack `{self._stack}` is taken",
                    why="another `python3 -m infra dev` runs there",
                    remedy="end that one first.",
                )
            # A note that nobody holds is a killed run's: the Deployment has had none since.
            replicas = _read(note)
            if replicas is None:
                replicas = int(deployment["spec"].get("replicas", 1))
                note.write(json.dumps({"replicas": replicas}))
                note.flush()
            try:
                self._scale(0)
                yield replicas
            finally:
                with _undisturbed():
                    self._give_back(replicas)

    def recover(self) -> bool:
        """Give back what a killed run has taken; returns whether there was anything.

        A cluster that is gone, or was created again, has nothing to give back.
        """
        if not self._note.exists():
            return False
        with self._noted() as note:
            if note is None:
                return False
            replicas = _read(note)
            try:
                self._get()
            except processes.ProgramError:
                replicas = None
            if replicas is None:
                self._note.unlink()
                return False
            self._give_back(replicas)
            return True

    def _give_back(self, replicas: int) -> None:
        try:
            self._scale(replicas)
            # Else the next `up` that changes their number would find it owned by another.
            fields = self._get("--show-managed-fields")["metadata"]["managedFields"]
            kept = [entry for entry in fields if entry["manager"] != MANAGER]
            self._patch({"metadata": {"managedFields": kept}})
        except processes.ProgramError as error:
            raise KindlingError(
                f"the Deployment {NAME} did not get its {replicas} replicas back",
                why=error.why or error.what,
                remedy=f"python3 -m infra up {self._stack}",
            ) from None
        self._note.unlink()

    def _scale(self, replicas: int) -> None:
        self._patch({"spec": {"replicas": replicas}})

    def _patch(self, patch: dict[str, Any]) -> None:
        args = ("--type=merge", f"--field-manager={MANAGER}", "--patch", json.dumps(patch))
        self._kubectl("patch", "deployment", NAME, f"--namespace={NAMESPACE}", *args)

    def _get(self, *args: str) -> dict[str, Any]:
        wanted = ("get", "deployment", NAME, f"--namespace={NAMESPACE}", "--output=json", *args)
        found: dict[str, Any] = json.loads(self._kubectl(*wanted))
        return found

    def _kubectl(self, *args: str) -> str:
        return kubectl.call(self._stack, self._program, *args)

    @contextmanager
    def _noted(self) -> Iterator[IO[str] | None]:
        """The note, ours while it lasts; None where another process has it."""
        self._note.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self._note, os.O_RDWR | os.O_CREAT, 0o600), "r+") as note:
            try:
                fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield note


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Once the end has begun, a second Ctrl-C must not keep the Deployment from its replicas."""
    before = [signal.signal(number, signal.SIG_IGN) for number in processes.INTERRUPTS]
    try:
        yield
    finally:
        for number, handler in zip(processes.INTERRUPTS, before, strict=True):
            signal.signal(number, handler)


def _read(note: IO[str]) -> int | None:
    try:
        return int(json.loads(note.read())["replicas"])
    except (ValueError, KeyError):
        note.seek(0)
        note.truncate()
        return None

"""`handler`: a handler of messages from its file, on this machine, with the runner that Pods have.

The broker is the stack's, or another with `--server`. The subscription is this command's own, so no
consumer in the cluster goes without a message for it.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from infra import bootstrap, paths, project
from infra.bootstrap import Toolchain
from infra.cli.arguments import Command
from infra.cli.dev import autoreload
from infra.cli.dev.broker_proxy import BrokerProxy
from infra.errors import KindlingError
from infra.progress import Progress

REQUIREMENTS = "operator/images/pulsar-consumer/requirements.txt"
RUNNER = paths.REPOSITORY / "operator" / "images" / "pulsar-consumer"
FUNCTION = "handle"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def run(command: Command) -> int:
    """Until it is interrupted. Raises `KindlingError` for what is missing, before anything is made."""
    file, function = named(command.handler)
    project.require_stack(command.stack)
    progress = Progress()
    reachable = _broker(command, progress)
    python = bootstrap.virtualenv.ensure(REQUIREMENTS, progress=progress)
    with reachable as server, TemporaryDirectory(prefix="kindling-handler-") as scratch:
        progress.say(
            f"{file.name}: {function} handles the messages of {command.topic}, subscription "
            f"{command.subscription}.\n"
            f"  source   {file.parent}: each change of a Python file restarts it\n"
            "Ctrl-C ends it.\n"
        )
        autoreload.serve(
            "pulsar_consumer",
            python=python,
            source=file.parent,
            env={
                **environment(command, file, function, server=server, scratch=Path(scratch)),
                "PULSAR_HEALTH_PORT": str(autoreload.free_port()),
            },
            say=progress.say,
        )


def _broker(command: Command, progress: Progress) -> AbstractContextManager[str]:
    """The broker's address, once it is entered. Raises `KindlingError` where the stack has no broker."""
    if command.server:
        return nullcontext(command.server)
    proxy = BrokerProxy(command.stack, program=Toolchain(progress=progress).ensure("kubectl"))
    image = proxy.image()
    progress.say(f"Stack {command.stack}: a proxy leads to its broker.")
    return proxy.reachable(image=image)


def named(text: str) -> tuple[Path, str]:
    """The file and the name in it, of FILE[:NAME]. Raises `KindlingError` for what cannot be a handler."""
    path, _, function = text.partition(":")
    file, function = Path(path).resolve(), function or FUNCTION
    if not file.is_file():
        raise KindlingError(
            f"there is no file {path}",
            why="FILE is the handler's Python file",
            remedy="name one that is there",
        )
    if file.suffix != ".py" or not _WORD.fullmatch(file.stem) or not _WORD.fullmatch(function):
        raise KindlingError(
            f"{text} names no function or class in a Python module",
            why="a consumer imports FILE by its name, and takes NAME from it",
            remedy="write FILE.py or FILE.py:NAME, in letters, digits and underscores",
        )
    return file, function


def environment(command: Command, file: Path, function: str, *, server: str, scratch: Path) -> dict[str, str]:
    """What the operator gives a consumer with this handler; its files are used where they are."""
    return {
        "PYTHONPATH": str(RUNNER),
        "PYTHONUNBUFFERED": "1",
        "PULSAR_SERVER": server,
        "PULSAR_TOPIC": command.topic,
        "PULSAR_SUBSCRIPTION_NAME": command.subscription,
        "PULSAR_SUBSCRIPTION_TYPE": "Shared",
        "PULSAR_INITIAL_POSITION": "Earliest" if command.earliest else "Latest",
        **({"PULSAR_SCHEMA_TYPE": command.schema} if command.schema else {}),
        "PULSAR_HANDLER_PYTHON": f"{file.stem}:{function}",
        # A copy of the files that is there is taken as it is: this one is the folder itself.
        "PULSAR_HANDLER_COPIES": str(file.parent.parent),
        "PULSAR_HANDLER_HASH": file.parent.name,
        "PULSAR_HANDLER_MARKER": str(scratch / "failing"),
        "PULSAR_HANDLER_CALLS": str(scratch / "calls"),
        "PULSAR_TERMINATION_LOG": str(scratch / "termination-log"),
    }

"""What kubectl's completion gets for `kubectl kindling …`: commands, options and names of resources.

kubectl calls the program `kubectl_complete-kindling` with the words so far, the last of them unfinished, and
reads a candidate a line and then `:` with a number that says what the shell is to add.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from kubectl_kindling import arguments, kinds
from kubectl_kindling.errors import PluginError
from kubectl_kindling.kubectl import Kubectl

NO_FILES, FILES = 4, 0
SECONDS = 5.0
"""A shell that waits for longer seems to hang."""
ANY = "KIND/NAME"
TARGETS = {
    "status": ANY, "logs": ANY, "plan": ANY, "report": ANY,
    "psql": "Postgresql", "restart": "Postgresql", "hibernate": "Postgresql", "wake": "Postgresql",
    "rotate": "Postgresql", "approve": "Postgresql",
    "backup": "Backup", "drill": "Backup", "restore": "Backup", "undo": "Restore",
    "dead-letters": "PulsarConsumer", "redrive": "PulsarConsumer", "replay": "PulsarConsumer",
}  # fmt: skip
"""By command: the kind whose names it takes; ANY for all, with their kind before them."""
_OF_FILES = ("FILE",)


class Typed(NamedTuple):
    """The words so far: `command` is empty until there is one, `option` waits for its value."""

    command: str
    target: str
    option: argparse.Action | None
    given: tuple[str, ...]


def run(words: Sequence[str]) -> int:
    """Print the candidates. Of a cluster that does not answer there are none, and no word of why."""
    found, directive = complete(words)
    for each in found:
        print(each)
    print(f":{directive}")
    return 0


def complete(words: Sequence[str]) -> tuple[list[str], int]:
    """The candidates for the last word, and what the shell is to do beside."""
    *done, partial = words or [""]
    typed = _typed(done)
    if typed.option is not None:
        if typed.option.metavar in _OF_FILES:
            return [], FILES
        choices = [str(choice) for choice in typed.option.choices or ()]
        if typed.option.dest == "namespace":
            choices = _names(Kubectl(), "namespaces")
        return _starting(choices, partial), NO_FILES
    if partial.startswith("-"):
        return _starting(_options(typed.command), partial), NO_FILES
    if not typed.command:
        return _starting(arguments.commands(), partial), NO_FILES
    if typed.target or typed.command not in TARGETS:
        return [], NO_FILES
    return _starting(_targets(TARGETS[typed.command], Kubectl(typed.given)), partial), NO_FILES


def _typed(words: Sequence[str]) -> Typed:
    command = target = ""
    given: list[str] = []
    option: argparse.Action | None = None
    for word in words:
        if option is not None:
            if option.dest in arguments.GLOBAL:
                given.append(f"--{option.dest}={word}")
            option = None
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            found = arguments.actions(command).get(name)
            if equals and found is not None and found.dest in arguments.GLOBAL:
                given.append(f"--{found.dest}={value}")
            option = found if found is not None and found.nargs is None and not equals else None
        elif not command:
            command = word
        else:
            target = target or word
    return Typed(command, target, option, tuple(given))


def _options(command: str) -> list[str]:
    return sorted(name for name in arguments.actions(command) if name.startswith("--"))


def _targets(kind: str, kubectl: Kubectl) -> list[str]:
    try:
        types = kinds.served(kubectl)
        if kind == ANY:
            return [
                f"{kinds.shortest(type, types)}/{name}"
                for type in types
                for name in _names(kubectl, type.full)
            ]
        return [name for type in kinds.of_kind(types, kind) for name in _names(kubectl, type.full)]
    except PluginError:
        return []


def _names(kubectl: Kubectl, type: str) -> list[str]:
    try:
        output = kubectl.ask(
            "get", type, "-o", "name", f"--request-timeout={SECONDS:.0f}s", seconds=2 * SECONDS
        )
    except PluginError:
        return []
    return [line.rpartition("/")[2] for line in output.stdout.splitlines()] if output.status == 0 else []


def _starting(found: Sequence[str], partial: str) -> list[str]:
    return [each for each in dict.fromkeys(found) if each.startswith(partial)]

"""Kinds that a stack is no longer to have: with a definition goes every resource of it, so none may be left.

Asked before Pulumi is started, which would delete the definition and, by that, databases.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from infra import processes
from infra.cli.stacks.file_backend import StackState
from infra.cli.stacks.kubectl import call
from infra.errors import KindlingError, listed

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
SAMPLES_NAMESPACE = "default"
SHOWN = 5


def check(stack: str, definitions: Collection[str], state: StackState | None, *, kubectl: Path) -> None:
    """Raise `KindlingError` where `up` would delete a definition that it must not.

    `definitions` are the names of those that stay, `state` is the stack's state. What the stack itself
    made of a kind, its samples, may go.
    """
    if state is None:
        return
    going = [name for name in definitions_of(state) if name not in definitions]
    protected = [name for name in going if any(urn.endswith(f"::{name}") for urn in state.protected)]
    if protected:
        raise KindlingError(
            f"stack `{stack}` is protected, and kindling:kinds would remove {', '.join(protected)}",
            why="with a definition every resource of the kind is deleted. Nothing was touched",
            remedy="put the kind back into kindling:kinds. If it is really to go: set kindling:protect to "
            f"false in Pulumi.{stack}.yaml, python3 -m infra up {stack}, then take the kind out.",
        )
    for name in going:
        left = [place for place in resources(stack, name, kubectl) if not _is_sample(state, name, place)]
        if left:
            raise KindlingError(
                f"kindling:kinds of stack `{stack}` leaves out {name}, and there are resources of it",
                why=f"they would be deleted with the definition: {listed(left, most=SHOWN)}. "
                "Nothing was touched",
                remedy="put the kind back, or delete them first: python3 -m infra exec --stack "
                f"{stack} kubectl delete {name} --all-namespaces --all",
            )


def definitions_of(state: StackState) -> list[str]:
    """The definitions that the stack has made."""
    parts = [urn.split("::") for urn in state.resources]
    return [part[-1] for part in parts if part[-2].rpartition("$")[2] == DEFINITION]


def resources(stack: str, name: str, kubectl: Path) -> list[str]:
    """NAMESPACE/NAME of each object of this definition that the cluster has.

    :raises KindlingError: where the cluster does not answer.
    """
    place = '{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
    try:
        if not call(stack, kubectl, "get", "customresourcedefinition", name, "--ignore-not-found").strip():
            return []
        found = call(stack, kubectl, "get", name, "--all-namespaces", f"--output=jsonpath={place}")
    except processes.ProgramError as error:
        raise KindlingError(
            f"whether there are resources of {name} is unknown, and its definition would be deleted",
            why=error.why or error.what,
            remedy="see that the cluster answers, or keep the kind; nothing was touched.",
        ) from None
    return found.split()


def _is_sample(state: StackState, name: str, place: str) -> bool:
    group = name.partition(".")[2]
    namespace, _, own = place.partition("/")
    mark = f"$kubernetes:{group}/"
    return namespace == SAMPLES_NAMESPACE and any(
        mark in urn and urn.endswith(f".{group}-{own}") for urn in state.resources
    )

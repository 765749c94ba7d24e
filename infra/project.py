"""What the project, its stacks and their clusters are called: known before YAML can be read."""

from __future__ import annotations

from pathlib import Path

from infra import paths
from infra.errors import KindlingError

PROJECT = "kindling"
# The operator's namespace and the name of its Deployment, Lease and account: users, tests and documents name
# them.
OPERATOR_NAMESPACE = "kindling-system"
OPERATOR = "kindling-operator"
# "true" has the Kubernetes provider take fields back that another writer has set.
FORCE = "PULUMI_K8S_ENABLE_PATCH_FORCE"


def stacks() -> list[str]:
    """The stacks that have a settings file, by name."""
    return sorted(path.stem.removeprefix("Pulumi.") for path in paths.REPOSITORY.glob("Pulumi.*.yaml"))


def require_stack(stack: str) -> None:
    """Raise `KindlingError` for a stack without a settings file."""
    if stack not in stacks():
        raise KindlingError(
            f"there is no stack `{stack}`",
            why=f"the stacks are {', '.join(stacks())}, each a file Pulumi.STACK.yaml",
            remedy="name one of them, or write that file.",
        )


def stack_file(stack: str) -> Path:
    """Where the stack's settings are, or would be."""
    return paths.REPOSITORY / f"Pulumi.{stack}.yaml"


def cluster_name(stack: str) -> str:
    """The name of the stack's own cluster."""
    return f"{PROJECT}-{stack}"

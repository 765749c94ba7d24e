"""What a stack needs, by its configuration: what must be known before the machine is inspected."""

from __future__ import annotations

from infra.cli.setup_steps import StackProfile
from infra.settings import stack_files


def of(stack: str) -> StackProfile:
    """The stack's cluster and images, not checked: `infra.settings` does that."""
    return StackProfile(
        stack,
        existing=stack_files.is_existing(stack),
        builds_images=stack_files.builds_images(stack),
        context=stack_files.context(stack),
        broker=stack_files.get(stack, "broker") == "true",
        object_store=stack_files.get(stack, "objectStore") == "true",
    )

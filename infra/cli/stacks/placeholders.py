"""What a new repository has not filled in yet: a pipeline goes round such a stack, by name.

The stacks of existing clusters come with placeholders for a context and a registry that only their users
know, all under example.com, which is nobody's (RFC 2606).
"""

from __future__ import annotations

import os
import sys

from infra import release
from infra.errors import KindlingError
from infra.settings import stack_files

PLACEHOLDER = "example.com"
KEYS = ("context", "registry")


def of(stack: str) -> list[str]:
    """The settings of the stack's file that still hold a placeholder, as KEY: VALUE."""
    values = {key: stack_files.get(stack, key) or "" for key in KEYS}
    return [f"kindling:{key}: {value}" for key, value in values.items() if PLACEHOLDER in value]


def skips(stack: str, *, images: bool) -> str | None:
    """Why a pipeline goes round the stack, in a sentence that is printed; None where it does not.

    `images`: whether a stack of promoted images must have some. On a terminal nothing is gone round.

    :raises KindlingError: where there is a placeholder and no pipeline.
    """
    missing = of(stack)
    if missing and not os.environ.get("CI"):
        raise KindlingError(
            f"stack `{stack}` is not set up yet",
            why=f"Pulumi.{stack}.yaml has {', '.join(missing)}, which only holds the place of yours",
            remedy="write yours (docs/guides/existing-clusters.md), then run the same command again.",
        )
    reason = None
    if missing:
        reason = f"its file has {', '.join(missing)}: write yours into Pulumi.{stack}.yaml"
    elif images and os.environ.get("CI") and _nothing_promoted(stack):
        reason = f"nothing was promoted to it yet: python3 -m infra promote STACK {stack}"
    if reason is None:
        return None
    sentence = f"Stack {stack} is skipped: {reason}."
    # GitHub shows such a line on the run's page.
    sys.stdout.write(f"{'::notice::' if os.environ.get('GITHUB_ACTIONS') else ''}{sentence}\n")
    return sentence


def _nothing_promoted(stack: str) -> bool:
    return not stack_files.builds_images(stack) and not release.path(stack).exists()

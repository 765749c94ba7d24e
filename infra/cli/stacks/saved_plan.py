"""Whether a saved plan can still be carried out, before anything is begun.

The plan is Pulumi's own file and Pulumi keeps to it, but of a plan that was made for something else it
complains in the middle of the work and in its own terms. Here it is one sentence beforehand.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from infra.cli.stacks.file_backend import StackState
from infra.errors import KindlingError


def remedy(stack: str, file: Path) -> str:
    """How to get a plan that fits; for `up`, which meets what this module cannot foresee."""
    return f"make and read a new one: python3 -m infra preview {stack} --save-plan {file}"


def check(file: Path, *, stack: str, state: StackState | None) -> None:
    """Raise `KindlingError` for what is no plan, another stack's, or older than the stack's last change.

    `state` is the stack's state, as far as it is known.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        made = datetime.fromisoformat(content["manifest"]["time"])
        stacks = {urn.split(":")[2] for urn in content["resourcePlans"]}
    except OSError as error:
        raise _unusable(file, stack, f"it cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _unusable(file, stack, "it is no plan of Pulumi's") from None
    if others := sorted(stacks - {stack}):
        raise _unusable(file, stack, f"it was made for stack `{'`, `'.join(others)}`")
    if state is None:
        raise _unusable(file, stack, "the stack was destroyed after it was made, or its state is elsewhere")
    if state.changed and (changed := datetime.fromisoformat(state.changed)) > made:
        when = f"{changed:%Y-%m-%d %H:%M:%S}, the plan was made {made:%Y-%m-%d %H:%M:%S}"
        raise _unusable(file, stack, f"the stack was last changed {when} (UTC)")


def _unusable(file: Path, stack: str, why: str) -> KindlingError:
    return KindlingError(
        f"the plan `{file}` cannot be carried out on stack `{stack}`", why=why, remedy=remedy(stack, file)
    )

"""What leads to a stack's state and its secrets, asked for at the beginning of a pipeline's run.

A person who sets none of it gets a backend and a passphrase of this machine's own. In a pipeline that is
a trap: a secret that was not given arrives as an empty variable, and the state would go with the runner.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from infra.cli.stacks import file_backend
from infra.errors import KindlingError
from infra.settings import stack_files

PASSPHRASES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
GUIDE = "docs/guides/ci.md"


def check(stack: str) -> None:
    """Raise `KindlingError` where CI is set and the state of a cluster that stays could not be read."""
    if not os.environ.get("CI") or not stack_files.is_existing(stack):
        return
    if file_backend.is_own():
        raise _missing(
            stack,
            "PULUMI_BACKEND_URL",
            "a state on this runner would be gone with it, and begin empty each time",
        )
    if urlsplit(file_backend.url()).scheme in ("https", "http"):
        if not os.environ.get("PULUMI_ACCESS_TOKEN"):
            raise _missing(stack, "PULUMI_ACCESS_TOKEN", f"{file_backend.url()} asks who is there")
    elif stack_files.top(stack, "secretsprovider") in ("", "default", "passphrase") and not any(
        map(os.environ.get, PASSPHRASES)
    ):
        raise _missing(
            stack,
            PASSPHRASES[0],
            "its secrets are encrypted with a passphrase, and an empty one protects nothing",
        )


def _missing(stack: str, variable: str, why: str) -> KindlingError:
    return KindlingError(
        f"{variable} is not set, or empty, and stack `{stack}` is in a cluster that stays",
        why=why,
        remedy=f"give the job that secret ({GUIDE}). Runs for a fork or for Dependabot are given none: "
        "they cannot see this stack.",
    )

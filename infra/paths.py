"""Where Kindling keeps things on the host, in one place so that nothing else invents a path.

Two roots, by the XDG base directory specification: the cache holds what can be built again (tools,
images, the Python environment), the state holds what cannot (Pulumi's stacks, the passphrase).
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# What `TMPDIR` was, empty for nothing, before Pulumi got a folder of its own: images' builds use the host's.
HOST_TMPDIR = "KINDLING_HOST_TMPDIR"
# The version of the Kubernetes provider, where the program is not to ask for that of its SDK.
PROVIDER_VERSION = "KINDLING_PROVIDER_VERSION"

# What desktops, editors and tools leave in a folder; what begins with a dot is theirs too.
_LEFT = ("__pycache__", "*.pyc", "*~", "*.swp", "*.orig", "*.rej", "Thumbs.db", "desktop.ini")


def cache_dir() -> Path:
    """Built tools and images; safe to delete, at the price of building them again.

    `KINDLING_CACHE` overrides `$XDG_CACHE_HOME/kindling`.
    """
    return _root("KINDLING_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Pulumi's file backend and the passphrase; losing it orphans what the stacks created.

    `KINDLING_STATE` overrides `$XDG_STATE_HOME/kindling`.
    """
    return _root("KINDLING_STATE", "XDG_STATE_HOME", ".local/state")


def tests_dir() -> Path:
    """State and kubeconfig of the stack that the tests bring up, beside a developer's own."""
    return state_dir() / "tests"


def left_behind(name: str) -> bool:
    """Whether a file or folder of this name is a tool's, and enters no image and no hash."""
    return name.startswith(".") or any(fnmatch(name, pattern) for pattern in _LEFT)


def _root(own: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / fallback) / "kindling"

"""What a stack's file says of its cluster, for those who must know before YAML can be read.

Line by line, plain values alone: enough to tell whose cluster it is and how to reach it. Nothing is
checked here; `infra.settings` does that where the environment stands.
"""

from __future__ import annotations

import re

from infra import paths
from infra.drivers import access
from infra.settings import EXISTING, PROJECT, PROMOTED, cluster_name


def value(stack: str, key: str) -> str:
    """The plain value of a setting, without quotes; empty where the stack's file sets none, or is missing."""
    return _first(stack, rf"\s+{PROJECT}:{key}")


def top(stack: str, key: str) -> str:
    """The same of one of Pulumi's own keys of the file, such as `secretsprovider`."""
    return _first(stack, key)


def _first(stack: str, key: str) -> str:
    """The first plain value of a key, which is a pattern from the line's beginning on."""
    try:
        lines = (paths.REPOSITORY / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ""
    wanted = re.compile(rf"{key}:\s+(?P<quote>[\"']?)(?P<value>.*?)(?P=quote)\s*(\s#.*)?")
    return next((match["value"] for match in map(wanted.fullmatch, lines) if match), "")


def is_existing(stack: str) -> bool:
    """Whether the stack's cluster is somebody else's to make and to remove."""
    return value(stack, "cluster") == EXISTING


def builds_images(stack: str) -> bool:
    """Whether the stack's images are built here."""
    return value(stack, "imageSource") != PROMOTED


def context(stack: str) -> str:
    """The stack's context in the kubeconfig."""
    return value(stack, "context") if is_existing(stack) else f"kind-{cluster_name(stack)}"


def kubeconfig(stack: str) -> dict[str, str]:
    """What kubectl and Pulumi's provider need in their environment to find that context."""
    return access.environment(value(stack, "kubeconfig"))

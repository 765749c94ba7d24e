"""What kubectl's own words mean: a right that is missing, no cluster, no such object. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kubectl_kindling.errors import PluginError

MOST_LINES = 5
_LOG_LINE = re.compile(r"[EWI]\d{4} \d\d:\d\d:\d\d")
_FORBIDDEN = re.compile(
    r'cannot (?P<verb>[\w*]+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_NO_CLUSTER = (
    "unable to connect to the server",
    "the connection to the server",
    "connection refused",
    "no such host",
    "i/o timeout",
    "tls handshake timeout",
    "context deadline exceeded",
    "client.timeout exceeded",
    "no configuration has been provided",
)
_NO_LOGIN = ("you must be logged in to the server", "(unauthorized)", "provide credentials")


@dataclass(frozen=True)
class Right:
    """A right that the API server asked for; `namespace` is empty for all of them."""

    verb: str
    resource: str
    namespace: str = ""


def missing_rights(stderr: str) -> list[Right]:
    """Each right that the API server says is missing, once."""
    found = []
    for match in _FORBIDDEN.finditer(stderr):
        resource, group = match["resource"], match["group"] or ""
        plural, slash, below = resource.partition("/")
        named = f"{plural}.{group}" if group else plural
        found.append(Right(match["verb"], f"{named}{slash}{below}", match["namespace"] or ""))
    return list(dict.fromkeys(found))


def described(rights: Sequence[Right]) -> list[str]:
    """A sentence for each verb and namespace, with the resources that it is missing on."""
    groups: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        groups.setdefault((right.verb, right.namespace), []).append(f"`{right.resource}`")
    return [
        f"you lack the right `{verb}` in "
        f"{f'namespace `{namespace}`' if namespace else 'all namespaces'} on {', '.join(names)}"
        for (verb, namespace), names in groups.items()
    ]


def is_not_found(stderr: str) -> bool:
    return "(NotFound)" in stderr


def error_of(words: Sequence[str], status: int, stderr: str) -> PluginError:
    """The error for a kubectl that ended with this status and these words."""
    said = _said(stderr)
    lower = stderr.lower()
    if rights := missing_rights(stderr):
        first = rights[0]
        where = f" --namespace {first.namespace}" if first.namespace else " --all-namespaces"
        return PluginError(
            "; ".join(described(rights)),
            why=_said(next(line for line in stderr.splitlines() if _FORBIDDEN.search(line))),
            remedy="ask for a role that has it; "
            f"`kubectl auth can-i {first.verb} {first.resource}{where}` says whether you do.",
        )
    if any(word in lower for word in _NO_LOGIN):
        return PluginError(
            "the cluster does not accept your login",
            why=said,
            remedy="log in again, or name another context with --context.",
        )
    if any(word in lower for word in _NO_CLUSTER):
        return PluginError(
            "no cluster answers",
            why=said,
            remedy="`kubectl config get-contexts` lists the clusters that you know; "
            "name one with --context, or a file with --kubeconfig.",
        )
    return PluginError(f"`{shown(words)}` exited with status {status}", why=said)


def shown(words: Sequence[str]) -> str:
    """The command as it can be typed, shortened."""
    text = " ".join(["kubectl", *words])
    return text if len(text) <= 160 else f"{text[:157]}..."


def _said(stderr: str) -> str:
    """The last lines that are meant for people: not those of kubectl's log."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    plain = [line for line in lines if not _LOG_LINE.match(line)] or lines
    return "; ".join(line.removeprefix("error: ") for line in plain[-MOST_LINES:])

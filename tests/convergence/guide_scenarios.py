"""Scenarios of the guides' kinds, in a copy of the repository that has them (`test_guide_kinds.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME
from tests.apiserver.support.http_members import Server, server

GREETING, ERRAND, ENSEMBLE = (f"{name}.toys.example.com" for name in ("greetings", "errands", "ensembles"))

Spec = Callable[[str], Json]


def kinds() -> Iterator[tuple[str, Spec, Mapping[str, Json]]]:
    """The CRD's name, the first spec by namespace, and the edits of it, of each kind that is there."""
    found: Mapping[str, tuple[Spec, Mapping[str, Json]]] = {
        GREETING: (lambda namespace: {"name": namespace}, {"change": {"name": "Grace"}}),
        ERRAND: (
            lambda namespace: {"image": "kindling.invalid/any:1", "farewell": True},
            {"another run": {"run": 2}, "without a last run": {"farewell": False}},
        ),
        ENSEMBLE: (
            lambda namespace: {"members": _members(namespace), "primary": "m0", "version": "1"},
            {"another primary": {"primary": "m2"}, "another version": {"version": "2"}},
        ),
    }
    for crd, (spec, edits) in found.items():
        if crd in KINDS_BY_NAME:
            yield crd, spec, edits


def _members(namespace: str) -> list[Json]:
    """One server for all members, which distinguishes them by the prefix of their paths."""
    port = _server().server_port
    names = [f"m{number}" for number in range(3)]
    return [
        {"name": name, "host": "127.0.0.1", "port": port, "path": f"/{namespace}/{name}"} for name in names
    ]


_RUNNING: list[Server] = []
_STACK = ExitStack()
"""Keeps the server's context, whose end would stop it."""


def _server() -> Server:
    """Begun with the first scenario that needs it, and ended with this process."""
    if not _RUNNING:
        _RUNNING.append(_STACK.enter_context(server()))
    return _RUNNING[0]

"""Whether the watches are alive: for each path that is to be watched, when its watch last began.

Kopf reconnects for ever and in silence, whatever goes wrong, and skips a kind that it does not find; so
a process may look healthy and get no events. Each watch is ended after a set time, by the server and, if
that does not, by kopf: so a healthy one is restarted at least that often, and events need not be
counted. Seen where the requests pass, since kopf itself reports nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import aiohttp

from kindling.kube.resources import ResourceType

METADATA = "?metadata"
"""Behind a path: its second watch, of all objects by their metadata, which is there on demand."""


def paths_of(types: Sequence[ResourceType], namespaces: Sequence[str]) -> dict[str, ResourceType]:
    """The paths to be watched; without namespaces, those of the whole cluster."""
    where: Sequence[str | None] = namespaces or [None]
    return {type.path(namespace=namespace): type for type in types for namespace in where}


class WatchMonitor:
    """`middleware` is for the session that lists and watches; the probes read the rest."""

    def __init__(
        self,
        paths: Mapping[str, ResourceType],
        *,
        seconds: float,
        relisted: Callable[[ResourceType], None],
        optional: Collection[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds` is how long a watch lasts at most; one that did not begin for twice as long is lost.

        Those of the paths that are `optional` are watched only from `begin` to `end`, as those on demand are.
        `relisted` is called for each list but a path's first: a watch was lost, and deletions with it.
        """
        self._limit = 2 * seconds
        self._paths = paths
        self._relisted = relisted
        self._monotonic = monotonic
        always = [path for path in paths if not path.endswith(METADATA) and path not in optional]
        self._began = dict.fromkeys(always, monotonic())
        self._listed: set[str] = set()
        self._unstarted = set(always)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def not_started(self) -> str | None:
        """What was never watched so far, in a sentence. Once empty, all was listed: a watch comes after."""
        return f"not watched yet: {_some(sorted(self._unstarted))}" if self._unstarted else None

    @property
    def stalled(self) -> str | None:
        """Which watches were not restarted for too long, in a sentence."""
        now = self._monotonic()
        late = {path: now - began for path, began in self._began.items() if now - began > self._limit}
        if not late:
            return None
        return f"watch stalled: no watch for {max(late.values()):.0f} s on {_some(sorted(late))}"

    def begin(self, path: str) -> None:
        """A watch on demand is to be there from now on."""
        self._began[path] = self._monotonic()
        self._unstarted.add(path)

    def end(self, path: str) -> None:
        """It is not needed any more."""
        self._began.pop(path, None)
        self._unstarted.discard(path)
        self._listed.discard(path)

    async def middleware(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response = await handler(request)
        path = request.url.path
        if "labelSelector" not in request.url.query and path + METADATA in self._paths:
            path += METADATA
        if request.method == "GET" and response.status == 200 and path in self._paths:
            if request.url.query.get("watch") == "true":
                if path in self._began:
                    self._began[path] = self._monotonic()
                self._unstarted.discard(path)
            elif "continue" not in request.url.query:
                if path in self._listed:
                    self._relisted(self._paths[path])
                self._listed.add(path)
        return response


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more

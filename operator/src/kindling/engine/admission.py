"""What the cluster makes of children as they are written: a mutating webhook changes fields of ours, say.

Applied once more they would be the same again, at each reconciliation. So what differs right after our own
write is remembered for an hour, and left while it is just that: then the policy may be another.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import orjson

from kindling.engine.changes import change, value_at
from kindling.engine.plan import Action, Apply
from kindling.engine.store import Key
from kindling.kinds.planned import Change, Path
from kindling.kube.resources import Object, Ref, ref_of

REMEMBERED_SECONDS = 3600.0


class _Known(NamedTuple):
    """What differs, as a digest (there may be Secrets), and until when that is left."""

    digest: bytes
    until: float


class AdmissionChanges:
    """Of which children it is known, by resource."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Key, dict[Ref, _Known]] = {}

    def is_known(self, key: Key, action: Action, observed: Mapping[Ref, Object]) -> bool:
        """Whether the action would change just what was otherwise after it the last time."""
        children = self._known.get(key)
        if children is None or not isinstance(action, Apply) or action.new:
            return False
        known = children.get(ref_of(action.type, action.body))
        if known is None or self._clock() >= known.until:
            return False
        return known.digest == _digest(action, change(action, observed), observed)

    def learn(self, key: Key, action: Apply, observed: Mapping[Ref, Object]) -> Sequence[Path]:
        """Right after the action, which is due again; returns the fields that the cluster has otherwise."""
        found = change(action, observed)
        known = _Known(_digest(action, found, observed), self._clock() + REMEMBERED_SECONDS)
        self._known.setdefault(key, {})[found.ref] = known
        return found.paths

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)


def _digest(action: Apply, found: Change, observed: Mapping[Ref, Object]) -> bytes:
    live = observed.get(found.ref)
    paths = sorted([*found.paths, *found.left])
    values = [(path, value_at(action.body, path), value_at(live, path)) for path in paths]
    said = [action.drift, action.removes_fields, values]
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).digest()

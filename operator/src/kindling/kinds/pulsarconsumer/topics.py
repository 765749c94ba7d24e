"""Which topics a resource reads: one, several by name, or those of a namespace that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kindling.kube.resources import Object

DOMAIN = "persistent://"
LONGEST_LABEL = 512
MOST_MATCHING = 100
"""Of a pattern: as many as `spec.topics` takes."""


@dataclass(frozen=True, kw_only=True)
class Topics:
    """`names` as they were given, each topic once; or a `pattern`. `one`: it was given by `spec.topic`."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    one: bool = False

    @property
    def label(self) -> str:
        """For a person: as many names as fit, and how many more."""
        if self.pattern or len(self.names) < 2:
            return self.pattern or "".join(self.names)
        shown = ", ".join(self.names)
        count = len(self.names)
        while len(shown) > LONGEST_LABEL and count > 1:
            count -= 1
            shown = f"{', '.join(self.names[:count])} and {len(self.names) - count} more"
        return shown


def read(cr: Object) -> Topics:
    """Total over what the CRD admits, and over what an older one admitted."""
    spec = cr.get("spec") or {}
    if spec.get("topicsPattern"):
        return Topics(pattern=str(spec["topicsPattern"]))
    if spec.get("topics"):
        names: dict[str, str] = {}
        for name in spec["topics"]:
            names.setdefault(plain(str(name)), str(name))
        return Topics(names=tuple(names.values()))
    return Topics(names=(str(spec.get("topic", "")),), one=True)


def plain(name: str) -> str:
    """TENANT/NAMESPACE/TOPIC; of what is not persistent, as it is: that is another topic."""
    rest = name.removeprefix(DOMAIN)
    return rest if "/" in rest else f"public/default/{rest}"


def namespace_of(pattern: str) -> tuple[str, str]:
    """Tenant and namespace."""
    tenant, namespace, *_ = pattern.removeprefix(DOMAIN).split("/")
    return tenant, namespace


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of the broker's list that the consumers read, as their client chooses: a topic with partitions
    once, and the name as a whole. In order.

    To be called where there is a deadline: what a pattern asks for may take long.
    """
    expression = re.compile(pattern.removeprefix(DOMAIN), re.ASCII)
    found = {name.partition("-partition-")[0] for name in names if name.startswith(DOMAIN)}
    return sorted(name for name in found if expression.fullmatch(name.removeprefix(DOMAIN)))

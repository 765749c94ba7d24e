"""What a process of this configuration looks at: its kinds, and which types it lists whole or by our label.

The operator follows these (`__main__`), and `kindling.diff` lists them: what one sees, the other sees.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kindling.config import Config
from kindling.kinds.base import Kind
from kindling.kinds.registry import Options, kinds_with
from kindling.kube.resources import SECRET, ResourceType


@dataclass(frozen=True, kw_only=True)
class Served:
    """`resources` are the types of the kinds, `watches` those of which they look at others' objects too.

    Of these, `on_demand` are listed by their metadata and while somebody looks at one, `unselected` in any
    case. `children` are all other types to follow: by our label, unless they are unselected. Those of
    `optional` are followed so too, in a cluster that has them.
    """

    options: Options
    kinds: Sequence[Kind]
    resources: list[ResourceType]
    watches: Sequence[ResourceType]
    on_demand: Sequence[ResourceType]
    unselected: Sequence[ResourceType]
    children: Sequence[ResourceType]
    optional: Sequence[ResourceType]

    @property
    def by_name(self) -> Mapping[str, Kind]:
        """The kinds by the `group_kind` of their type."""
        return {kind.type.group_kind: kind for kind in self.kinds}


def served(config: Config, *, without: Collection[ResourceType] = ()) -> Served:
    """`without` are types of kinds that the cluster does not have.

    :raises InvalidConfig: for an image that is not set.
    """
    options = Options(
        images=config.images,
        operator_namespace=config.namespace,
        local_broker=config.local_broker,
        pull_secrets=config.pull_secrets,
        certificate_life=timedelta(seconds=config.certificate_seconds),
        only=config.kinds,
        namespaces=config.watch_namespaces,
    )
    found = [kind for kind in kinds_with(options) if kind.type not in without]
    resources = [kind.type for kind in found]
    watches = list(dict.fromkeys(type for kind in found for type in kind.watches if type not in without))
    # Secrets are watched whole: they come as metadata in any case.
    on_demand = [type for type in watches if type != SECRET and type not in resources]
    unselected = [type for type in watches if type not in on_demand]
    # The resources themselves are followed by kopf, also where another kind looks at them or makes some.
    children = [
        type
        for type in dict.fromkeys([type for kind in found for type in kind.children] + unselected)
        if type not in resources and type not in without
    ]
    return Served(
        options=options,
        kinds=found,
        resources=resources,
        watches=watches,
        on_demand=on_demand,
        unselected=unselected,
        children=children,
        optional=list(dict.fromkeys(type for kind in found for type in kind.optional)),
    )

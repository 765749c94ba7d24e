"""What users and others do to a workload of resources, at random: edits, deletions, tampering with children.

Apart from the soak, which knows when and how long; here is what. Every edit is one that the CRD admits. The
number of resources stays the same, so that what the operator holds in the steady state can be compared.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

from kindling.kinds.base import Kind
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Ref,
    ResourceType,
)

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path, ref_to
from tests.apiserver.support.kinds import (
    MEMCACHED,
    MINIMAL_SPECS,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    merged,
)

FRIENDS = 10
# Four kinds, one of them in two groups.
SHARES = {
    MEMCACHED.id: 2,
    PULSAR_CONSUMER.id: 2,
    MY_CUSTOM_RESOURCE.id: 2,
    POSTGRESQL.id: 1,
    POSTGRESQL_EXAMPLE.id: 1,
}
SPECS: Mapping[str, Callable[[random.Random], Json]] = {
    MEMCACHED.id: lambda draw: {"size": draw.randint(1, 3)},
    PULSAR_CONSUMER.id: lambda draw: {"replicas": draw.randint(0, 2), "topic": f"topic-{draw.randint(1, 3)}"},
    MY_CUSTOM_RESOURCE.id: lambda draw: {"name": f"friend-{draw.randrange(FRIENDS)}"},
    **dict.fromkeys(
        (POSTGRESQL.id, POSTGRESQL_EXAMPLE.id),
        lambda draw: {
            "password": f"password-{draw.randint(1, 3)}",
            "parameters": {"work_mem": f"{draw.randint(4, 8)}MB"},
            "deletionPolicy": "Delete",  # Or the volumes of all that ever were would be held.
        },
    ),
}
"""Changes of a spec, as merge patches."""

_DATABASE = (
    (SECRET, "{}-superuser"),
    (SECRET, "{}-binding"),
    (CONFIG_MAP, "{}-config"),
    (SERVICE, "{}"),
    (NETWORK_POLICY, "{}"),
    (STATEFUL_SET, "{}"),
)
CHILDREN: Mapping[str, tuple[tuple[ResourceType, str], ...]] = {
    MEMCACHED.id: ((NETWORK_POLICY, "{}"), (SERVICE, "{}"), (DISRUPTION_BUDGET, "{}"), (DEPLOYMENT, "{}")),
    PULSAR_CONSUMER.id: ((NETWORK_POLICY, "{}-deployment"), (DEPLOYMENT, "{}-deployment")),
    POSTGRESQL.id: _DATABASE,
    POSTGRESQL_EXAMPLE.id: _DATABASE,
}
"""All but volumes, which live on until somebody lets them go."""

_SCALED: Json = {"spec": {"replicas": 4}}
TAMPERING: Mapping[ResourceType, Json] = {
    DEPLOYMENT: _SCALED,
    STATEFUL_SET: _SCALED,
    SERVICE: {"spec": {"selector": {"edited": "yes"}}},
    NETWORK_POLICY: {"spec": {"podSelector": {"matchLabels": {"edited": "yes"}}}},
}
# Out of the operator's watch, by its label; the owner reference still shows whose it is.
UNLABELLED: Json = {"metadata": {"labels": None}}


class RandomWorkload:
    """`count` resources in one namespace; `edit` does one thing to one of them."""

    def __init__(self, cluster: Cluster, namespace: str, *, count: int, draw: random.Random) -> None:
        self.done: Counter[str] = Counter()
        """What was done so far, by its name."""
        self._cluster = cluster
        self._namespace = namespace
        self._draw = draw
        kinds = [crd for crd, share in SHARES.items() for _ in range(share)]
        self._kinds = [kinds[number % len(kinds)] for number in range(count)]
        self._names = [f"r{number}" for number in range(count)]
        self._born = count
        self._edits: list[tuple[int, Callable[[int], None]]] = [
            (8, self.change),
            (3, self.tamper),
            (2, self.remove_child),
            (1, self.unlabel_child),
            (2, self.replace),
            (1, self.remake),
            (1, self.toggle_pod),
        ]

    def make(self) -> None:
        for number in range(len(self._names)):
            self._create(number)

    def refs(self) -> list[Ref]:
        kinds_by_name = zip(self._kinds, self._names, strict=True)
        return [ref_to(KINDS_BY_NAME[crd], self._namespace, name) for crd, name in kinds_by_name]

    def edit(self) -> None:
        weights = [weight for weight, _ in self._edits]
        _, edit = self._draw.choices(self._edits, weights)[0]
        edit(self._draw.randrange(len(self._names)))
        self.done[edit.__name__] += 1

    def change(self, number: int) -> None:
        """The resource itself."""
        crd = self._kinds[number]
        self._merge(self._ref(number), {"spec": SPECS[crd](self._draw)})

    def tamper(self, number: int) -> None:
        child = self._child(number)
        if child is not None:
            self._merge(child, TAMPERING.get(child.type, UNLABELLED))

    def unlabel_child(self, number: int) -> None:
        child = self._child(number)
        if child is not None:
            self._merge(child, UNLABELLED)

    def remove_child(self, number: int) -> None:
        child = self._child(number)
        if child is not None:
            self._delete(child)

    def replace(self, number: int) -> None:
        """Gone, and another one comes."""
        self._delete(self._ref(number))
        self._names[number] = f"r{self._born}"
        self._born += 1
        self._create(number)

    def remake(self, number: int) -> None:
        """Gone, and there again under its name, while the children of the first are still to be removed."""
        self._delete(self._ref(number))
        self._create(number)

    def toggle_pod(self, number: int) -> None:
        """A Pod of a name that resources look for comes, or goes."""
        friend = Ref(POD, self._namespace, f"friend-{number % FRIENDS}")
        if self._cluster.get(friend) is not None:
            self._delete(friend)
        else:
            body = {
                "metadata": {"name": friend.name},
                "spec": {"containers": [{"name": "c", "image": "c:1"}]},
            }
            self._cluster.api.create(POD.path(namespace=self._namespace), body)

    def _ref(self, number: int) -> Ref:
        return ref_to(self._kind(number), self._namespace, self._names[number])

    def _kind(self, number: int) -> Kind:
        return KINDS_BY_NAME[self._kinds[number]]

    def _child(self, number: int) -> Ref | None:
        children = CHILDREN.get(self._kinds[number])
        if children is None:
            return None
        type, name = self._draw.choice(children)
        return Ref(type, self._namespace, name.format(self._names[number]))

    def _create(self, number: int) -> None:
        crd = self._kinds[number]
        spec = merged(MINIMAL_SPECS[crd], SPECS[crd](self._draw))
        self._cluster.create(self._kind(number), self._namespace, self._names[number], spec)

    # Of the following each may find nothing: what it is meant for was deleted a moment ago.
    def _merge(self, ref: Ref, patch: Json) -> None:
        answer = self._cluster.api.merge(path(ref), patch)
        assert answer.status in (200, 404, 409), f"{ref}: {answer.status} {answer.message}"

    def _delete(self, ref: Ref) -> None:
        answer = self._cluster.api.delete(path(ref))
        assert answer.status in (200, 202, 404), f"{ref}: {answer.status} {answer.message}"

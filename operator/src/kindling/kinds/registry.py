"""Which kinds there are: one line each. A new kind is a room beside this file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kindling.kinds.contract import Kind
from kindling.kinds.memcached import Memcached
from kindling.kinds.mycustomresource import MyCustomResource
from kindling.kinds.postgresql import Postgresql
from kindling.kinds.pulsarconsumer import PulsarConsumer


class Told(NamedTuple):
    """What a room is told of the process; see `kinds`."""

    images: Mapping[str, str]
    operator_namespace: str
    local_broker: str


def _postgresql(told: Told, group: str) -> Kind:
    return Postgresql(group=group, image=told.images["postgres"], operator_namespace=told.operator_namespace)


# Made when it is to be served: the image of one that is not need not be there.
_ROOMS: tuple[tuple[str, Callable[[Told], Kind]], ...] = (
    ("Postgresql", lambda told: _postgresql(told, "database.technotuesday.io")),
    ("Postgresql", lambda told: _postgresql(told, "database.db.example.com")),
    (
        "Memcached",
        lambda told: Memcached(image=told.images["memcached"], operator_namespace=told.operator_namespace),
    ),
    (
        "PulsarConsumer",
        lambda told: PulsarConsumer(image=told.images["pulsar-consumer"], local_broker=told.local_broker),
    ),
    ("MyCustomResource", lambda _: MyCustomResource()),
)
NAMES = tuple(dict.fromkeys(name for name, _ in _ROOMS))
"""Every kind's name; one name may be served in several groups."""


def kinds(
    images: Mapping[str, str],
    *,
    operator_namespace: str = "kindling-system",
    local_broker: str = "",
    only: Collection[str] = (),
) -> list[Kind]:
    """The kinds of these names, all where none is named.

    `images` has the image of each folder under operator/images, by the folder's name. Workloads that take
    connections admit the operator's Pods in `operator_namespace`.
    """
    told = Told(images, operator_namespace, local_broker)
    return [make(told) for name, make in _ROOMS if not only or name in only]

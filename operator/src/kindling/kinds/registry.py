"""Which kinds there are: one line each. A new kind is a room beside this file and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from kindling.kinds.contract import Kind
from kindling.kinds.memcached import Memcached
from kindling.kinds.mycustomresource import MyCustomResource
from kindling.kinds.postgresql import Postgresql
from kindling.kinds.pulsarconsumer import PulsarConsumer


def kinds(images: Mapping[str, str], *, local_broker: str = "") -> list[Kind]:
    """Every kind. `images` has the image of each folder under operator/images, by the folder's name."""
    return [
        Postgresql(group="database.technotuesday.io", image=images["postgres"]),
        Postgresql(group="database.db.example.com", image=images["postgres"]),
        Memcached(image=images["memcached"]),
        PulsarConsumer(image=images["pulsar-consumer"], local_broker=local_broker),
        MyCustomResource(),
    ]

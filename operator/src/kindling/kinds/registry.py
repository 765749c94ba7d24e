"""The kinds, one line each. A new kind is a package beside this file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from kindling.kinds.backup import Backup
from kindling.kinds.base import Kind
from kindling.kinds.bindingimport import BindingImport
from kindling.kinds.memcached import Memcached
from kindling.kinds.mycustomresource import MyCustomResource
from kindling.kinds.postgresql import Postgresql
from kindling.kinds.pulsarconsumer import PulsarConsumer
from kindling.kinds.restore import Restore
from kindling.kinds.server_tls import DEFAULT_LIFE


class Options(NamedTuple):
    """What a kind needs to know of the process; see `kinds`. `only` are the kinds that it serves, and
    `namespaces` where; none named means all.
    """

    images: Mapping[str, str]
    operator_namespace: str
    local_broker: str
    pull_secrets: Sequence[str]
    certificate_life: timedelta
    only: Collection[str] = ()
    namespaces: Collection[str] = ()


def _postgresql(options: Options, group: str) -> Kind:
    return Postgresql(
        group=group,
        image=options.images["postgres"],
        init_image=options.images["postgres-init"],
        exporters_image=options.images["exporters"],
        operator_namespace=options.operator_namespace,
        pull_secrets=options.pull_secrets,
        certificate_life=options.certificate_life,
        imports_served=not options.only or "BindingImport" in options.only,
        namespaces=options.namespaces,
    )


def _memcached(options: Options) -> Kind:
    return Memcached(
        image=options.images["memcached"],
        exporters_image=options.images["exporters"],
        operator_namespace=options.operator_namespace,
        pull_secrets=options.pull_secrets,
        certificate_life=options.certificate_life,
        may_keep_secrets=not options.only or "Postgresql" in options.only,
    )


def _pulsar_consumer(options: Options) -> Kind:
    return PulsarConsumer(
        image=options.images["pulsar-consumer"],
        local_broker=options.local_broker,
        pull_secrets=options.pull_secrets,
        operator_namespace=options.operator_namespace,
    )


def _backup(options: Options) -> Kind:
    return Backup(image=options.images["postgres-backup"], pull_secrets=options.pull_secrets)


def _restore(options: Options) -> Kind:
    return Restore(
        image=options.images["postgres-backup"],
        pull_secrets=options.pull_secrets,
        operator_namespace=options.operator_namespace,
    )


def _binding_import(options: Options) -> Kind:
    served = not options.only or "Postgresql" in options.only
    return BindingImport(namespaces=options.namespaces, databases_served=served)


# Made when it is to be served: the image of one that is not need not be there.
_KINDS: tuple[tuple[str, Callable[[Options], Kind]], ...] = (
    ("Postgresql", lambda options: _postgresql(options, "database.technotuesday.io")),
    ("Postgresql", lambda options: _postgresql(options, "database.db.example.com")),
    ("Memcached", _memcached),
    ("PulsarConsumer", _pulsar_consumer),
    ("MyCustomResource", lambda _: MyCustomResource()),
    ("Backup", _backup),
    ("Restore", _restore),
    ("BindingImport", _binding_import),
)
NAMES = tuple(dict.fromkeys(name for name, _ in _KINDS))
"""Every kind's name; one name may be served in several groups."""


def kinds(
    images: Mapping[str, str],
    *,
    operator_namespace: str = "kindling-system",
    local_broker: str = "",
    pull_secrets: Sequence[str] = (),
    only: Collection[str] = (),
    certificate_life: timedelta = DEFAULT_LIFE,
) -> list[Kind]:
    """The kinds of these names, all where none is named.

    `images` has the image of each folder under operator/images, by the folder's name. Workloads that take
    connections admit the operator's Pods in `operator_namespace`. `pull_secrets`, each of the resource's
    own namespace, are for these images. Certificates that are made are valid for `certificate_life`.
    """
    return kinds_with(Options(images, operator_namespace, local_broker, pull_secrets, certificate_life, only))


def kinds_with(options: Options) -> list[Kind]:
    return [make(options) for name, make in _KINDS if not options.only or name in options.only]

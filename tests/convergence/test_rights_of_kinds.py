"""An operator of some kinds converges with exactly the rights of those, and waits for no other definition.

For each kind alone: a resource comes, one changes, children are edited and deleted. All that is granted for
the kind is used, and nothing is denied. A stack of Memcached only has no right on any Secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.metadata import NAME_LABEL
from kindling.kube.resources import CONFIG_MAP, LEASE, POD, SECRET, VOLUME_CLAIM, Ref

from infra import rbac
from infra.components import images
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import ACCOUNT, KINDS_BY_NAME, NAMESPACE, Cluster, cluster
from tests.apiserver.support.kinds import (
    CRD_COLLECTION,
    MEMCACHED,
    MINIMAL_SPECS,
    OF_ANOTHER,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    WITH_A_STORE,
)
from tests.apiserver.support.operator_process import operator
from tests.convergence.rights import denied, granted, of_cert_manager, of_kinds, used

SECONDS = 90.0
LEADER = Ref(LEASE, NAMESPACE, ACCOUNT)
IN_TROUBLE = "list events.events.k8s.io"
"""ProxiedRequest for when something has been in trouble for long: `test_rights` has such a resource."""
KEPT = (POD, SECRET, VOLUME_CLAIM)
"""Not deleted: by hand one would lose a password or data."""
_OF_A_DATABASE: Json = {"deletionProtection": True, "hibernateAfter": "168h", "wakeOnConnection": True}
ADDED: dict[str, Json] = {
    MEMCACHED.id: {"size": 2, "binding": "ConfigMap"},
    PULSAR_CONSUMER.id: {
        "auth": {"tokenSecretRef": {"name": "token"}},
        "handler": {"python": {"configMapRef": {"name": "code"}, "handler": "orders:handle"}},
        "adminURL": "http://nobody.invalid:8080",
        "deletionPolicy": "Unsubscribe",
    },
    POSTGRESQL.id: _OF_A_DATABASE,
    POSTGRESQL_EXAMPLE.id: _OF_A_DATABASE,
}
DAMAGED: dict[str, Json] = {MEMCACHED.id: {"workload": "StatefulSet"}}
"""What is of those that lose children, beside that."""
CHANGED: dict[str, tuple[Json, ...]] = {
    MEMCACHED.id: (
        {"workload": "StatefulSet"},
        {"size": 1, "binding": None},
        {"workload": "Deployment"},
    )
}
"""One after the other."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose Roles may be changed without harm to other tests."""
    with cluster(directory=tmp_path_factory.mktemp("rights-of-kinds")) as running:
        yield running


def environment(*kinds: str) -> dict[str, str]:
    """As the stack sets it: the images of others are not there."""
    absent = set(images.operands()) - set(images.operands(kinds))
    return {
        "RES_OPTIONS": "timeout:1 attempts:1",
        "KINDLING_KINDS": ",".join(kinds),
        **{f"KINDLING_IMAGE_{name.upper().replace('-', '_')}": "" for name in absent},
    }


class Scenario:
    """Resources of a kind in a namespace of their own, of each group that it has."""

    def __init__(self, place: Cluster, namespace: str, kinds_by_name: dict[str, Kind]) -> None:
        self._place, self._namespace, self._kinds_by_name = place, place.namespace(namespace), kinds_by_name
        secret = {"metadata": {"name": "token"}, "stringData": {"token": "canary"}}
        place.api.create(SECRET.path(namespace=namespace), secret).accepted()
        code = {"metadata": {"name": "code"}, "data": {"orders.py": "def handle(message): ..."}}
        place.api.create(CONFIG_MAP.path(namespace=namespace), code).accepted()

    def _each(self, sort: str) -> Iterator[tuple[str, Kind, Ref]]:
        for number, (crd, served) in enumerate(self._kinds_by_name.items()):
            yield crd, served, Ref(served.type, self._namespace, f"{sort}-{number}")

    def _all(self) -> list[Ref]:
        return [ref for sort in ("edited", "damaged", "changed") for _, _, ref in self._each(sort)]

    def _children(self, sort: str) -> Iterator[Ref]:
        for _, served, ref in self._each(sort):
            yield from (
                child for child in self._place.children(served, ref.namespace, ref.name) if child.type != POD
            )

    def begin(self) -> None:
        for sort in ("edited", "damaged", "changed"):
            for crd, served, ref in self._each(sort):
                more = DAMAGED.get(crd, {}) if sort == "damaged" else {}
                spec = {**MINIMAL_SPECS[crd], **ADDED.get(crd, {}), **more}
                self._place.create(served, ref.namespace, ref.name, spec)
        self._place.wait_settled(*self._all(), seconds=SECONDS)

    def change(self) -> None:
        """Each is set right before this returns."""
        edited = list(self._children("edited"))
        lost = [child for child in self._children("damaged") if child.type not in KEPT]
        for child in edited:
            self._place.merge(child, {"metadata": {"labels": {NAME_LABEL: "edited"}}})
        uids = {}
        for child in lost:
            uids[child] = self._uid(child)
            self._place.delete(child)
        for crd, _, ref in self._each("changed"):
            for spec in CHANGED.get(crd, ({},)):
                self._place.merge(ref, {"spec": spec})
                self._place.wait_settled(ref, seconds=SECONDS)
        for child in edited:
            wait_until(
                partial(self._labelled, child), seconds=SECONDS, what=f"{child} being labelled as it was"
            )
        for child, before in uids.items():
            back = partial(self._is_replaced, child, before)
            wait_until(back, seconds=SECONDS, what=f"{child} being there again")
        self._place.wait_settled(*self._all(), seconds=SECONDS)

    def _is_replaced(self, ref: Ref, before: str | None) -> bool:
        return self._uid(ref) not in (None, before)

    def _uid(self, ref: Ref) -> str | None:
        found = self._place.get(ref)
        return None if found is None else str(found["metadata"]["uid"])

    def _labelled(self, ref: Ref) -> bool:
        found = self._place.get(ref) or {"metadata": {}}
        return bool(found["metadata"].get("labels", {}).get(NAME_LABEL, "edited") != "edited")


def kinds_named(kind: str) -> dict[str, Kind]:
    return {crd: served for crd, served in KINDS_BY_NAME.items() if served.type.kind == kind}


@pytest.mark.parametrize("kind", sorted(rbac.NEEDS.keys() - WITH_A_STORE - OF_ANOTHER))
def test_every_right_of_a_kind_is_used_and_no_other_is_asked_for(place: Cluster, kind: str) -> None:
    if place.get(LEADER) is not None:
        place.delete(LEADER)
    with of_kinds(place, [kind]):
        mark = place.audit.mark()
        with operator(place.operator_plane, env=environment(kind), kept=True) as process:
            process.wait_ready()
            scenario = Scenario(place, f"only-{kind.lower()}", kinds_named(kind))
            scenario.begin()
            scenario.change()
        requests = place.audit.requests(mark)
        assert denied(requests) == set()
        here = set(granted([kind])) - of_cert_manager()
        named, given = ({str(right) for right in some} for some in (used(requests), here))
        assert named - {IN_TROUBLE} == given - {IN_TROUBLE}
        assert any(right.resource == "secrets" for right in used(requests)) == (
            kind in ("Postgresql", "PulsarConsumer")
        )


def test_the_definitions_of_others_need_not_be_there(place: Cluster) -> None:
    """Last, as they do not come back."""
    for crd, served in KINDS_BY_NAME.items():
        if served.type.kind != "Memcached":
            place.api.delete(f"{CRD_COLLECTION}/{crd}").accepted()
    with (
        of_kinds(place, ["Memcached"]),
        operator(place.operator_plane, env=environment("Memcached"), kept=True) as process,
    ):
        process.wait_ready()
        Scenario(place, "exclusive", kinds_named("Memcached")).begin()
        assert "waiting for CRDs" not in process.log()

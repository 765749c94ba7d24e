"""A BindingImport of what the operator does not serve, by namespace or by kind: who has to change what."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kindling.kinds.postgresql.exports import BINDING_IMPORT
from kindling.kube.resources import Ref

from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster
from tests.apiserver.support.operator_process import operator


@pytest.mark.parametrize(
    ("name", "settings"),
    [("namespace", {}), ("kind", {"KINDLING_KINDS": "BindingImport"})],
    ids=["another namespace", "another kind"],
)
def test_what_is_not_served_is_reported_until_it_is(
    running_cluster: Cluster, name: str, settings: Mapping[str, str]
) -> None:
    cluster = running_cluster
    here, there = (cluster.namespace(f"{side}-of-another-{name}") for side in ("receiver", "giver"))
    wanted = Ref(BINDING_IMPORT, here, "shop")
    kind = KINDS_BY_NAME[f"{BINDING_IMPORT.plural}.{BINDING_IMPORT.group}"]
    served = here if not settings else f"{here},{there}"
    with operator(cluster.operator_plane, namespaces=served, env=settings, kept=True) as running:
        running.wait_ready()
        cluster.create(kind, here, "shop", {"databaseRef": {"namespace": there, "name": "shop"}})
        message = cluster.wait_ready_reason(wanted, "NotServed")["message"]
        assert f"serves no Postgresqls in namespace {there}" in message
        assert "`kindling:watchNamespaces`" in message
        assert "`kindling:kinds`" in message
    with operator(cluster.operator_plane, namespaces=f"{here},{there}", kept=True) as running:
        running.wait_ready()
        cluster.wait_ready_reason(wanted, "NotExported")
    for namespace in (here, there):
        cluster.api.delete(f"/api/v1/namespaces/{namespace}")

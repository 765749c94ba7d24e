"""Kubernetes' own view, edit and admin with the kinds' roles aggregated into them: real users, each bound.

The aggregation is the real controller's. Who has `edit` in a namespace may do with our kinds what he may do
with Deployments, there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import pytest

from infra import rbac
from tests.apiserver.support.accounts import GROUP, with_rights
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import Cluster, role_rule
from tests.apiserver.support.kinds import KINDS, MEMCACHED, MINIMAL_SPECS, POSTGRESQL, Kind

ROLES = f"/apis/{GROUP}/v1/clusterroles"
SECONDS = 30.0
FORBIDDEN = 403


@pytest.fixture(scope="module")
def users(running_cluster: Cluster, namespace: str) -> Iterator[dict[str, Api]]:
    """A user for each of the roles, bound to Kubernetes' own of that name in the namespace."""
    admin = running_cluster.api
    for role in rbac.USER_ROLES:
        body = {
            "metadata": {"name": f"kindling-{role}", "labels": rbac.aggregated(role)},
            "rules": [role_rule(rule) for rule in rbac.user_rules(role)],
        }
        admin.create(ROLES, body).accepted()
    with ExitStack() as stack:
        found = {}
        for role in rbac.USER_ROLES:
            way = with_rights(
                running_cluster.plane, admin, namespace=namespace, account=f"a-{role}", rules=[]
            )
            binding = {
                "metadata": {"name": f"built-in-{role}"},
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": f"a-{role}", "namespace": namespace}],
            }
            admin.create(f"/apis/{GROUP}/v1/namespaces/{namespace}/rolebindings", binding).accepted()
            found[role] = stack.enter_context(closing(Api(way)))
        for role, user in found.items():
            wait_until(
                partial(_reads, user, namespace),
                seconds=SECONDS,
                what=f"the kinds being part of {role}",
            )
        yield found
    for role in rbac.USER_ROLES:
        admin.delete(f"{ROLES}/kindling-{role}")


def _reads(user: Api, namespace: str) -> bool:
    return user.get(path(POSTGRESQL, namespace)).status == 200


def path(kind: Kind, namespace: str, name: str = "") -> str:
    collection = kind.collection.replace("/namespaces/default/", f"/namespaces/{namespace}/")
    return f"{collection}/{name}" if name else collection


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_view_reads_edit_changes_admin_empties(users: dict[str, Api], namespace: str, kind: Kind) -> None:
    view, edit, admin = (users[role] for role in rbac.USER_ROLES)
    collection, one = path(kind, namespace), path(kind, namespace, "one")
    body = kind.resource("one", MINIMAL_SPECS[kind.id])
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert view.create(collection, body).status == FORBIDDEN
    edit.create(collection, body).accepted()
    view.get(collection).accepted()
    view.get(one).accepted()
    view.get(f"{one}/status").accepted()
    assert view.merge(one, patch).status == view.delete(one).status == FORBIDDEN
    made = edit.merge(one, patch).accepted()
    edit.request("PUT", one, body=made).accepted()
    assert edit.merge(f"{one}/status", {"status": {}}).status == FORBIDDEN, "the operator's"
    assert edit.delete(collection).status == FORBIDDEN
    edit.delete(one).accepted()
    admin.create(collection, body).accepted()
    admin.delete(collection).accepted()
    assert view.get(one).status == 404


def test_scale_is_read_by_view_and_written_by_edit(users: dict[str, Api], namespace: str) -> None:
    scale = f"{path(MEMCACHED, namespace, 'scaled')}/scale"
    users["edit"].create(path(MEMCACHED, namespace), MEMCACHED.resource("scaled", {"size": 1})).accepted()
    users["view"].get(scale).accepted()
    assert users["view"].merge(scale, {"spec": {"replicas": 2}}).status == FORBIDDEN
    assert users["edit"].merge(scale, {"spec": {"replicas": 2}}).accepted()["spec"]["replicas"] == 2


def test_no_role_reaches_further(users: dict[str, Api], namespace: str) -> None:
    """View reads no Secrets, not with our kinds either, and none of them reaches other namespaces."""
    assert users["view"].get(f"/api/v1/namespaces/{namespace}/secrets").status == FORBIDDEN
    for user in users.values():
        assert user.get(path(POSTGRESQL, "default")).status == FORBIDDEN
        assert user.create(path(POSTGRESQL, "default"), POSTGRESQL.resource("x", {})).status == FORBIDDEN

"""ServiceAccounts with rights of their own: each program comes to the API server under its own name.

Apart from `cluster`, because the measurements too need programs that the audit log can distinguish.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane, write_kubeconfig

GROUP = "rbac.authorization.k8s.io"
TOKEN_SECONDS = 24 * 3600

PolicyRule = Mapping[str, Any]


def user_name(namespace: str, account: str) -> str:
    """How the API server calls it, in its audit log among others."""
    return f"system:serviceaccount:{namespace}:{account}"


def with_rights(
    plane: ControlPlane,
    api: Api,
    *,
    namespace: str,
    account: str,
    rules: Sequence[PolicyRule],
    own_rules: Sequence[PolicyRule] = (),
) -> ControlPlane:
    """The way in as a new ServiceAccount that may do so much; its `own_rules` in its namespace alone.

    The namespace is made where it is missing; the kubeconfig bears the account's name.
    """
    if api.get(f"/api/v1/namespaces/{namespace}").status == 404:
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}}).accepted()
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": account}}).accepted()
    wide, own = f"/apis/{GROUP}/v1", f"/apis/{GROUP}/v1/namespaces/{namespace}"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    for collection, kind, granted in ((wide, "ClusterRole", rules), (own, "Role", own_rules)):
        metadata = {"name": account}
        body = {"metadata": metadata, "rules": list(granted)}
        api.create(f"{collection}/{kind.lower()}s", body).accepted()
        role = {"apiGroup": GROUP, "kind": kind, "name": account}
        binding = {"metadata": metadata, "roleRef": role, "subjects": [subject]}
        api.create(f"{collection}/{kind.lower()}bindings", binding).accepted()
    return log_in(plane, api, namespace=namespace, account=account, name=account)


def log_in(plane: ControlPlane, api: Api, *, namespace: str, account: str, name: str) -> ControlPlane:
    """The way in by a new token of the account, in a kubeconfig of that name."""
    token = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    issued = api.create(token, {"spec": {"expirationSeconds": TOKEN_SECONDS}}).accepted()
    limited = dataclasses.replace(
        plane, token=issued["status"]["token"], kubeconfig=plane.directory / f"{name}-kubeconfig"
    )
    write_kubeconfig(limited)
    return limited

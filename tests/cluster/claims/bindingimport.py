"""What a BindingImport says, compared with the two Secrets and with a login by the copy."""

from __future__ import annotations

import base64
from typing import Any

from tests.cluster.claims.contract import COMMON, Evidence, KindClaims, Reported
from tests.cluster.stack import Environment


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    meta, database = resource["metadata"], resource["spec"]["databaseRef"]
    role = resource["spec"].get("role", "").replace("_", "-")
    source = f"{database['name']}-role-{role}" if role else f"{database['name']}-binding"
    secrets = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item
        for item in environment.get("secrets", "-A")["items"]
    }
    name = f"{meta['name']}-binding"
    given, copy = secrets.get((database["namespace"], source)), secrets.get((meta["namespace"], name))
    same = given is not None and copy is not None and copy["data"] == given["data"]
    return Evidence(conditions={"Ready": str(same)}, facts={"copy": name if same else "", "data": copy})


def _binding(reported: Reported) -> None:
    """An application that reads the Secret finds the server by its name in the whole cluster."""
    assert (reported.status.get("binding") or {}).get("name", "") == reported.facts["copy"]
    if reported.facts["copy"]:
        host = base64.b64decode(reported.facts["data"]["data"]["host"]).decode()
        database = reported.resource["spec"]["databaseRef"]
        assert host == f"{database['name']}.{database['namespace']}.svc"


def _secret_column(reported: Reported) -> None:
    assert reported.cells["SECRET"].replace("<none>", "") == reported.facts["copy"]


def _from_column(reported: Reported) -> None:
    assert reported.cells["FROM"] == reported.resource["spec"]["databaseRef"]["namespace"]


def _database_column(reported: Reported) -> None:
    assert reported.cells["DATABASE"] == reported.resource["spec"]["databaseRef"]["name"]


def _role_column(reported: Reported) -> None:
    assert reported.cells["ROLE"].replace("<none>", "") == reported.resource["spec"].get("role", "")


CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.binding.name": _binding,
        "column From": _from_column,
        "column Database": _database_column,
        "column Role": _role_column,
        "column Secret": _secret_column,
    },
)

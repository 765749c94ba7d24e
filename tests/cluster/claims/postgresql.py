"""What a Postgresql says, compared with what the server and the programs in its Pod answer."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.cluster.claims.contract import COMMON, Evidence, KindClaims, Told
from tests.cluster.stack import Environment

# One login, as an application has it: through the Service, with what the binding says.
_ASK = """select json_build_object(
    'address', host(inet_server_addr()), 'user', current_user, 'database', current_database(),
    'owner', (select pg_get_userbyid(datdba) from pg_database where datname = current_database()))"""


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    meta = resource["metadata"]
    try:
        answer = json.loads(environment.psql(meta["name"], _ASK))
    except AssertionError:
        answer = {}
    inside = ("exec", f"{meta['name']}-0", "-n", meta["namespace"], "-c", "postgres", "--")
    said = environment.kubectl(*inside, "postgres", "--version")
    psql = (*inside, "psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-tA", "-c")
    pending = environment.kubectl(*psql, "select name from pg_settings where pending_restart order by 1")
    control = environment.kubectl(*inside, "pg_controldata", "--pgdata=/var/lib/postgresql/data/pgdata")
    serves = bool(answer) and answer["owner"] == answer["user"] == answer["database"]
    waits = bool(pending.split())
    paused = resource["spec"].get("paused", False)
    return Evidence(
        conditions={
            "Ready": str(serves and not waits),
            "Available": str(serves),
            "Progressing": str(waits and not paused),
            "Degraded": str(not serves),
        },
        facts={
            "answer": answer,
            "serves": serves,
            "version": re.fullmatch(r"postgres \(PostgreSQL\) (\d+\.\d+).*", said.strip())[1],  # type: ignore[index]
            "pending": pending.split(),
            "identifier": re.search(r"^Database system identifier: *(\d+)$", control, re.MULTILINE)[1],  # type: ignore[index]
        },
    )


def _phase(told: Told) -> None:
    assert told.status["pgPhase"] == ("up" if told.facts["serves"] else "Failed")


def _active(told: Told) -> None:
    """The Pod that answered is the one it names; what it has no use for is not there."""
    active = dict(told.status["active"])
    pod = told.environment.get("pod", active["name"], "-n", active["namespace"])
    assert active == {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    assert told.facts["answer"]["address"] == pod["status"]["podIP"]


def _version(told: Told) -> None:
    assert told.status["version"] == told.facts["version"]


def _image(told: Told) -> None:
    """What the Pod was made of, not what its StatefulSet has by now."""
    meta = told.resource["metadata"]
    where = "jsonpath={.spec.containers[?(@.name=='postgres')].image}"
    pod = told.environment.kubectl("get", "pod", f"{meta['name']}-0", "-n", meta["namespace"], "-o", where)
    assert told.status["image"] == pod.strip()


def _pending(told: Told) -> None:
    assert told.status.get("pendingRestart", []) == told.facts["pending"]


def _identifier(told: Told) -> None:
    """Of ephemeral data, which is meant to go, nothing is recorded."""
    ephemeral = (told.resource["spec"].get("storage") or {}).get("ephemeral", False)
    assert told.status.get("systemIdentifier") == (None if ephemeral else told.facts["identifier"])


def _binding(told: Told) -> None:
    """The evidence was had with this Secret, under the name that `Environment.psql` knows."""
    assert told.status["binding"]["name"] == f"{told.resource['metadata']['name']}-binding"
    assert told.facts["answer"]["user"]


def _phase_column(told: Told) -> None:
    assert told.cells["PHASE"] == ("up" if told.facts["serves"] else "Failed")


def _version_column(told: Told) -> None:
    assert told.cells["VERSION"] == told.facts["version"]


_REFERENCE = ("apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath")

CLAIMS = KindClaims(
    gather=gather,
    claims={
        **COMMON,
        "status.pgPhase": _phase,
        **{f"status.active.{name}": _active for name in _REFERENCE},
        "status.version": _version,
        "status.image": _image,
        "status.pendingRestart[]": _pending,
        "status.systemIdentifier": _identifier,
        "status.binding.name": _binding,
        "column Phase": _phase_column,
        "column Version": _version_column,
    },
)

"""In the place of the image `postgres-backup`: how a run's Pod ends, by the files that it mounts.

It leaves the very message that the image leaves, with the facts that the image says of each action. The store
knows one secret key; when a run with another one fails, the user puts the right one into the Secret.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from kindling.kinds.backup.repository import STORE
from kindling.kinds.backup.runs import CONTAINER, RUN_LABEL
from kindling.kinds.backup.stores import ACCESS_KEY, SECRET_KEY
from kindling.kube.resources import POD, SECRET
from postgres_backup import outcome

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.controlplane import ControlPlane

KEYS = "store"
"""The user's Secret with the store's keys, in each namespace."""
RIGHT, WRONG = "right", "wrong"

_BACKUP: Mapping[str, Any] = {
    "type": "full",
    "label": "20260101-000100F",
    "beginLSN": "0/2000028",
    "endLSN": "0/2000120",
    "beginWal": "000000010000000000000002",
    "endWal": "000000010000000000000002",
    "databaseBytes": 1000,
    "storedBytes": 100,
    "databaseErrors": False,
    "backups": 1,
    "timeline": 1,
    "expired": True,
}
_RECOVERED: Mapping[str, Any] = {
    "label": "20260101-000100F",
    "reachedLSN": "0/3000060",
    "reachedTime": "2026-01-01T00:02:30Z",
    "bytes": 1000,
}
_FACTS: Mapping[str, Mapping[str, Any]] = {
    "backup": _BACKUP,
    "verify": {
        **_RECOVERED,
        "archivedLSN": "0/4000000",
        "checks": ["pages", "amcheck"],
        "seconds": {"download": 1.2, "replay": 2.0, "check": 3.4, "total": 6.6},
    },
    "delete": {},
    "restore": {**_RECOVERED, "timeline": 2, "seconds": {"download": 1.2, "replay": 2.0, "total": 3.2}},
    "undo": {},
    "load": {**_RECOVERED, "seconds": {"download": 1.2, "replay": 2.0, "load": 1.1, "total": 4.3}},
}


_REFUSED: set[str] = set()
"""The uids of Pods whose key was wrong: asked a second time, they end the same, whatever the key is now."""


def keys(secret_key: str) -> dict[str, str]:
    """The content of KEYS."""
    return {ACCESS_KEY: "key", SECRET_KEY: secret_key}


def end(plane: ControlPlane, pod: Json) -> tuple[int, str]:
    """Exit status and termination message; of a Pod that is no run, 0 and none."""
    if RUN_LABEL not in (pod["metadata"].get("labels") or {}):
        return 0, ""
    (container,) = (item for item in pod["spec"]["containers"] if item["name"] == CONTAINER)
    program, now = container["command"][-1], time.time()
    with closing(Api(plane)) as api:
        uid = pod["metadata"]["uid"]
        if _has_server(api, pod):
            text = "there is a server on the volume of this run"
            reason = outcome.INVALID_REQUEST
            return 1, outcome.message(program, reason, text, began=now, ended=now, facts={})
        if uid not in _REFUSED and _secret_key(api, pod) == RIGHT:
            return _succeeded(program, now)
        _REFUSED.add(uid)
        path = SECRET.path(namespace=pod["metadata"]["namespace"], name=KEYS)
        api.merge(path, {"stringData": keys(RIGHT)}).accepted()
    text = "the store refuses the secret key"
    return 1, outcome.message(program, outcome.ACCESS_DENIED, text, began=now, ended=now, facts={})


def succeeds(plane: ControlPlane, pod: Json) -> tuple[int, str]:
    """The same where the store takes whatever keys it is given."""
    if RUN_LABEL not in (pod["metadata"].get("labels") or {}):
        return 0, ""
    (container,) = (item for item in pod["spec"]["containers"] if item["name"] == CONTAINER)
    return _succeeded(container["command"][-1], time.time())


def _succeeded(program: str, now: float) -> tuple[int, str]:
    facts = dict(_FACTS[program])
    if program == "backup":
        facts["first"] = outcome.rfc3339(now)
    return 0, outcome.message(program, outcome.SUCCEEDED, "done", began=now, ended=now, facts=facts)


def _has_server(api: Api, pod: Json) -> bool:
    """Whether the Pod of a Postgresql has the claim that a restore works on."""
    claims = [volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]]
    for claim in filter(None, claims):
        name = f"{claim['claimName'].removesuffix('-data')}-0"
        if api.get(POD.path(namespace=pod["metadata"]["namespace"], name=name)).status == 200:
            return True
    return False


def _secret_key(api: Api, pod: Json) -> str | None:
    """Of the store, in the files of the run; one that works on the volume alone has none."""
    names = [volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if volume["name"] == "files"]
    if not names:
        return RIGHT
    (name,) = names
    files = api.get(SECRET.path(namespace=pod["metadata"]["namespace"], name=name))
    text = (files.body.get("data") or {}).get(STORE) if files.status == 200 else None
    if text is None:
        return None
    found: str = json.loads(base64.b64decode(text))[SECRET_KEY]
    return found

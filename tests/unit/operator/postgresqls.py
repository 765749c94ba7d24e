"""Postgresql resources for tests: one by hand, and a strategy of everything the CRD admits."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast

from hypothesis import strategies as st
from kindling.kinds.base import ExternalAction, Observed, Probe
from kindling.kinds.postgresql import Postgresql
from kindling.kinds.postgresql.login import Login
from kindling.kube.resources import POD, SECRET, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

KIND = Postgresql(
    group="database.db.example.com",
    image="postgres:17",
    init_image="postgres-init:1",
    exporters_image="exporters:1",
)
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
THEN = "2026-01-01T00:00:50Z"

ROLES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", fullmatch=True)
SIZES = st.from_regex(r"[1-9][0-9]{0,2}(\.[0-9])?([KMGT]i|[kMGT])?", fullmatch=True)
AMOUNTS = st.integers(0, 9) | st.sampled_from(["500m", "1", "0.5Gi", "128Mi"])
PARAMETERS = st.from_regex(
    r"[a-z_][a-z0-9_]{0,10}(\.[a-z_][a-z0-9_]{0,3})?", fullmatch=True
) | st.sampled_from(
    ["shared_buffers", "search_path", "shared_preload_libraries", "max_wal_size", "port", "work_mem"]
)
VALUES = st.integers(-(2**31), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
AUTO_GROW = st.fixed_dictionaries(
    {"maxSize": st.sampled_from(["1000Ti", "9Pi"])},
    optional={"threshold": st.integers(50, 95), "increment": st.sampled_from(["1%", "100%", "5Gi", "1k"])},
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "defaultUser": ROLES,
        "password": st.text(min_size=1, max_size=20),
        "image": st.sampled_from(["postgres:16", "registry:5000/a/b@sha256:00"]),
        "deletionPolicy": st.sampled_from(["Retain", "Delete"]),
        "shutdownSeconds": st.integers(1, 7200),
        "passwordSecretRef": st.fixed_dictionaries(
            {"name": st.sampled_from(["secret", "db-binding"])}, optional={"key": st.just("word")}
        ),
        "version": st.sampled_from(["16", "17"]),
        "paused": st.booleans(),
        "exporter": st.fixed_dictionaries(
            {"enabled": st.booleans()}, optional={"resources": st.just({"limits": {"memory": "64Mi"}})}
        ),
        "storage": st.fixed_dictionaries(
            {}, optional={"size": SIZES, "storageClassName": st.just("fast"), "autoGrow": AUTO_GROW}
        )
        | st.fixed_dictionaries({"ephemeral": st.booleans()}, optional={"size": SIZES})
        | st.none(),
        "parameters": st.dictionaries(PARAMETERS, VALUES, max_size=4),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
                "limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
            },
        ),
    },
)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)


def postgresql(
    *, name: str = "db", generation: int = 1, status: Object | None = None, **spec: object
) -> Object:
    meta = {"namespace": "ns", "name": name, "uid": "cr-uid", "generation": generation}
    return {"metadata": meta, "spec": spec, "status": status or {}}


def observed(children: Mapping[Ref, Object] | None = None) -> Observed:
    return Observed(objects=children or {}, now=NOW, entropy=b"e" * 32)


def secret(**values: str) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"uid": "secret-uid"}, "data": encoded}


def volume(size: str = "1Gi", *, has: str | None = None) -> dict[Ref, Object]:
    """A claim that asks for `size`, and one that has been given something where `has` says how much."""
    claim: Object = {
        "metadata": {"uid": "volume-uid"},
        "spec": {"resources": {"requests": {"storage": size}}},
    }
    if has is not None:
        claim["status"] = {"phase": "Bound", "capacity": {"storage": has}}
    return {Ref(VOLUME_CLAIM, "ns", "db-data"): claim}


def running(
    *, ready: bool = True, since: str = THEN, revision: str = "r1", **status: object
) -> dict[Ref, Object]:
    """A StatefulSet of revision r1 and its Pod, with the Secrets' content."""
    pod = {
        "metadata": {
            "namespace": "ns",
            "name": "db-0",
            "uid": "pod-uid",
            "labels": {"controller-revision-hash": revision},
        },
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}],
            "containerStatuses": [{"name": "postgres", "restartCount": 0}],
            **status,
        },
    }
    workload = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "updateRevision": "r1"}}
    return {
        Ref(POD, "ns", "db-0"): pod,
        Ref(STATEFUL_SET, "ns", "db"): workload,
        Ref(SECRET, "ns", "db-binding"): secret(password="made"),
        Ref(SECRET, "ns", "db-superuser"): secret(password="super"),
        **volume(),
    }


def request(cr: Object, observed: Observed) -> Login | None:
    """What is wanted of the server, or, of a paused one, asked."""
    actions, probes = KIND.external_actions(cr, observed), KIND.probes(cr, observed)
    wanted: list[ExternalAction | Probe] = [*actions, *probes.values()]
    return cast(Login, wanted[0].request) if wanted else None

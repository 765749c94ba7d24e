"""Whether a cluster is in its steady state: nothing is written, each status is true, nothing is left over.

Apart from the soak, which only says when to look. What the operator knows is asked of it, by name and
version, and held against lists of the API server.
"""

from __future__ import annotations

import json
import time
from functools import partial

from kindling.kinds.metadata import SELECTOR
from kindling.kinds.reasons import VOLUME_DELETING
from kindling.kube.resources import POD, SECRET, VOLUME_CLAIM, Ref, ResourceType

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import READS, Request, wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster
from tests.apiserver.support.kinds import POSTGRESQL, POSTGRESQL_EXAMPLE
from tests.apiserver.support.operator_process import OperatorProcess

# Nothing that answers runs in the Pods here, so that is where a database gets.
READY = {crd: "LoginFailed" if crd in (POSTGRESQL.id, POSTGRESQL_EXAMPLE.id) else "" for crd in KINDS_BY_NAME}


def wait_steady(cluster: Cluster, *, quiet: float, timeout: float) -> float:
    """Until every resource is reported as it is now and nothing was written for so long; how long it took.

    Events come after what they report, a few at a time: these are waited for, too.
    """
    began = time.monotonic()
    wait_until(lambda: not unfinished(cluster), seconds=timeout, what=lambda: unfinished(cluster)[:10])
    cluster.audit.wait_quiet(seconds=quiet, timeout=timeout, written=partial(written, cluster))
    return time.monotonic() - began - quiet


def unfinished(cluster: Cluster) -> list[str]:
    """The resources that are not where they should get, and why."""
    found = []
    for crd, kind in KINDS_BY_NAME.items():
        for item in _list(cluster, kind.type):
            status = item.get("status") or {}
            ready: Json = next((c for c in status.get("conditions", ()) if c["type"] == "Ready"), {})
            good = ready.get("reason") == READY[crd] if READY[crd] else ready.get("status") == "True"
            good = good or (ready.get("reason") == VOLUME_DELETING and _is_volume_deleting(cluster, item))
            if not good or status.get("observedGeneration") != item["metadata"]["generation"]:
                said = f"{ready.get('reason')}: {ready.get('message')}"
                found.append(f"{kind.type.kind} {item['metadata']['name']}: {said}")
    return found


def _is_volume_deleting(cluster: Cluster, item: Json) -> bool:
    """A claim that was deleted while its Pod runs stays so until a user acts."""
    meta = item["metadata"]
    claim = cluster.get(Ref(VOLUME_CLAIM, meta["namespace"], f"{meta['name']}-data"))
    return claim is not None and "deletionTimestamp" in claim["metadata"]


def written(cluster: Cluster, since: int) -> list[Request]:
    """What the operator wrote since a mark of the audit log, Events too. Only the Lease is its own affair."""
    requests = cluster.audit.requests(since)
    return [asked for asked in requests if asked.verb not in READS and asked.resource != "leases"]


def left_over(cluster: Cluster) -> list[str]:
    """Names of objects of ours whose owner is no more, and that are not being removed either."""
    types = {type for kind in KINDS_BY_NAME.values() for type in kind.children if type != POD}
    ours = [item for type in types for item in _list(cluster, type, selector=SELECTOR)]
    resources = [item for kind in KINDS_BY_NAME.values() for item in _list(cluster, kind.type)]
    alive = {item["metadata"]["uid"] for item in [*resources, *ours]}  # A volume owns a Secret.
    return [
        item["metadata"]["name"]
        for item in ours
        if not alive.issuperset(owner["uid"] for owner in item["metadata"].get("ownerReferences") or ())
    ]


def wait_known(cluster: Cluster, process: OperatorProcess, *, timeout: float) -> int:
    """Until the operator knows what a list of now shows, no more and no less; returns how many objects."""
    wait_until(
        lambda: known(process) == listed(cluster),
        seconds=timeout,
        what=lambda: sorted(set(known(process).items()) ^ set(listed(cluster).items()))[:10],
    )
    return len(listed(cluster))


def known(process: OperatorProcess) -> dict[str, str]:
    status, text = process.get("/debug/store")
    assert status == 200, text
    found: dict[str, str] = json.loads(text)
    return found


def listed(cluster: Cluster) -> dict[str, str]:
    """Each resource; of others' objects those that some kind looks at; else those that bear our label."""
    kinds_by_name = KINDS_BY_NAME.values()
    # Others' Secrets always, for they come as metadata; of other types while a resource looks for one.
    looked = {
        look.type
        for kind in kinds_by_name
        for cr in _list(cluster, kind.type)
        for look in kind.watched_objects(cr)
    }
    watches = {type for kind in kinds_by_name for type in kind.watches if type == SECRET or type in looked}
    whole = {*(kind.type for kind in kinds_by_name), *watches}
    labelled = {type for kind in kinds_by_name for type in kind.children} - whole
    found = {}
    for type, selector in [*((type, "") for type in whole), *((type, SELECTOR) for type in labelled)]:
        for item in _list(cluster, type, selector=selector):
            meta = item["metadata"]
            found[f"{type.group_kind}/{meta['namespace']}/{meta['name']}"] = meta["resourceVersion"]
    return found


def _list(cluster: Cluster, type: ResourceType, *, selector: str = "") -> list[Json]:
    query = {"labelSelector": selector} if selector else None
    items: list[Json] = cluster.api.request("GET", type.path(namespace=None), query=query).accepted()["items"]
    return items

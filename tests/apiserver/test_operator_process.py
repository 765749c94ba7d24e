"""The operator as a process: what it watches, when its watches are stalled, how it ends.

The real process against a real API server. Nothing runs its Pods, which none of this needs.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra import rbac
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import POSTGRESQL_EXAMPLE
from tests.apiserver.support.operator_process import SOURCE, operator
from tests.convergence.proxy import Proxy, proxy

KIND = POSTGRESQL_EXAMPLE
ALL = KIND.collection.replace("/namespaces/default", "")
SECONDS = 60.0
"""A new operator first goes over all that other tests have left in this cluster."""


def wait(until: Callable[[], object], *, seconds: float = SECONDS, what: str = "") -> float:
    """Until it is true; returns how long it took."""
    began = time.monotonic()
    while not until():
        assert time.monotonic() - began < seconds, what or "it did not come true"
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.fixture
def namespaces(api: Api, new_name: Callable[[], str]) -> list[str]:
    """Three new ones: for the Lease, and two for resources."""
    names = [f"process-{new_name()}" for _ in range(3)]
    for name in names:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}}).accepted()
    return names


@pytest.fixture
def between(api: Api, plane: ControlPlane, tmp_path: Path) -> Iterator[Proxy]:
    with proxy(plane, directory=tmp_path) as running:
        yield running


def path_in(namespace: str) -> str:
    return KIND.collection.replace("/default/", f"/{namespace}/")


def create(api: Api, namespace: str, name: str = "mydb") -> None:
    api.create(path_in(namespace), KIND.resource(name, {"defaultUser": "owner"})).accepted()


def handled(api: Api, namespace: str, name: str = "mydb") -> bool:
    """Whether it has its Service and a status of the operator's."""
    service = api.get(f"/api/v1/namespaces/{namespace}/services/{name}").status == 200
    status = api.get(f"{path_in(namespace)}/{name}").body.get("status") or {}
    return service and bool(status.get("conditions"))


def lease_of(api: Api, namespace: str) -> Json:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kindling-operator"
    spec: Json = api.get(path).accepted()["spec"]
    return spec


def test_all_namespaces_are_served_and_the_lease_is_in_its_own(
    api: Api, plane: ControlPlane, namespaces: list[str]
) -> None:
    own, *others = namespaces
    with operator(plane, env={"KINDLING_NAMESPACE": own}) as process:
        process.wait_ready()
        for name in others:
            create(api, name)
        for name in others:
            wait(lambda name=name: handled(api, name), what=process.log())  # type: ignore[misc]
        assert lease_of(api, own)["holderIdentity"] == "one"
        assert process.stop() == 0
        assert lease_of(api, own)["holderIdentity"] == ""
        lines = [json.loads(line) for line in process.log().splitlines()]
        keys = {line.get("key") for line in lines}
        assert {f"postgresql.database.db.example.com/{name}/mydb" for name in others} <= keys


def account(api: Api, plane: ControlPlane, *, own: str, watched: str, directory: Path) -> ControlPlane:
    """The operator's own permissions, but in one namespace alone: a Role where there was a ClusterRole."""
    group, name = "rbac.authorization.k8s.io", "kindling-operator"
    api.create(f"/api/v1/namespaces/{own}/serviceaccounts", {"metadata": {"name": name}}).accepted()
    for namespace, rules in ((own, rbac.OWN_NAMESPACE_RULES), (watched, rbac.cluster_rules())):
        listed = [
            {
                "apiGroups": [rule.group],
                "resources": list(rule.resources),
                "verbs": list(rule.verbs),
                "resourceNames": list(rule.names),
            }
            for rule in rules
        ]
        path = f"/apis/{group}/v1/namespaces/{namespace}"
        api.create(f"{path}/roles", {"metadata": {"name": name}, "rules": listed}).accepted()
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": own, "name": name}],
        }
        api.create(f"{path}/rolebindings", binding).accepted()
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(f"/api/v1/namespaces/{own}/serviceaccounts/{name}/token", asked).accepted()
    kubeconfig = directory / "account.kubeconfig"
    kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.token, token["status"]["token"]))
    return replace(plane, kubeconfig=kubeconfig)


def test_one_namespace_needs_no_right_outside_of_it(
    api: Api, between: Proxy, namespaces: list[str], tmp_path: Path
) -> None:
    own, watched, other = namespaces
    create(api, watched, "before")
    limited = account(api, between.plane, own=own, watched=watched, directory=tmp_path)
    with operator(between.plane, namespaces=watched, env=limited_to(limited, own)) as process:
        process.wait_ready()
        create(api, other)
        create(api, watched)
        wait(lambda: handled(api, watched) and handled(api, watched, "before"), what=process.log())
        assert not handled(api, other)
        mine = [asked for asked in between.asked if "/namespaces/" in asked.path]
        assert {asked.path.split("/namespaces/")[1].split("/")[0] for asked in mine} <= {own, watched}
        # What is left is discovery: nothing is listed or watched for the whole cluster.
        assert not [asked for asked in between.asked if asked not in mine and asked.query]
        assert lease_of(api, own)["holderIdentity"] == "one"


def limited_to(plane: ControlPlane, own: str) -> dict[str, str]:
    return {"KUBECONFIG": str(plane.kubeconfig), "KINDLING_NAMESPACE": own}


def test_more_watches_than_a_pool_of_connections_would_hold(
    api: Api, plane: ControlPlane, new_name: Callable[[], str]
) -> None:
    names = [f"many-{new_name()}" for _ in range(20)]
    for name in names:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}}).accepted()
    with operator(plane, namespaces=",".join(names), env={"KINDLING_NAMESPACE": names[0]}) as process:
        process.wait_ready()
        create(api, names[-1])
        wait(lambda: handled(api, names[-1]), what=process.log())


def test_a_stalled_watch_fails_healthz_by_name(api: Api, between: Proxy, namespaces: list[str]) -> None:
    # Not less: on a busy machine a watch in good order may restart seconds late.
    env = {"KINDLING_NAMESPACE": namespaces[0], "KINDLING_WATCH_SECONDS": "5"}
    with operator(between.plane, env=env) as process:
        process.wait_ready()
        time.sleep(11)  # longer than a watch may go without a restart
        assert process.get("/healthz") == (200, "ok")
        between.stall(ALL)
        wait(lambda: process.get("/healthz")[0] == 503, what=process.log())
        _, why = process.get("/healthz")
        assert why.startswith("watch stalled: no watch for ")
        assert why.endswith(f" s on {ALL}")
        assert process.get("/readyz") == (503, process.get("/healthz")[1])
        assert process.process.poll() is None


def test_a_missed_delete_is_found_when_the_kind_is_listed_again(
    api: Api, between: Proxy, namespaces: list[str]
) -> None:
    own, only, _ = namespaces
    path = path_in(only)
    env = {"KINDLING_NAMESPACE": own, "KINDLING_WATCH_SECONDS": "60"}
    with operator(between.plane, namespaces=only, env=env) as process:
        process.wait_ready()
        create(api, only)
        wait(lambda: handled(api, only), what=process.log())
        assert process.value("kindling_relists_total") == 0
        between.stall(path)
        api.delete(f"{path}/mydb").accepted()
        time.sleep(0.5)
        before = process.value("kindling_cache_objects")
        between.expire(path)  # the list that follows is empty
        wait(
            lambda: process.value("kindling_missed_deletes_total", group="database.db.example.com") == 1,
            what=process.log(),
        )
        assert process.value("kindling_relists_total", group="database.db.example.com") == 1
        assert process.value("kindling_cache_objects") == before - 1


def test_a_kubernetes_that_is_too_old_ends_it_with_one_line_before_any_write(between: Proxy) -> None:
    between.says_version = "v1.29.14"
    with operator(between.plane) as process:
        assert process.process.wait(timeout=60) == 1
        said = process.log().strip().splitlines()[-1]
    assert said.startswith("kindling: the API server is Kubernetes v1.29.14, and 1.30 is the oldest")
    assert said.endswith("upgrade the cluster")
    # What comes before is this test's own: the namespace and account that it runs in.
    first = [asked.path for asked in between.asked].index("/version")
    assert {asked.method for asked in between.asked[first:]} == {"GET"}


def test_a_signal_before_kopf_listens_ends_it_and_gives_the_lease_back(
    api: Api, plane: ControlPlane, namespaces: list[str], tmp_path: Path
) -> None:
    """On a busy machine, time passes between the Lease and kopf's handlers of signals."""
    (tmp_path / "sitecustomize.py").write_text(
        "import asyncio, kopf\n"
        "spawn = kopf.spawn_tasks\n"
        "async def slowly(**settings):\n"
        "    await asyncio.sleep(2)\n"
        "    return await spawn(**settings)\n"
        "kopf.spawn_tasks = slowly\n"
    )
    lease, *_ = namespaces
    env = {"KINDLING_NAMESPACE": lease, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}
    with operator(plane, env=env) as running:
        wait(lambda: running.get("/metrics")[0] == 200 and running.leads)
        assert running.stop() == 0, running.log()
    assert lease_of(api, lease)["holderIdentity"] == ""


def test_a_signal_while_kopf_scans_ends_it_without_a_traceback(
    between: Proxy, namespaces: list[str], tmp_path: Path
) -> None:
    """What kopf still reads has its connection closed by then, and nobody waits for it any more."""
    (tmp_path / "sitecustomize.py").write_text(
        "import aiohttp, asyncio\n"
        "read = aiohttp.ClientResponse.read\n"
        "async def slowly(self):\n"
        "    if self.url.path == '/apis':\n"
        "        await asyncio.sleep(2)\n"
        "    return await read(self)\n"
        "aiohttp.ClientResponse.read = slowly\n"
    )
    env = {"KINDLING_NAMESPACE": namespaces[0], "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}
    with operator(between.plane, env=env) as running:
        wait(lambda: any(asked.path == "/apis" for asked in between.asked), what=running.log())
        time.sleep(0.5)  # its answer has begun
        assert running.stop() == 0, running.log()
        assert "became leader" in running.log()
        assert "never retrieved" not in running.log()


def test_a_port_that_is_taken_ends_it_with_one_line(api: Api, plane: ControlPlane) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        with operator(plane, port=port) as process:
            assert process.process.wait(timeout=30) == 1
            line = process.log().strip()
            assert line.startswith(f"kindling: port {port} cannot be used")
            assert line.endswith("set KINDLING_PORT")

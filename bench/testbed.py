"""The API server that all are measured on, with everything that a cluster has but its nodes: processes.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler as they are, their client limits raised
out of the way; KWOK says what the nodes and their Pods would say. etcd does not wait for the disk, whose
pace is not what is asked here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import requests, volumes
from infra.bootstrap.toolchain import Toolchain
from tests.apiserver.support.accounts import user_name, with_rights
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.cluster import USER as KINDLING_USER
from tests.apiserver.support.cluster import shipped_rights
from tests.apiserver.support.controllers import CONTROLLERS
from tests.apiserver.support.controlplane import ControlPlane, background, control_plane
from tests.apiserver.support.kinds import CRD_COLLECTION, KINDS

TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
NAMESPACE = "bench-system"
GO_GROUP = "cache.bench.kindling.dev"
GO_CRD = Path(__file__).parent / "go" / "memcached" / "crd.yaml"
NODES = 10
UNLIMITED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
SERVED_SECONDS = 60.0

ALL = ("get", "list", "watch", "create", "update", "patch", "delete")
GO_RULES: Sequence[dict[str, Any]] = (
    {"apiGroups": [GO_GROUP], "resources": ["memcacheds"], "verbs": list(ALL)},
    {"apiGroups": [GO_GROUP], "resources": ["memcacheds/status"], "verbs": ["get", "update", "patch"]},
    {"apiGroups": [GO_GROUP], "resources": ["memcacheds/finalizers"], "verbs": ["update"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": list(ALL)},
    {"apiGroups": [""], "resources": ["services"], "verbs": list(ALL)},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": list(ALL)},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": list(ALL)},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
)
"""What the markers in its controller say."""
EVERYTHING = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A way in for somebody who is measured: where, and as whom the audit log knows them."""

    plane: ControlPlane
    user: str


@dataclass(frozen=True, kw_only=True)
class Testbed:
    """`admin` is outside of all limits of the API server; the others come as ServiceAccounts."""

    admin: ControlPlane
    kindling: Identity
    go: Identity
    client: Identity
    log: requests.Log


@contextmanager
def stage(*, directory: Path, toolchain: Toolchain) -> Iterator[Testbed]:
    """Start everything, and end it on leaving; what the processes write goes under `directory`."""
    programs = {name: toolchain.ensure(name) for name in TOOLS}
    users = {name: user_name(NAMESPACE, name) for name in ("go", "client")}
    directory.mkdir(parents=True, exist_ok=True)
    rules = directory / "audit-policy.json"
    rules.write_text(json.dumps(requests.policy([KINDLING_USER, *users.values()])))
    options = [
        f"--audit-policy-file={rules}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-maxsize=100000",  # In MB; by default the log is rotated after 100.
        "--audit-log-mode=blocking",  # A request that is answered is counted.
        # Nothing here takes away the taint that this puts on new nodes.
        "--disable-admission-plugins=TaintNodesByCondition",
    ]
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(directory=directory, options=options))
        api = stack.enter_context(closing(Api(plane)))
        for crd in [*(kind.manifest for kind in KINDS.values()), yaml.safe_load(GO_CRD.read_text())]:
            api.create(CRD_COLLECTION, crd).accepted()
            _wait_served(api, crd)
        api.create(volumes.CLASSES, volumes.storage_class()).accepted()
        for number in range(NODES):
            api.create("/api/v1/nodes", _node(f"node-{number}")).accepted()
        for name, words in _controllers(plane, directory).items():
            log = directory / f"{name}.log"
            stack.enter_context(background([programs[name], *words], log=log))
        yield Testbed(
            admin=plane,
            kindling=Identity(plane=shipped_rights(plane, api), user=KINDLING_USER),
            go=Identity(plane=_account(plane, api, "go", GO_RULES), user=users["go"]),
            client=Identity(plane=_account(plane, api, "client", EVERYTHING), user=users["client"]),
            log=requests.Log(directory / "audit.log"),
        )


def _account(plane: ControlPlane, api: Api, name: str, rules: Sequence[dict[str, Any]]) -> ControlPlane:
    return with_rights(plane, api, namespace=NAMESPACE, account=name, rules=rules)


def _controllers(plane: ControlPlane, directory: Path) -> dict[str, list[str]]:
    """The words after each program's name."""
    kwok = directory / "kwok.json"
    options = {
        "podPlayStageParallelism": 16,
        "nodePlayStageParallelism": 4,
        "cidr": "10.64.0.1/12",
        # Without Leases it renews a node's status about as seldom as the controller-manager waits for: then
        # nodes are taken for lost, and their Pods stay not ready.
        "nodeLeaseDurationSeconds": 40,
    }
    head = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration"}
    kwok.write_text(json.dumps({**head, "options": {**options, "manageAllNodes": True}}))
    kubeconfig = f"--kubeconfig={plane.kubeconfig}"
    return {
        "kube-controller-manager": [
            kubeconfig,
            f"--controllers={','.join((*CONTROLLERS, *volumes.CONTROLLERS))}",
            f"--service-account-private-key-file={plane.directory / 'service-account.pem'}",
            f"--root-ca-file={plane.ca}",
            "--leader-elect=false",
            "--secure-port=0",
            *UNLIMITED,
        ],
        "kube-scheduler": [kubeconfig, "--leader-elect=false", "--secure-port=0", *UNLIMITED],
        "kwok": [kubeconfig, f"--config={kwok}"],
    }


def _node(name: str) -> dict[str, Any]:
    capacity = {"cpu": "10k", "memory": "100Ti", "pods": "1M"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _wait_served(api: Api, crd: dict[str, Any]) -> None:
    spec = crd["spec"]
    deadline = time.monotonic() + SERVED_SECONDS
    while (
        api.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}").status
        != 200
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the CRD {crd['metadata']['name']} is not served")
        time.sleep(0.05)

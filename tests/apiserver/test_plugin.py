"""The kubectl plugin as a release has it, run as `kubectl kindling` against a real API server and operator.

Pods are said to run, and no server answers: logs and logins are in tests/cluster/test_plugin.py.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kindling.kinds.backup.runs import RUN_LABEL
from kindling.kinds.metadata import labels_of, owner_of
from kindling.kube.resources import CRON_JOB, JOB, POD, STATEFUL_SET, Ref
from kubectl_kindling.cli import COMMANDS

from infra import rbac
from infra.cli.commands import release
from infra.distribution import plugin
from infra.paths import REPOSITORY
from tests.apiserver.support.accounts import GROUP, with_rights
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, NAMESPACE, Cluster, path, ref_to, role_rule
from tests.apiserver.support.controlplane import ControlPlane, tool
from tests.apiserver.support.kinds import (
    BACKUP,
    MEMCACHED,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    RESTORE,
)
from tests.unit.plugin.guide import commands, planned_file

VERSION, COMMIT = "1.2.3", "c" * 40
FINE, NOT_READY, USAGE, FAILED = 0, 1, 2, 3
SECONDS = 60.0
WIDTH = 100
PASSWORD, TOKEN, VARIABLE, STORE_KEY = (
    f"canary-of-the-{name}" for name in ("password", "token", "variable", "store-key")
)
# What a binding has beside the password and the address that has it in it.
PUBLIC = {"type", "provider", "host", "port", "database", "username"}

pytestmark = pytest.mark.usefixtures("replica")


@dataclass(frozen=True)
class User:
    """Somebody at a terminal, with the plugin and kubectl on PATH."""

    home: Path
    kubeconfig: Path
    bin: Path

    def kindling(self, *words: str, status: int = FINE) -> str:
        """What `kubectl kindling` prints, both ways; it must end with this status."""
        done = subprocess.run(
            ["kubectl", "kindling", *words],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == status, f"{words}: {done.returncode}\n{printed}"
        return printed

    @property
    def environment(self) -> dict[str, str]:
        folders = [self.bin, tool("kubectl").parent, Path(sys.executable).parent]
        return {
            "PATH": os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
        }


@pytest.fixture(scope="module")
def bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the plugin, as `release` writes it."""
    folder = tmp_path_factory.mktemp("plugin") / "release"
    release._write(plugin.files(REPOSITORY, version=VERSION, commit=COMMIT), folder)
    return folder


def new_user(plane: ControlPlane, namespace: str, home: Path, bin: Path) -> User:
    """With a context that has the namespace."""
    home.mkdir()
    found = json.loads(plane.kubeconfig.read_text())
    found["contexts"][0]["context"]["namespace"] = namespace
    file = home / "kubeconfig"
    file.write_text(json.dumps(found))
    return User(home, file, bin)


@pytest.fixture(scope="module")
def users(
    running_cluster: Cluster, namespace: str, bin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, User]]:
    """An administrator, and users with `view`, with `kindling-view` alone, and with nothing."""
    api, home = running_cluster.api, tmp_path_factory.mktemp("users")
    role = {
        "metadata": {"name": "kindling-view", "labels": rbac.aggregated("view")},
        "rules": [role_rule(rule) for rule in rbac.user_rules("view")],
    }
    api.create(f"/apis/{GROUP}/v1/clusterroles", role).accepted()
    found = {"admin": new_user(running_cluster.plane, namespace, home / "admin", bin)}
    for name, bound in (("viewer", "view"), ("few", "kindling-view"), ("nobody", "")):
        account = f"plugin-{name}"
        way = with_rights(running_cluster.plane, api, namespace=namespace, account=account, rules=[])
        if bound:
            binding = {
                "metadata": {"name": f"{account}-bound"},
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": bound},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            }
            api.create(f"/apis/{GROUP}/v1/namespaces/{namespace}/rolebindings", binding).accepted()
        found[name] = new_user(way, namespace, home / name, bin)
        if name == "viewer":
            wait_for_aggregation(way, namespace)
    yield found
    api.delete(f"/apis/{GROUP}/v1/clusterroles/kindling-view")
    for name in ("viewer", "few", "nobody"):
        for kind in ("clusterrolebindings", "clusterroles"):
            api.delete(f"/apis/{GROUP}/v1/{kind}/plugin-{name}")


def wait_for_aggregation(way: ControlPlane, namespace: str) -> None:
    """Until `view` has the kinds."""
    collection = POSTGRESQL.collection.replace("/default/", f"/{namespace}/")
    client = Api(way)
    try:
        wait_until(
            lambda: client.get(collection).status == 200,
            seconds=SECONDS,
            what="the kinds being part of view",
        )
    finally:
        client.close()


KINDS = {
    "shop": KINDS_BY_NAME[POSTGRESQL_EXAMPLE.id],
    "sessions": KINDS_BY_NAME[MEMCACHED.id],
    "printers": KINDS_BY_NAME[PULSAR_CONSUMER.id],
    "friend": KINDS_BY_NAME[MY_CUSTOM_RESOURCE.id],
}
SPECS: dict[str, Json] = {
    "shop": {"password": PASSWORD, "defaultUser": "shop"},
    "sessions": {"size": 2},
    "printers": {
        "serverAddress": "pulsar://broker:6650",
        "topic": "orders",
        "subscriptionName": "printers",
        "replicas": 1,
        "auth": {"tokenSecretRef": {"name": "store-keys", "key": "token"}},
        "env": [{"name": "A_PASSWORD", "value": VARIABLE}],
    },
    "friend": {"name": "somebody"},
}
BACKUP_KIND = KINDS_BY_NAME[BACKUP.id]
RESTORE_KIND = KINDS_BY_NAME[RESTORE.id]


@pytest.fixture(scope="module")
def resources(running_cluster: Cluster, namespace: str) -> Iterator[dict[str, Ref]]:
    """A resource of each kind, with secrets wherever a user can put one, and an operator's Deployment."""
    cluster = running_cluster
    secret = {
        "metadata": {"name": "store-keys"},
        "stringData": {"token": TOKEN, "secretAccessKey": STORE_KEY},
    }
    cluster.api.create(f"/api/v1/namespaces/{namespace}/secrets", secret).accepted()
    found = {name: ref_to(kind, namespace, name) for name, kind in KINDS.items()}
    for name, kind in KINDS.items():
        cluster.create(kind, namespace, name, SPECS[name])
    found["backup"] = with_a_cron_job(cluster, namespace)
    for ref in found.values():
        wait_until(
            lambda ref=ref: bool(cluster.ready(ref)),  # type: ignore[misc]
            seconds=SECONDS,
            what=lambda ref=ref: f"a status of {ref}",  # type: ignore[misc]
        )
    cluster.wait_ready_reason(found["sessions"], "ReplicasReady", seconds=SECONDS)
    labels = {"app.kubernetes.io/name": "kindling", "app.kubernetes.io/component": "operator"}
    containers = [{"name": name, "image": f"kindling.invalid/{name}:9"} for name in ("operator", "prober")]
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    body = {
        "metadata": {"name": "kindling-operator"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }
    cluster.api.create(deployments, body).accepted()
    yield found
    cluster.api.delete(f"{deployments}/kindling-operator")


def with_a_cron_job(cluster: Cluster, namespace: str) -> Ref:
    """A Backup `shop`, and the CronJobs that the operator would make for it once a server answers.

    The operator takes them for its own, and has their templates as they should be.
    """
    spec = {
        "databaseRef": {"name": "shop", "group": KINDS["shop"].type.group},
        "schedule": "0 3 * * *",
        "verify": {"schedule": "0 4 * * *"},
        "targetURL": "s3://bucket",
        "credentialsSecretRef": {"name": "store-keys"},
    }
    made = cluster.create(BACKUP_KIND, namespace, "shop", spec)
    pod = {"containers": [{"name": "run", "image": "kindling.invalid/none:1"}], "restartPolicy": "Never"}
    for name, action in (("shop", "backup"), ("shop-verify", "verify")):
        labels = {**labels_of(BACKUP_KIND.type, made), RUN_LABEL: action}
        template = {"metadata": {"labels": labels}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}
        body = {
            "metadata": {
                "name": name,
                "labels": labels_of(BACKUP_KIND.type, made),
                "ownerReferences": [owner_of(BACKUP_KIND.type, made)],
            },
            "spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": template},
        }
        cluster.api.create(CRON_JOB.path(namespace=namespace), body).accepted()
    return ref_to(BACKUP_KIND, namespace, "shop")


@pytest.fixture
def admin(users: dict[str, User], resources: dict[str, Ref]) -> User:
    return users["admin"]


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_status_of_all_is_what_the_api_server_has(
    running_cluster: Cluster, admin: User, resources: dict[str, Ref]
) -> None:
    def same() -> bool:
        """Both, unless one changes between the two looks at it."""
        found = json.loads(admin.kindling("status", "-o", "json", status=NOT_READY))
        assert found["notRead"] == []
        rows = {(row["kind"], row["name"]): row for row in found["items"]}
        assert len(rows) == len(found["items"]) == len(resources)
        assert [row["ready"] for row in found["items"]] == sorted(row["ready"] for row in found["items"])
        ready = {(ref.type.kind, ref.name): running_cluster.ready(ref) for ref in resources.values()}
        return all(
            (row["reason"], row["readyStatus"]) == (ready[key]["reason"], ready[key]["status"])
            for key, row in rows.items()
        )

    wait_until(same, seconds=SECONDS, what="the same reasons")


def test_status_of_all_for_people(admin: User) -> None:
    printed = admin.kindling("status", status=NOT_READY).splitlines()
    assert printed[0].split() == ["RESOURCE", "READY", "REASON", "OBSERVED", "AGE"]
    rows = [line.split()[0] for line in printed[1:] if not line.startswith(" ")]
    names = {
        "backup/shop",
        "pge/shop",
        "memcached/sessions",
        "pulsarconsumer/printers",
        "mycustomresource/friend",
    }
    assert {*rows} == names
    assert rows.index("pge/shop") < rows.index("memcached/sessions"), "what is not Ready comes first"
    assert max(map(len, printed)) <= WIDTH
    everywhere = admin.kindling("status", "--all-namespaces", status=NOT_READY)
    assert re.search(r"(?m)^plugin +pge/shop ", everywhere)


def test_status_of_one_has_each_child(running_cluster: Cluster, admin: User, namespace: str) -> None:
    printed = admin.kindling("status", "memcached/sessions")
    children = running_cluster.children(KINDS["sessions"], namespace, "sessions")
    assert len(children) > 3
    for ref in children:
        assert f"{ref.type.kind}/{ref.name}" in printed
    assert printed.count("Running, ready") == 2
    assert "2 of 2 ready" in printed
    assert "ready       True (ReplicasReady)" in printed
    assert max(map(len, printed.splitlines())) <= WIDTH


def test_status_of_a_database_has_its_backups_and_events(admin: User) -> None:
    printed = words_of(admin.kindling("status", "pge/shop", status=NOT_READY))
    assert "BACKUP LAST-RUN VERIFIED NEXT-RUN DATA-LOSS READY shop " in printed
    assert "PersistentVolumeClaim/shop-data" in printed
    assert "Warning PasswordInSpec Postgresql: spec.password can be read" in printed
    assert PASSWORD not in printed
    assert words_of(admin.kindling("status", "postgresql/shop", status=NOT_READY))[:50] == printed[:50]


def test_a_user_with_view_has_all_of_the_screen(admin: User, users: dict[str, User]) -> None:
    """Without reading a Secret, which that role may not."""
    printed = users["viewer"].kindling("status", "pge/shop", status=NOT_READY)
    assert "Not all could be read" not in printed
    for part in ("StatefulSet/shop", "Pod/shop-0", "PasswordInSpec", "BACKUP"):
        assert part in printed


def test_a_user_of_few_rights_has_the_resource_and_what_is_missing(
    admin: User, users: dict[str, User]
) -> None:
    few = users["few"]
    printed = words_of(few.kindling("status", "memcached/sessions"))
    assert "ready True (ReplicasReady)" in printed
    assert "you lack the right `list` in namespace `plugin` on `statefulsets.apps`" in printed
    assert "`pods`, `events`" in printed
    found = json.loads(few.kindling("status", "memcached/sessions", "-o", "json"))
    assert {"verb": "list", "resource": "pods", "namespace": "plugin"} in found["notRead"]
    assert "pge/shop" in few.kindling("status", status=NOT_READY)
    wide = words_of(few.kindling("status", "-A", status=FAILED))
    assert "you lack the right `list` in all namespaces on `memcacheds.cache.example.com`" in wide


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["status", "pge/shop"], "`get` in namespace `plugin` on `postgresqls.database.db.example.com`"),
        (["status"], "`list` in namespace `plugin` on `memcacheds.cache.example.com`"),
    ],
)
def test_a_user_of_no_rights(admin: User, users: dict[str, User], words: list[str], right: str) -> None:
    printed = words_of(users["nobody"].kindling(*words, status=FAILED))
    assert f"error: you lack the right {right}" in printed
    assert 'User "system:serviceaccount:plugin:plugin-nobody"' in printed


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (
            ["hibernate", "shop", "--yes"],
            "`patch` in namespace `plugin` on `postgresqls.database.db.example.com`",
        ),
        (["restart", "shop", "--yes"], "`patch` in namespace `plugin` on `statefulsets.apps`"),
        (["backup", "shop"], "`create` in namespace `plugin` on `jobs.batch`"),
        (
            ["restore", "shop", "--to", "x"],
            "`create` in namespace `plugin` on `restores.database.technotuesday.io`",
        ),
    ],
)
def test_who_may_read_may_not_write(
    admin: User, users: dict[str, User], words: list[str], right: str
) -> None:
    assert f"you lack the right {right}" in words_of(users["viewer"].kindling(*words, status=FAILED))


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["status", "mongo/x"], USAGE, "there is no kind `mongo`"),
        (["status", "pge/none"], FAILED, "there is no postgresqls.database.db.example.com `none`"),
        (["status", "shop"], USAGE, "`shop` names no resource"),
        (["restart", "memcached/sessions"], USAGE, "`memcached/sessions` is no Postgresql"),
        (["logs", "mycustomresource/friend"], NOT_READY, "MyCustomResource friend has no Pods"),
        (["restart", "shop"], USAGE, "there is nobody to ask"),
        (["status", "--context", "none"], FAILED, 'context "none" does not exist'),
        (["status", "--kubeconfig", "none"], FAILED, "no such file"),
        (["psql", "shop"], FAILED, "has no server that could be logged in to"),
    ],
)
def test_what_is_wrong_is_said(admin: User, words: list[str], status: int, text: str) -> None:
    printed = admin.kindling(*words, status=status)
    assert text in words_of(printed)
    assert "remedy:" in printed or "none" in words


def test_a_name_in_both_groups_is_ambiguous(running_cluster: Cluster, admin: User, namespace: str) -> None:
    other = KINDS_BY_NAME[POSTGRESQL.id]
    running_cluster.create(other, namespace, "shop", {})
    try:
        printed = words_of(admin.kindling("wake", "shop", status=USAGE))
        assert f"{POSTGRESQL_EXAMPLE.id}/shop and {POSTGRESQL.id}/shop" in printed
        assert "is not hibernated" in admin.kindling("wake", "pge/shop")
    finally:
        running_cluster.delete(ref_to(other, namespace, "shop"))
        wait_until(
            lambda: running_cluster.get(ref_to(other, namespace, "shop")) is None,
            seconds=SECONDS,
            what="its deletion",
        )


def test_no_cluster(admin: User, tmp_path: Path) -> None:
    found = json.loads(admin.kubeconfig.read_text())
    found["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1"}
    away = tmp_path / "kubeconfig"
    away.write_text(json.dumps(found))
    printed = words_of(replace(admin, kubeconfig=away).kindling("status", status=FAILED))
    assert "error: no cluster answers" in printed
    assert "memcache.go" not in printed


def test_hibernate_and_wake(running_cluster: Cluster, admin: User, resources: dict[str, Ref]) -> None:
    shop = resources["shop"]

    def version() -> tuple[bool, int]:
        found = running_cluster.get(shop) or {}
        return found["spec"].get("hibernate", False), found["metadata"]["generation"]

    _, before = version()
    assert "may set spec.hibernate back" in words_of(admin.kindling("hibernate", "shop", "--yes"))
    running_cluster.wait_ready_reason(shop, "Hibernated", seconds=SECONDS)
    assert "hibernated already; nothing was changed" in words_of(admin.kindling("hibernate", "shop"))
    assert version() == (True, before + 1)
    assert "is hibernated" in admin.kindling("restart", "shop", "--yes", status=FAILED)
    admin.kindling("wake", "shop")
    assert version() == (False, before + 2)
    assert "nothing was changed" in admin.kindling("wake", "shop")
    assert version() == (False, before + 2)
    wait_until(
        lambda: running_cluster.get(Ref(POD, shop.namespace, "shop-0")) is not None,
        seconds=SECONDS,
        what="the server's Pod",
    )


def test_a_plan_touches_nothing_and_is_what_is_then_done(
    running_cluster: Cluster, admin: User, users: dict[str, User], resources: dict[str, Ref]
) -> None:
    shop = resources["shop"]
    collection = path(shop).rpartition("/")[0]

    def state() -> Any:
        children = running_cluster.children(KINDS["shop"], shop.namespace, "shop")
        versions = {ref: found["metadata"]["resourceVersion"] for ref, found in children.items()}
        names = [each["metadata"]["name"] for each in running_cluster.api.get(collection).accepted()["items"]]
        return versions, names, (running_cluster.get(shop) or {})["spec"]

    running_cluster.wait_settled(shop)
    file = admin.home / "shop.yaml"
    wanted = {**SPECS["shop"], "podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    body = {"apiVersion": KINDS["shop"].type.api_version, "kind": "Postgresql", "metadata": {"name": "shop"}}
    file.write_text(json.dumps({**body, "spec": wanted}))
    before = state()
    found = json.loads(admin.kindling("plan", "-f", "shop.yaml", "-o", "json", status=NOT_READY))
    assert state() == before
    (planned,) = found["items"]
    (item,) = [each for each in planned["items"] if each.get("object") == "StatefulSet/shop"]
    assert (planned["name"], planned["disruption"], item["disruption"]) == ("shop", "Restart", "Restart")
    assert item["fields"] == ["spec.podTemplate.spec.nodeSelector"]
    assert PASSWORD not in json.dumps(found)
    printed = words_of(admin.kindling("plan", "-f", "shop.yaml", status=NOT_READY))
    assert "spec.podTemplate.spec.nodeSelector: one restart, not measured yet (StatefulSet/shop)" in printed
    file.write_text(json.dumps({**body, "spec": {**wanted, "mode": "Both"}}))
    printed = words_of(admin.kindling("plan", "-f", "shop.yaml", status=NOT_READY))
    assert 'refused: The Postgresql "shop" is invalid:' in printed
    assert 'spec.mode: Unsupported value: "Both"' in printed
    printed = words_of(users["viewer"].kindling("plan", "pge/shop", status=FAILED))
    assert (
        "you lack the right `create` in namespace `plugin` on `postgresqls.database.db.example.com`"
        in printed
    )
    assert state() == before


def test_restart_replaces_the_pod(running_cluster: Cluster, admin: User, resources: dict[str, Ref]) -> None:
    pod = Ref(POD, resources["shop"].namespace, "shop-0")

    def uid() -> Any:
        return ((running_cluster.get(pod) or {}).get("metadata") or {}).get("uid")

    wait_until(lambda: bool(uid()), seconds=SECONDS, what="a Pod")
    before = uid()
    assert "all its connections end" in words_of(admin.kindling("restart", "shop", "--yes"))
    wait_until(lambda: uid() not in (None, before), seconds=SECONDS, what="another Pod")
    found = running_cluster.get(Ref(STATEFUL_SET, pod.namespace, "shop")) or {}
    assert "kubectl.kubernetes.io/restartedAt" in found["spec"]["template"]["metadata"]["annotations"]


def test_a_run_that_is_started_by_hand_is_a_run_of_the_backup(
    running_cluster: Cluster, admin: User, resources: dict[str, Ref]
) -> None:
    printed = admin.kindling("backup", "shop")
    name = re.findall(r"Job (shop-manual-\d+) ", printed)[0]
    backup = resources["backup"]
    job = running_cluster.get(Ref(JOB, backup.namespace, name)) or {}
    assert job["metadata"]["labels"][RUN_LABEL] == "backup"
    assert [owner["kind"] for owner in job["metadata"]["ownerReferences"]] == ["CronJob"]

    def phase() -> Any:
        runs = (running_cluster.get(backup) or {}).get("status", {}).get("runs") or ()
        return next((run["phase"] for run in runs if run["name"] == name), None)

    # Its Pod ends without a result here, which is a failure.
    wait_until(lambda: phase() == "Failed", seconds=SECONDS, what=lambda: f"{name} is {phase()}")
    assert name in admin.kindling("status", "backup/shop", status=NOT_READY)


def test_version(admin: User, users: dict[str, User]) -> None:
    found = json.loads(admin.kindling("version", "-o", "json"))
    assert found["plugin"] == {"version": VERSION, "commit": COMMIT}
    assert found["operator"]["images"] == {
        "operator": "kindling.invalid/operator:9",
        "prober": "kindling.invalid/prober:9",
    }
    assert {each["name"] for each in found["kinds"]} == KINDS_BY_NAME.keys()
    assert found["kubernetes"].startswith("v1.")
    printed = words_of(users["viewer"].kindling("version", status=FAILED))
    assert f"plugin {VERSION} of commit {COMMIT[:12]}" in printed
    assert "you lack the right `get` in namespace `kindling-system` on `deployments.apps`" in printed


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file, "r:gz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive}
        return {name.partition("/")[2]: found.read().decode() for name, found in members.items() if found}


def secret_values(cluster: Cluster, namespace: str) -> dict[tuple[str, str], str]:
    """Every value of a Secret of the namespace that is secret, by Secret and key."""
    found = cluster.api.get(f"/api/v1/namespaces/{namespace}/secrets").accepted()["items"]
    return {
        (item["metadata"]["name"], key): base64.b64decode(value).decode()
        for item in found
        for key, value in (item.get("data") or {}).items()
        if key not in PUBLIC
    }


@pytest.mark.parametrize(
    "target", ["pge/shop", "memcached/sessions", "pulsarconsumer/printers", "backup/shop"]
)
def test_a_report_has_no_secret_of_the_namespace(
    running_cluster: Cluster, admin: User, namespace: str, tmp_path: Path, target: str
) -> None:
    file = tmp_path / "report.tar.gz"
    printed = admin.kindling("report", target, "--file", str(file))
    texts = unpacked(file)
    everything = "\n".join([*texts.values(), printed])
    values = secret_values(running_cluster, namespace)
    assert {PASSWORD, TOKEN, STORE_KEY} <= {*values.values()}
    for place, value in values.items():
        assert value, place
        for written in (value, json.dumps(value)[1:-1], base64.b64encode(value.encode()).decode()):
            assert written not in everything, place
    for hidden in (PASSWORD, VARIABLE):
        assert hidden not in everything
    assert {"resource.json", "status.txt", "versions.json", "events.json", "secrets.txt"} <= texts.keys()
    assert json.loads(texts["versions.json"])["plugin"]["version"] == VERSION


def test_what_the_report_leaves_out_is_there(running_cluster: Cluster, resources: dict[str, Ref]) -> None:
    """Else the test above would prove nothing."""
    assert PASSWORD in json.dumps(running_cluster.get(resources["shop"]))
    assert VARIABLE in json.dumps(running_cluster.get(resources["printers"]))
    pods = running_cluster.api.get(POD.path(namespace=resources["printers"].namespace)).accepted()
    assert VARIABLE in json.dumps(pods)


def test_a_report_has_each_secret_by_keys_and_sizes(
    running_cluster: Cluster, admin: User, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.tar.gz"
    admin.kindling("report", "pge/shop", "--file", str(file))
    lines = unpacked(file)["secrets.txt"].splitlines()
    values = secret_values(running_cluster, namespace)
    for key in ("password", "uri"):
        assert f"shop-binding {key} {len(values['shop-binding', key])}" in lines
    assert f"shop-superuser password {len(values['shop-superuser', 'password'])}" in lines
    assert not any(line.startswith("store-keys") for line in lines), "that is no child"
    children = {name.removeprefix("children/") for name in unpacked(file) if name.startswith("children/")}
    assert {"StatefulSet-shop.json", "PersistentVolumeClaim-shop-data.json", "Pod-shop-0.json"} <= children


def test_a_report_of_a_user_who_may_not_list_secrets(
    users: dict[str, User], admin: User, tmp_path: Path
) -> None:
    file = tmp_path / "report.tar.gz"
    printed = words_of(users["viewer"].kindling("report", "pge/shop", "--file", str(file)))
    assert "you lack the right `list` in namespace `plugin` on `secrets`" in printed
    texts = unpacked(file)
    assert "`secrets`" in texts["not-read.txt"]
    assert "children/StatefulSet-shop.json" in texts


@pytest.fixture
def restores(running_cluster: Cluster, namespace: str, resources: dict[str, Ref]) -> Iterator[Ref]:
    """The collection of Restores with the one in place that the guide undoes; all are deleted afterwards."""
    name = next(line.split()[3] for line in commands() if line.split()[2] == "undo")
    database = {"name": "shop", "group": KINDS["shop"].type.group}
    spec = {"source": {"backupRef": {"name": "shop"}}, "databaseRef": database, "into": "InPlace"}
    running_cluster.create(RESTORE_KIND, namespace, name, spec)
    ref = ref_to(RESTORE_KIND, namespace, name)
    status = {"status": {"phase": "Completed", "attempt": 1}}
    running_cluster.api.merge(f"{path(ref)}/status", status).accepted()
    yield ref
    collection = RESTORE_KIND.type.path(namespace=namespace)
    running_cluster.api.delete(collection).accepted()
    # Those that had begun have a finalizer, and the next test makes one of the same name.
    wait_until(
        lambda: not running_cluster.api.get(collection).accepted()["items"], seconds=60, what="they are gone"
    )


@pytest.mark.parametrize("line", commands(), ids=str)
def test_the_guides_commands_work_as_printed(admin: User, restores: Ref, line: str, tmp_path: Path) -> None:
    words = shlex.split(line)[2:]
    (tmp_path / "shop.yaml").write_text(planned_file())
    done = subprocess.run(
        ["kubectl", "kindling", *words],
        cwd=tmp_path,
        env=admin.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in ((FINE, NOT_READY) if words[0] in ("status", "plan") else (FINE,)), (
        done.stdout + done.stderr
    )


def test_kubectl_completes_commands_and_names(admin: User, bin: Path) -> None:
    """As the guide says: by a second name of the program beside it."""
    other = bin / "kubectl_complete-kindling"
    if not other.exists():
        other.symlink_to("kubectl-kindling")
    for words, found in (
        (("res",), "restart"),
        (("restart", ""), "shop"),
        (("status", "memc"), "memcached/sessions"),
    ):
        done = subprocess.run(
            ["kubectl", "__complete", "kindling", *words],
            env=admin.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert found in done.stdout.splitlines(), done.stdout + done.stderr


def test_the_guide_has_each_command() -> None:
    lines = [*commands(), *commands(cluster=True), *commands(broker=True)]
    printed = {line.split()[2] for line in lines}
    assert printed == COMMANDS.keys()

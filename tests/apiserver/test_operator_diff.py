"""`python -m kindling.diff`: of what is settled nothing changes, and of an upgrade it says what then happens.

The audit log is the server's own: the credential reads, and may do no more than it does.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import (
    DEPLOYMENT,
    POD,
    SECRET,
    STATEFUL_SET,
    Ref,
)

from infra import rbac
from tests.apiserver.support import differ
from tests.apiserver.support.accounts import user_name, with_rights
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import READS, Request, wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, cluster, ref_to, role_rule
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import (
    BACKUP,
    MEMCACHED,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    RESTORE,
)
from tests.apiserver.support.operator_process import SOURCE, operator

NAMESPACE, ACCOUNT = "kindling-preview", "kindling-diff"
READER = user_name(NAMESPACE, ACCOUNT)
CANARY = "canary-of-the-store"
DATABASES: Mapping[str, Json] = {
    "auto-1": {},
    "auto-2": {},
    "manual": {"updates": "Manual"},
    "ephemeral": {"storage": {"ephemeral": True}},
    "window": {"maintenanceWindow": {"schedule": "0 0 29 2 *", "duration": "1m"}},
}
CONSUMER: Json = {
    "serverAddress": "pulsar://broker:6650",
    "topic": "orders",
    "subscriptionName": "printers",
    "replicas": 2,
}
ARCHIVE: Json = {
    "databaseRef": {"name": "auto-1"},
    "targetURL": "s3://bucket",
    "credentialsSecretRef": {"name": "store"},
    "schedule": "0 0 29 2 *",
    "immediate": False,
}
OTHERS: list[tuple[str, str, Json]] = [
    (POSTGRESQL_EXAMPLE.id, "other-group", {}),
    (MEMCACHED.id, "cache", {"size": 2}),
    (PULSAR_CONSUMER.id, "consumer", CONSUMER),
    (MY_CUSTOM_RESOURCE.id, "friend", {"name": "friend"}),
    (BACKUP.id, "nightly", ARCHIVE),
    (RESTORE.id, "clone", {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "clone"}}),
]
ALL = [*((POSTGRESQL.id, name, spec) for name, spec in DATABASES.items()), *OTHERS]
NEW = "kindling.invalid/new:2"


@dataclass(frozen=True)
class World:
    """A namespace with settled resources, whose operator is stopped."""

    cluster: Cluster
    reader: ControlPlane
    namespace: str

    def diff(self, *, source: Path = SOURCE, **env: str) -> dict[str, Any]:
        return differ.diff(self.reader, namespaces=self.namespace, env=env, source=source)

    @contextmanager
    def operator(self, *, source: Path | None = None, **env: str) -> Iterator[None]:
        """The operator of that configuration, which has done all that it does at once when this ends."""
        plane = self.cluster.operator_plane
        with operator(plane, namespaces=self.namespace, env=env, source=source, kept=True) as running:
            running.wait_ready()
            yield
            self.cluster.audit.wait_quiet(seconds=2)

    def pods(self) -> dict[str, str]:
        """The uids of all Pods by name, as they are now."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.cluster.list(POD, self.namespace, selector={})
            if "deletionTimestamp" not in pod["metadata"]
        }

    def ref(self, crd: str, name: str) -> Ref:
        return ref_to(KINDS_BY_NAME[crd], self.namespace, name)

    def asked(self, mark: int) -> list[Request]:
        """What the reader asked for since then."""
        return [each for each in self.cluster.audit.requests(mark) if each.user == READER]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(directory=tmp_path_factory.mktemp("diff"), audited=[READER]) as running:
        yield running


@pytest.fixture(scope="module")
def reader(servers: Cluster) -> ControlPlane:
    """By a credential with the rights of the table, and no others."""
    rules = [role_rule(rule) for rule in rbac.diff_rules()]
    return with_rights(servers.plane, servers.api, namespace=NAMESPACE, account=ACCOUNT, rules=rules)


@pytest.fixture
def world(servers: Cluster, reader: ControlPlane, request: pytest.FixtureRequest) -> Iterator[World]:
    name = request.node.name.replace("_", "-").removeprefix("test-")[:60].rstrip("-")
    made = World(servers, reader, servers.namespace(name))
    keys = {"metadata": {"name": "store"}, "stringData": {"accessKey": CANARY, "secretKey": CANARY}}
    servers.api.create(SECRET.path(namespace=name), keys).accepted()
    with made.operator():
        for crd, each, spec in ALL:
            servers.create(KINDS_BY_NAME[crd], name, each, spec)
        servers.wait_settled(*(made.ref(crd, each) for crd, each, _ in ALL if crd != RESTORE.id), seconds=60)
        wait_until(lambda: len(made.pods()) == len(DATABASES) + 5, seconds=60, what=lambda: made.pods())
    yield made
    servers.api.delete(f"/api/v1/namespaces/{name}")


def effects(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The effects of all resources by their object; two of one object would be a fault."""
    listed = [effect for resource in found["resources"] for effect in resource["effects"]]
    by_object = {effect["object"]: effect for effect in listed}
    assert len(by_object) == len(listed)
    return by_object


def rolls(found: dict[str, Any]) -> dict[str, str]:
    """Each Pod that rolls, and when."""
    return {name: each["when"] for each in effects(found).values() for name in each["rolls"]}


def stays(found: dict[str, Any]) -> dict[str, str]:
    return {name: each["when"] for each in effects(found).values() for name in each["stays"]}


def secrets_of(world: World) -> set[str]:
    """Every value of every Secret there."""
    return {
        form
        for secret in world.cluster.list(SECRET, world.namespace, selector={})
        for value in (secret.get("data") or {}).values()
        for form in (value, base64.b64decode(value).decode(errors="replace").strip())
        if len(form) > len("database")
    }


def test_of_what_is_settled_nothing_changes_and_nothing_is_written(world: World) -> None:
    mark, before = world.cluster.audit.mark(), world.pods()
    found = world.diff()
    assert (found["changes"], found["total"]) == (False, len(ALL)), json.dumps(found, indent=1)
    assert found["summary"].startswith(f"nothing changes, {len(ALL)} resources stay as they are")
    asked = world.asked(mark)
    assert {each.verb for each in asked} <= READS - {"watch"}
    assert not [each for each in asked if each.forbidden]
    assert {each.resource for each in asked} >= {kind.type.plural for kind in KINDS_BY_NAME.values()}
    # No server was asked: of those that would be, it says so, and nothing of the others.
    unknown = {each["name"] for each in found["resources"] if each["unknown"]}
    assert unknown == {*DATABASES, "other-group"}
    assert f"not known of {len(unknown)} resources: what servers say" in found["summary"]
    with world.operator():
        pass
    assert world.pods() == before


def test_another_image_of_one_operand_rolls_its_pods_alone(world: World) -> None:
    before = world.pods()
    found = world.diff(KINDLING_IMAGE_MEMCACHED=NEW)
    caches = {name for name in before if name.startswith("cache-")}
    assert len(caches) == 2
    assert rolls(found) == dict.fromkeys(caches, "AtOnce")
    assert found["summary"].startswith(
        "2 Pods roll, no resource becomes invalid, no data is touched; not known of"
    )
    (changed,) = effects(found).values()
    fields = {each["path"]: (each["old"], each["new"]) for each in changed["fields"]}
    assert fields["spec.template.spec.containers.memcached.image"] == ("kindling.invalid/memcached:1", NEW)
    with world.operator(KINDLING_IMAGE_MEMCACHED=NEW):
        deployment = Ref(DEPLOYMENT, world.namespace, "cache")
        wait_until(partial(rolled_out, world, deployment), seconds=60, what="the roll-out")
    after = world.pods()
    assert {name for name in before if name not in after} == caches
    assert {name: uid for name, uid in after.items() if name in before} == {
        name: uid for name, uid in before.items() if name not in caches
    }
    assert not world.diff(KINDLING_IMAGE_MEMCACHED=NEW)["changes"]


def rolled_out(world: World, ref: Ref) -> bool:
    status = (world.cluster.get(ref) or {})["status"]
    current = status["observedGeneration"] == (world.cluster.get(ref) or {})["metadata"]["generation"]
    return bool(
        current and status.get("updatedReplicas") == status["replicas"] == status["availableReplicas"]
    )


def test_another_image_of_databases_rolls_those_that_the_operator_restarts(world: World) -> None:
    before = world.pods()
    found = world.diff(KINDLING_IMAGE_POSTGRES=NEW)
    in_turn = ("auto-1-0", "auto-2-0", "other-group-0")
    assert rolls(found) == {**dict.fromkeys(in_turn, "InTurn"), "window-0": "AwaitingWindow"}
    assert stays(found) == {"manual-0": "Manual", "ephemeral-0": "NextRestart"}
    assert found["summary"].startswith(
        "4 Pods roll, 2 Pods stay of the earlier template until restarted, no resource becomes invalid, "
        "no data is touched; "
    )
    with world.operator(KINDLING_IMAGE_POSTGRES=NEW):
        # No server is Ready here, so the first restart halts the queue.
        wait_until(lambda: replaced(world, before) != set(), seconds=60, what="the first restart")
        (first,) = replaced(world, before)
        assert first in in_turn
        waiting = {
            **dict.fromkeys(in_turn, "Queued"),
            "window-0": rolls(found)["window-0"],
            **stays(found),
            first: "",
        }
        wait_until(lambda: pending(world) == waiting, seconds=60, what=lambda: (pending(world), waiting))
    assert replaced(world, before) == {first}
    assert pending(world) == waiting


def pending(world: World) -> dict[str, str]:
    """Each database's Pod, and for what its restart waits."""
    found = {f"{name}-0": pending_of(world, POSTGRESQL.id, name) for name in DATABASES}
    return {**found, "other-group-0": pending_of(world, POSTGRESQL_EXAMPLE.id, "other-group")}


def replaced(world: World, before: Mapping[str, str]) -> set[str]:
    return {name for name, uid in world.pods().items() if name in before and before[name] != uid}


def pending_of(world: World, crd: str, name: str) -> str:
    status = (world.cluster.get(world.ref(crd, name)) or {})["status"]
    return str(find_condition(status, "RestartPending").get("reason", ""))


def test_another_configuration_rolls_what_has_it_in_its_template(world: World) -> None:
    before = world.pods()
    found = world.diff(KINDLING_PULL_SECRETS="registry")
    others = {name for name in before if name.startswith(("cache-", "consumer-"))}
    assert rolls(found) == dict.fromkeys(others, "AtOnce")
    servers = {f"{name}-0": "NextRestart" for name in (*DATABASES, "other-group")}
    assert stays(found) == {**servers, "manual-0": "Manual"}
    with world.operator(KINDLING_PULL_SECRETS="registry"):
        for name in ("cache", "consumer-deployment"):
            deployment = Ref(DEPLOYMENT, world.namespace, name)
            wait_until(partial(rolled_out, world, deployment), seconds=60, what=f"the roll-out of {name}")
    assert {name for name in before if name not in world.pods()} == others
    assert replaced(world, before) == set()


def test_other_code_makes_a_resource_invalid_and_another_template(world: World, tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    changed = {
        "postgresql/maintenance_window.py": (
            "    try:\n        _read(cr)",
            "    if cr['spec'].get('updates') == 'Manual':\n"
            "        return Problem(reason=reasons.INVALID_SPEC, "
            "message=\"spec.updates 'Manual' is no longer taken: use OnRestart\")\n"
            "    try:\n        _read(cr)",
        ),
        "pulsarconsumer/workload.py": ('"replicas": ', '"minReadySeconds": 1,\n                "replicas": '),
    }
    for name, (old, new) in changed.items():
        file = source / "kindling" / "kinds" / name
        assert file.read_text().count(old) == 1, name
        file.write_text(file.read_text().replace(old, new))
    before = world.pods()
    found = world.diff(source=source)
    assert found["summary"].startswith(
        f"no Pods roll, 1 of {len(DATABASES) + 1} Postgresql becomes invalid, no data is touched"
    )
    (invalid,) = [each for each in found["resources"] if each["becomes_invalid"]]
    assert (invalid["name"], invalid["reason"]) == ("manual", "InvalidSpec")
    (deployment,) = effects(found).values()
    assert (deployment["object"], deployment["fields"]) == (
        "Deployment/consumer-deployment",
        [{"path": "spec.minReadySeconds", "old": "(none)", "new": "1"}],
    )
    with world.operator(source=source):
        ready = world.cluster.wait_ready_reason(world.ref(POSTGRESQL.id, "manual"), "InvalidSpec")
    assert ready["message"] == invalid["message"]
    assert world.pods() == before
    again = world.diff(source=source)
    assert not again["changes"], again["summary"]  # It is invalid already.


def test_data_is_touched_and_secrets_are_not_shown(world: World) -> None:
    """Whatever has changed while no operator ran: a spec, a Secret, a child that is gone."""
    cluster = world.cluster
    cluster.merge(world.ref(POSTGRESQL.id, "auto-1"), {"spec": {"storage": {"size": "2Gi"}}})
    cluster.merge(world.ref(POSTGRESQL.id, "auto-2"), {"spec": {"resources": {"limits": {"memory": "1Gi"}}}})
    binding = Ref(SECRET, world.namespace, "auto-2-binding")
    cluster.merge(binding, {"data": {"password": base64.b64encode(b"canary-of-the-binding").decode()}})
    cluster.delete(Ref(STATEFUL_SET, world.namespace, "manual"))
    wait_until(lambda: "manual-0" not in world.pods(), seconds=60, what="its Pod is gone")
    cluster.merge(world.ref(MEMCACHED.id, "cache"), {"spec": {"size": 1}})
    found = world.diff()
    by_object = effects(found)
    assert by_object["PersistentVolumeClaim/auto-1-data"]["data"] == "the volume is resized: 1Gi → 2Gi"
    assert rolls(found) == {"auto-2-0": "AtOnce"}
    assert by_object["StatefulSet/manual"]["action"] == "Create"
    assert by_object["PodDisruptionBudget/cache"]["action"] == "Delete"
    assert by_object["Deployment/cache"]["stops"] == 1
    assert "1 Pod rolls, 1 Pod stops, no resource becomes invalid" in found["summary"]
    assert "1 object is deleted, the data of 1 resource is touched" in found["summary"]
    text = differ.run(world.reader, namespaces=world.namespace, args=()).stdout
    assert "Secret/auto-2-binding" in text
    assert text.startswith(found["summary"])
    values = secrets_of(world)
    assert len(values) > 10
    for value in {*values, CANARY, "canary-of-the-binding"}:
        assert value not in text
        assert value not in json.dumps(found, ensure_ascii=False)


OF_BACKUPS = {
    ("batch", "cronjobs", "get"),
    ("batch", "jobs", "get"),
    *((group, "postgresqls", "get") for group in rbac.POSTGRESQL_GROUPS),
}
"""What a Backup looks up once its database is Ready, and a Restore once it has one: no server is here."""
OF_CERT_MANAGER = {("cert-manager.io", "certificates", verb) for verb in ("get", "list")}
"""Where cert-manager is, `tests/apiserver/test_cert_manager.py` has the diff read its Certificates."""


def test_each_right_is_needed(world: World) -> None:
    """Of resources that nobody has made anything for yet, each child is looked up by its name."""
    cluster = world.cluster
    for crd, name, spec in ALL:
        cluster.create(KINDS_BY_NAME[crd], world.namespace, f"fresh-{name}", spec)
    mark = cluster.audit.mark()
    created = {name for name, each in effects(world.diff()).items() if each["action"] == "Create"}
    assert {"StatefulSet/fresh-auto-1", "Deployment/fresh-cache"} <= created
    used = {(each.group, each.resource, each.verb) for each in world.asked(mark) if each.resource}
    granted = {
        (rule.group, resource, verb)
        for rule in rbac.diff_rules()
        for resource in rule.resources
        for verb in rule.verbs
    }
    assert granted - used == OF_BACKUPS | OF_CERT_MANAGER
    assert used <= granted


def test_what_cannot_be_read_is_named(servers: Cluster) -> None:
    rules = [role_rule(rule) for rule in rbac.diff_rules() if "secrets" not in rule.resources]
    plane = with_rights(servers.plane, servers.api, namespace="kindling-blind", account="blind", rules=rules)
    done = differ.run(plane)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'cannot list resource "secrets"' in done.stderr or 'cannot list resource "secrets"' in done.stderr
    assert done.stderr.endswith("docs/guides/preview.md lists the rights that are needed\n")

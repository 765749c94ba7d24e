"""What spec.exporter adds to the children of each kind that has it, and that without it nothing is added."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kindling.kinds import exporter
from kindling.kinds.base import Child, Kind
from kindling.kinds.postgresql import roles, updates
from kindling.kube.resources import DEPLOYMENT, NETWORK_POLICY, SECRET, STATEFUL_SET, Object

from infra.paths import REPOSITORY
from tests.unit.operator import memcacheds, postgresqls
from tests.unit.operator.memcacheds import memcached
from tests.unit.operator.postgresqls import postgresql

CASES = [(memcacheds.KIND, memcached), (postgresqls.KIND, postgresql)]
IDS = ["memcached", "postgresql"]
LIMITED: Object = {"enabled": True, "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "64Mi"}}}


def children(kind: Kind, cr: Object) -> list[Child]:
    return kind.desired(cr, memcacheds.observed())


def pod(found: list[Child]) -> Object:
    (workload,) = (child for child in found if child.type in (DEPLOYMENT, STATEFUL_SET))
    spec: Object = workload.body["spec"]["template"]["spec"]
    return spec


def container(found: list[Child]) -> Object:
    *_, last = pod(found)["containers"]
    assert last["name"] == exporter.NAME
    return dict(last)


@pytest.mark.parametrize(("kind", "made"), CASES, ids=IDS)
@pytest.mark.parametrize(
    "off", [None, {}, {"enabled": False}, {"enabled": False, "resources": {"limits": {}}}]
)
def test_without_it_the_children_are_as_they_were(kind: Kind, made: Any, off: Object | None) -> None:
    """Or every server would be restarted by an upgrade."""
    assert children(kind, made(exporter=off)) == children(kind, made())


@pytest.mark.parametrize(("kind", "made"), CASES, ids=IDS)
def test_its_failure_is_not_the_servers(kind: Kind, made: Any) -> None:
    """A probe that fails would make the Pod unready, or restart it; the server's own stay as they are."""
    found = container(children(kind, made(exporter=LIMITED)))
    assert [name for name in found if "robe" in name or name == "lifecycle"] == []
    plain, with_it = pod(children(kind, made())), pod(children(kind, made(exporter=LIMITED)))
    assert with_it["containers"][:-1] == plain["containers"]
    assert {**with_it, "containers": [], "volumes": []} == {**plain, "containers": [], "volumes": []}


@pytest.mark.parametrize(("kind", "made"), CASES, ids=IDS)
def test_its_resources_are_those_of_the_spec_beside_the_defaults(kind: Kind, made: Any) -> None:
    assert container(children(kind, made(exporter={"enabled": True})))["resources"] == {
        "requests": {"cpu": "10m", "memory": "32Mi"},
        "limits": {"memory": "128Mi"},
    }
    assert container(children(kind, made(exporter=LIMITED)))["resources"] == {
        "requests": {"cpu": "1", "memory": "32Mi"},
        "limits": {"memory": "64Mi"},
    }


@pytest.mark.parametrize(("kind", "made"), CASES, ids=IDS)
def test_the_network_lets_the_whole_cluster_to_the_metrics_and_to_nothing_else(kind: Kind, made: Any) -> None:
    def ingress(cr: Object) -> list[Object]:
        (policy,) = (child for child in children(kind, cr) if child.type == NETWORK_POLICY)
        rules: list[Object] = policy.body["spec"]["ingress"]
        return rules

    (port,) = container(children(kind, made(exporter=LIMITED)))["ports"]
    *others, scraped = ingress(made(exporter=LIMITED))
    assert others == ingress(made())
    assert scraped == {
        "from": [{"namespaceSelector": {}}],
        "ports": [{"port": port["name"], "protocol": "TCP"}],
    }


def test_the_programs_are_in_the_image_by_their_names() -> None:
    containerfile = (REPOSITORY / "operator" / "images" / "exporters" / "Containerfile").read_text()
    last = containerfile.rpartition("\nFROM ")[2]
    for kind, made in CASES:
        command = container(children(kind, made(exporter=LIMITED)))["command"]
        for name in (command[0], *(command[command.index("--") + 1 :][:1] if "--" in command else ())):
            assert f" /usr/bin/{name}\n" in last
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE)


def test_the_password_is_in_the_secret_and_the_pod_has_it_as_a_file_alone() -> None:
    found = children(postgresqls.KIND, postgresql(exporter=LIMITED))
    (secret,) = (
        child for child in found if child.type == SECRET and child.ref.name == "db-role-kindling-exporter"
    )
    password = base64.b64decode(secret.body["data"]["password"]).decode()
    assert len(password) == 32
    assert [child.ref for child in found if password in repr(child.body)] == []
    env = {item["name"]: item["value"] for item in container(found)["env"]}
    (volume,) = (item for item in pod(found)["volumes"] if item["name"] == "exporter")
    (mount,) = container(found)["volumeMounts"]
    assert volume["secret"]["secretName"] == secret.ref.name
    assert volume["secret"]["items"] == [{"key": "password", "path": "password"}]
    assert env["DATA_SOURCE_PASS_FILE"] == f"{mount['mountPath']}/password"
    assert env["DATA_SOURCE_USER"] == roles.EXPORTER
    (server, _) = pod(found)["containers"]
    assert "exporter" not in {item["name"] for item in server["volumeMounts"]}


def test_what_connects_to_any_server_listens_on_the_loopback_alone() -> None:
    """postgres_exporter has /probe; what is in front of it has /metrics alone."""
    command = container(children(postgresqls.KIND, postgresql(exporter=LIMITED)))["command"]
    words, behind = command[: command.index("--")], command[command.index("--") + 1 :]
    (listens,) = (word.partition("=")[2] for word in behind if word.startswith("--web.listen-address"))
    assert listens.startswith("127.0.0.1:")
    assert f"--exporter={listens}" in words
    assert "--file=/etc/kindling/exporter/password" in words


@pytest.mark.parametrize(
    ("spec", "mode"), [({}, "require"), ({"required": True}, "require"), ({"enabled": False}, "disable")]
)
def test_it_connects_to_the_server_of_its_pod_as_that_asks_for(spec: Object, mode: str) -> None:
    found = children(postgresqls.KIND, postgresql(exporter=LIMITED, tls=spec))
    (uri,) = (item["value"] for item in container(found)["env"] if item["name"] == "DATA_SOURCE_URI")
    parts = urlsplit(f"postgresql://{uri}")
    assert (parts.hostname, parts.port, parts.path) == ("localhost", 5432, "/postgres")
    # The owner of that database could put functions of their own in a schema that comes first.
    assert parse_qs(parts.query) == {
        "sslmode": [mode],
        "application_name": ["exporter"],
        "search_path": ["pg_catalog"],
    }


def test_its_change_is_the_users_word_and_restarts_at_once() -> None:
    def said(**spec: Any) -> str:
        return updates.spec_hash(postgresql(**spec), restart_token="same")

    on, limited = said(exporter={"enabled": True}), said(exporter=LIMITED)
    assert len({said(), on, limited}) == 3
    assert said(exporter={"enabled": False, "resources": LIMITED["resources"]}) == said()


def test_its_role_may_look_and_is_made_once() -> None:
    (role,) = roles.read(postgresql(exporter=LIMITED))
    assert (role.member_of, role.login, role.delete) == (("pg_monitor",), True, True)
    assert roles.UNLIMITED < role.connection_limit < 10
    own = {"name": roles.EXPORTER}
    assert len(roles.read(postgresql(exporter=LIMITED, roles=[own]))) == 1
    assert roles.path_of(role.name) == "spec.exporter"

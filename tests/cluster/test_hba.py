"""spec.hba and spec.initSQL of one Postgresql: who gets in, what is refused, and SQL that is run once.

Without TLS, so that the server itself has something against a line with `hostssl`. The kubelet brings each
edit of the rules, which takes a minute or two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.stack import Environment, within
from tests.cluster.test_claims import hold, metrics

pytestmark = pytest.mark.thorough

DATABASE, NAME = "postgresqls.database.technotuesday.io", "rules"
RESOURCE = f"{DATABASE}/{NAME}"
SYSTEM, OPERATOR = "kindling-system", "deployment/kindling-operator"
DELIVERED_SECONDS = 180.0
ONLY_BOB, EVERYBODY = "host all bob all reject", "host all all all reject"
SECURED = "hostssl all bob all scram-sha-256"
SCHEMA = "CREATE TABLE visits (note text);\nINSERT INTO visits VALUES (current_user);\n"
BROKEN = SCHEMA.replace("INSERT INTO visits", "INSERT INTO visitors")
REJECTS = r"pg_hba\.conf rejects connection"
SMALL = {"requests": {"cpu": "10m", "memory": "64Mi"}}


@pytest.fixture(scope="module")
def database(environment: Environment) -> Iterator[Environment]:
    """With initial SQL that fails in its second line."""
    script(environment, BROKEN)
    secret = {"metadata": {"name": "rules-bob"}, "stringData": {"password": "b"}}
    environment.apply({"apiVersion": "v1", "kind": "Secret", **secret})
    spec = {
        "defaultUser": "app",
        "storage": {"size": "256Mi"},
        "resources": SMALL,
        "deletionPolicy": "Delete",
        "tls": {"enabled": False},
        "hba": [ONLY_BOB],
        "initSQL": [{"configMapRef": {"name": "rules-sql", "key": "schema.sql"}}],
        "roles": [{"name": "bob", "login": True, "passwordSecretRef": {"name": "rules-bob"}}],
    }
    body = {"apiVersion": "database.technotuesday.io/v1", "kind": "Postgresql", "metadata": {"name": NAME}}
    environment.apply({**body, "spec": spec})
    yield environment
    for ref in (RESOURCE, "configmap/rules-sql", "secret/rules-bob"):
        environment.kubectl("delete", ref)


def script(environment: Environment, sql: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules-sql"}}
    environment.apply({**body, "data": {"schema.sql": sql}})


def edit(environment: Environment, *lines: str) -> None:
    patch = json.dumps({"spec": {"hba": list(lines)}})
    environment.kubectl("patch", RESOURCE, "--type=merge", f"--patch={patch}")


def reason(environment: Environment) -> str:
    """Ready's, of the spec as it stands."""
    found = environment.get(RESOURCE)
    for item in found.get("status", {}).get("conditions", []):
        if item["type"] == "Ready" and item["observedGeneration"] == found["metadata"]["generation"]:
            return str(item["reason"])
    return ""


def message(environment: Environment) -> str:
    conditions = environment.get(RESOURCE)["status"]["conditions"]
    return next(str(item["message"]) for item in conditions if item["type"] == "Ready")


def asks(environment: Environment, user: str, password: str, query: str) -> str:
    """By the network, from an address that is nobody's own: the Pod's."""
    address = environment.get("pod", f"{NAME}-0")["status"]["podIP"]
    where = f"host={address} user={user} password={password} dbname=app connect_timeout=10"
    words = ("psql", "--no-psqlrc", "-tA", "-c", query, where)
    return environment.kubectl("exec", f"{NAME}-0", "-c", "postgres", "--", *words).strip()


def password(environment: Environment) -> str:
    template = 'go-template={{index .data "password" | base64decode}}'
    return environment.kubectl("get", "secret", f"{NAME}-binding", "-o", template)


def app(environment: Environment, query: str) -> str:
    return asks(environment, "app", password(environment), query)


def server(environment: Environment) -> tuple[str, int]:
    """What a restart changes."""
    pod = environment.get("pod", f"{NAME}-0")
    containers = pod["status"].get("containerStatuses", [])
    return pod["metadata"]["uid"], sum(each["restartCount"] for each in containers)


def in_force(environment: Environment) -> list[str]:
    rules: list[str] = environment.get(RESOURCE)["status"].get("hba", [])
    return rules


def test_initial_sql_that_fails_is_named_and_cured_by_an_edit_of_the_config_map(
    database: Environment,
) -> None:
    within(180, lambda: reason(database) == "InitSQLFailed")
    said = message(database)
    assert "spec.initSQL[0] (ConfigMap 'rules-sql', key 'schema.sql'), line 2" in said
    assert 'relation "visitors" does not exist' in said
    script(database, SCHEMA)
    database.wait_ready(RESOURCE, seconds=120)
    assert app(database, "SELECT note FROM visits") == "app"
    assert app(database, "SELECT tableowner FROM pg_tables WHERE tablename = 'visits'") == "app"


def test_a_role_that_a_line_rejects_is_rejected_and_others_are_not(database: Environment) -> None:
    assert ONLY_BOB in in_force(database)
    with pytest.raises(AssertionError, match=REJECTS):
        asks(database, "bob", "b", "SELECT 1")
    assert app(database, "SELECT 1") == "1"


def test_lines_are_refused_by_the_api_server_and_by_the_server_while_logins_go_on(
    database: Environment,
) -> None:
    with pytest.raises(AssertionError, match="must end with scram-sha-256 or reject"):
        edit(database, "host all all all trust")
    before, rules = server(database), in_force(database)
    edit(database, EVERYBODY, SECURED)
    within(DELIVERED_SECONDS, lambda: reason(database) == "InvalidHba")
    assert f"spec.hba[1] '{SECURED}': PostgreSQL says" in message(database)
    assert "hostssl record cannot match because SSL is disabled" in message(database)
    assert (in_force(database), server(database)) == (rules, before)
    assert app(database, "SELECT 1") == "1"


def test_nobody_can_lock_out_the_operator(database: Environment) -> None:
    before = server(database)
    edit(database, "host app bob all scram-sha-256", EVERYBODY)
    within(DELIVERED_SECONDS, lambda: reason(database) == "LoginSucceeded")
    assert EVERYBODY in in_force(database)
    assert server(database) == before
    assert app(database, "SELECT 1") == asks(database, "bob", "b", "SELECT 1") == "1"
    for user, secret in (("bob", "b"), ("app", password(database))):
        where = f"host=127.0.0.1 user={user} password={secret} dbname=template1"
        with pytest.raises(AssertionError, match=REJECTS):
            database.kubectl("exec", f"{NAME}-0", "-c", "postgres", "--", "psql", "-c", "SELECT 1", where)


def test_initial_sql_is_not_run_again_by_a_new_pod_nor_a_new_operator(database: Environment) -> None:
    applied = database.get(RESOURCE)["status"]["initSQL"]["appliedAt"]
    assert app(database, "SELECT current_setting('kindling.init_sql')") == applied
    app(database, "INSERT INTO visits VALUES ('kept')")
    before = server(database)
    script(database, "DROP TABLE visits;")
    database.kubectl("delete", "pod", f"{NAME}-0")
    database.kubectl("rollout", "restart", OPERATOR, "-n", SYSTEM)
    database.kubectl("rollout", "status", OPERATOR, "-n", SYSTEM, "--timeout=180s")
    within(180, lambda: server(database) != before)
    database.wait_ready(RESOURCE, seconds=180)
    assert app(database, "SELECT string_agg(note, ' ' ORDER BY note) FROM visits") == "app kept"
    status: dict[str, Any] = database.get(RESOURCE)["status"]
    assert status["initSQL"] == {"appliedAt": applied}
    assert EVERYBODY in status["hba"]
    # An operator that has just started has the status of before in its figures for a moment.
    within(60, lambda: metrics(database, database.get(RESOURCE))[0].get("kindling_resource_ready") == 1)
    hold(database, DATABASE, NAME)

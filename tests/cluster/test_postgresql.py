"""Postgresql as its users meet it: a real login through the Service, rows that outlive their Pod."""

from __future__ import annotations

import json

import pytest

from tests.cluster.stack import ROOT, Environment

GROUPS = {
    "mydb": "postgresqls.database.db.example.com",
    "postgresql-sample": "postgresqls.database.technotuesday.io",
}


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_the_sample_is_ready_for_kubectl_wait_and_says_where_it_runs(
    environment: Environment, name: str
) -> None:
    environment.kubectl("wait", "--for=condition=Ready", f"{GROUPS[name]}/{name}", "--timeout=120s")
    resource = environment.get(f"{GROUPS[name]}/{name}")
    status = resource["status"]
    assert status["pgPhase"] == "up"
    assert status["observedGeneration"] == resource["metadata"]["generation"]
    pod = environment.get(f"pod/{status['active']['name']}")
    assert pod["metadata"]["uid"] == status["active"]["uid"]
    assert pod["status"]["phase"] == "Running"


@pytest.mark.parametrize(("name", "user"), [("mydb", "pgowner"), ("postgresql-sample", "postgres")])
def test_the_default_user_owns_a_database_of_its_name(environment: Environment, name: str, user: str) -> None:
    query = (
        "select current_user || ' ' || pg_get_userbyid(datdba) from pg_database"
        " where datname = current_database()"
    )
    assert environment.psql(name, query) == f"{user} {user}"


def test_the_documents_password_is_the_one_that_logs_in(environment: Environment) -> None:
    secret = environment.kubectl(
        "get", "secret", "mydb-binding", "-o", "go-template={{.data.password | base64decode}}"
    )
    assert secret == "password123"


def test_rows_outlive_the_pod(environment: Environment) -> None:
    environment.psql("mydb", "create table survivors (id int); insert into survivors values (41), (1)")
    before = environment.get("pod", "mydb-0")["metadata"]["uid"]
    environment.kubectl("delete", "pod", "mydb-0", "--wait=true")
    environment.kubectl("wait", "--for=create", "pod/mydb-0", "--timeout=60s")
    environment.kubectl("wait", "--for=condition=Ready", "pod/mydb-0", "--timeout=120s")
    assert environment.get("pod", "mydb-0")["metadata"]["uid"] != before
    assert environment.psql("mydb", "select sum(id) from survivors") == "42"
    environment.kubectl("wait", "--for=condition=Ready", f"{GROUPS['mydb']}/mydb", "--timeout=60s")


def test_deleting_leaves_the_data_and_a_new_resource_takes_it_up(environment: Environment) -> None:
    sample = (ROOT / "samples" / "postgresql-example.yaml").read_text().replace("name: mydb", "name: kept")
    resource = f"{GROUPS['mydb']}/kept"
    environment.kubectl("apply", "-f", "-", stdin=sample)
    environment.kubectl("wait", "--for=condition=Ready", resource, "--timeout=180s")
    environment.psql("kept", "create table t (v text); insert into t values ('still here')")
    environment.kubectl("delete", resource, "--wait=true", "--cascade=foreground", timeout=180)
    environment.kubectl("wait", "--for=delete", "pod/kept-0", "--timeout=120s")
    left = environment.get(
        "statefulsets,pods,services,configmaps,secrets,pvc", "-l", "app.kubernetes.io/instance=kept"
    )
    assert sorted(f"{o['kind']}/{o['metadata']['name']}" for o in left["items"]) == [
        "PersistentVolumeClaim/kept-data",
        "Secret/kept-superuser",
    ]
    environment.kubectl("apply", "-f", "-", stdin=sample.replace("password123", "another-one"))
    environment.kubectl("wait", "--for=condition=Ready", resource, "--timeout=180s")
    assert environment.psql("kept", "select v from t") == "still here"
    environment.kubectl("delete", resource, "--wait=true", timeout=180)
    environment.kubectl("delete", "pvc", "kept-data", "--wait=true", timeout=180)


def test_delete_policy_leaves_nothing(environment: Environment) -> None:
    manifest = {
        "apiVersion": "database.db.example.com/v1",
        "kind": "Postgresql",
        "metadata": {"name": "fleeting"},
        "spec": {"deletionPolicy": "Delete"},
    }
    resource = f"{GROUPS['mydb']}/fleeting"
    environment.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    environment.kubectl("wait", "--for=condition=Ready", resource, "--timeout=180s")
    environment.kubectl("delete", resource, "--wait=true", "--cascade=foreground", timeout=180)
    kinds = "statefulsets,pods,services,configmaps,secrets,pvc"
    environment.kubectl(
        "wait", "--for=delete", kinds, "-l", "app.kubernetes.io/instance=fleeting", "--timeout=120s"
    )
    assert environment.get(kinds, "-l", "app.kubernetes.io/instance=fleeting")["items"] == []


def test_passwords_stand_in_secrets_alone(environment: Environment) -> None:
    """The canary is the sample's password; the resource's own spec, where its author put it, is set aside."""
    logs = environment.kubectl(
        "logs", "-n", "kindling-system", "deployment/kindling-operator", "--all-pods=true", "--tail=-1"
    )
    pods = environment.kubectl("logs", "mydb-0", "--all-containers")
    seen = environment.kubectl("get", "events,pods,statefulsets,configmaps,services,pvc", "-A", "-o", "json")
    resource = environment.get(f"{GROUPS['mydb']}/mydb")
    status = json.dumps(resource["status"]) + json.dumps(resource["metadata"].get("annotations", {}))
    for text in (logs, pods, seen, status):
        assert "password123" not in text
    assert "kindling.engine" in logs  # They are the operator's logs, not empty.


def test_no_trace_of_the_framework_on_any_resource(environment: Environment) -> None:
    for name, resource in GROUPS.items():
        metadata = environment.get(f"{resource}/{name}")["metadata"]
        assert not [key for key in metadata.get("annotations", {}) if "kopf" in key]
        assert not metadata.get("finalizers")

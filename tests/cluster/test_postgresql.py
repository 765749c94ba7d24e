"""Postgresql as its users meet it: a real login through the Service, rows that outlive their Pod."""

from __future__ import annotations

import base64
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kindling.kinds.postgresql.serve import READY_PORT

from tests.cluster.connections import client
from tests.cluster.stack import ROOT, Environment, within
from tests.cluster.watching import watching

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


def test_nobody_but_the_kubelet_reaches_the_port_of_readiness(environment: Environment) -> None:
    """Who may log in, from the server's own namespace."""
    pod = environment.get("pod", "mydb-0")
    ready = {item["type"]: item["status"] for item in pod["status"]["conditions"]}["Ready"]
    assert ready == "True"
    with client(environment) as mate:
        mate.reaches(pod["status"]["podIP"], 5432)
        mate.is_kept_out(pod["status"]["podIP"], READY_PORT)


def test_a_hibernated_server_is_gone_and_comes_back_with_its_rows(environment: Environment) -> None:
    name = f"{GROUPS['mydb']}/mydb"
    environment.psql("mydb", "create table slept as select 7 as id")
    environment.kubectl("patch", name, "--type=merge", '--patch={"spec":{"hibernate":true}}')
    environment.kubectl("wait", "--for=jsonpath={.status.pgPhase}=hibernated", name, "--timeout=90s")
    assert environment.kubectl("get", "pod", "mydb-0", "--ignore-not-found") == ""
    status = environment.get(name)["status"]
    assert "active" not in status
    conditions = {item["type"]: (item["status"], item["reason"]) for item in status["conditions"]}
    assert conditions["Ready"] == ("False", "Hibernated")
    assert conditions["Degraded"][0] == conditions["Progressing"][0] == "False"
    environment.kubectl("patch", name, "--type=merge", '--patch={"spec":{"hibernate":false}}')
    environment.kubectl("wait", "--for=condition=Ready", name, "--timeout=120s")
    assert environment.psql("mydb", "select id from slept") == "7"


@pytest.mark.thorough
def test_the_clock_stops_and_starts_a_server(environment: Environment) -> None:
    """Within seconds of the minute that the schedule names, and of the end that the message names."""
    name = f"{GROUPS['mydb']}/mydb"
    environment.psql("mydb", "create table by_the_clock as select 8 as id")
    opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
    window = {"schedule": f"{opens.minute} {opens.hour} * * *", "duration": "1m"}
    patch = json.dumps({"spec": {"hibernateWindow": window}})
    environment.kubectl("patch", name, "--type=merge", f"--patch={patch}")
    assert environment.get(name)["status"]["pgPhase"] == "up"
    environment.kubectl("wait", "--for=jsonpath={.status.pgPhase}=hibernated", name, "--timeout=180s")
    assert timedelta() < datetime.now(UTC) - opens < timedelta(seconds=30)
    conditions = environment.get(name)["status"]["conditions"]
    (message,) = (item["message"] for item in conditions if item["type"] == "Ready")
    closes = opens + timedelta(minutes=1)
    assert f"it starts at {closes:%Y-%m-%dT%H:%M:%SZ}" in message
    environment.kubectl("wait", "--for=condition=Ready", name, "--timeout=180s")
    assert timedelta() < datetime.now(UTC) - closes < timedelta(seconds=60)
    environment.kubectl("patch", name, "--type=merge", '--patch={"spec":{"hibernateWindow":null}}')
    assert environment.psql("mydb", "select id from by_the_clock") == "8"


def _stopped_after_a_session(environment: Environment, name: str) -> tuple[datetime, dict[str, Any]]:
    """When the session had ended, and the status of the server that was then stopped."""
    environment.kubectl("patch", name, "--type=merge", '--patch={"spec":{"hibernateAfter":"1m"}}')
    environment.psql("postgresql-sample", "select pg_sleep(100)")
    ended = datetime.now(UTC)
    status = environment.get(name)["status"]
    assert status["pgPhase"] == "up"
    assert "idle" not in status
    environment.kubectl("wait", "--for=jsonpath={.status.pgPhase}=hibernated", name, "--timeout=120s")
    return ended, environment.get(name)["status"]


def test_a_server_that_nobody_uses_is_stopped_and_woken(environment: Environment) -> None:
    """Not while somebody is connected, however still; then `since` is when the session has ended."""
    name = f"{GROUPS['postgresql-sample']}/postgresql-sample"
    environment.psql("postgresql-sample", "create table unused as select 9 as id")
    ended, status = _stopped_after_a_session(environment, name)
    if datetime.fromisoformat(status["idle"]["since"]) - ended >= timedelta(seconds=10):
        # A health check that a busy machine loses counts as use, by design: then once more.
        environment.kubectl("patch", name, "--type=merge", '--patch={"spec":{"hibernateAfter":null}}')
        environment.kubectl("wait", "--for=condition=Ready", name, "--timeout=120s")
        ended, status = _stopped_after_a_session(environment, name)
    since, stopped = (datetime.fromisoformat(status["idle"][field]) for field in ("since", "stoppedAt"))
    # A Pod that asks is cleared away before its answer is here.
    assert timedelta(seconds=-15) < since - ended < timedelta(seconds=10)
    assert timedelta(seconds=60) <= stopped - since < timedelta(seconds=75)
    assert environment.kubectl("get", "pod", "postgresql-sample-0", "--ignore-not-found") == ""
    (message,) = (item["message"] for item in status["conditions"] if item["type"] == "Ready")
    about = "--field-selector=involvedObject.name=postgresql-sample,reason=Hibernated"
    said = ("get", "events", about, "-o", "jsonpath={.items[*].type} {.items[*].message}")
    within(10, lambda: environment.kubectl(*said) == f"Normal {message}")
    (command,) = re.findall(r"`kubectl ([^`]*)`", message)
    environment.kubectl(*command.split())
    environment.kubectl("wait", "--for=condition=Ready", name, "--timeout=120s")
    assert environment.psql("postgresql-sample", "select id from unused") == "9"
    idle = environment.get(name)["status"]["idle"]
    assert idle == {"wake": status["idle"]["since"]}
    environment.kubectl("patch", name, "--type=merge", '--patch={"spec":{"hibernateAfter":null}}')


def test_a_connection_starts_a_server_that_nobody_uses(environment: Environment) -> None:
    """It waits, gets its row, and then the Service leads to the server itself."""
    name = f"{GROUPS['postgresql-sample']}/postgresql-sample"
    environment.psql("postgresql-sample", "create table first_served as select 7 as id")
    wakes = {"spec": {"hibernateAfter": "1m", "wakeOnConnection": True}}
    environment.kubectl("patch", name, "--type=merge", f"--patch={json.dumps(wakes)}")
    _wait_for_activator(environment)
    environment.kubectl("wait", "--for=jsonpath={.status.pgPhase}=hibernated", name, "--timeout=180s")
    (message,) = (
        item["message"] for item in environment.get(name)["status"]["conditions"] if item["type"] == "Ready"
    )
    assert "The next connection starts it, or `kubectl annotate" in message
    (first,) = environment.get("pods", "-l", ACTIVATOR)["items"]
    assert _addresses(environment) == {first["status"]["podIP"]}
    # One that goes, and one that comes, calls nobody.
    stopped = environment.get(name)["status"]["idle"]["stoppedAt"]
    environment.kubectl("delete", "pod", first["metadata"]["name"], "--wait=true")
    _wait_for_activator(environment)
    time.sleep(5)
    assert environment.get(name)["status"]["idle"]["stoppedAt"] == stopped
    (pod,) = environment.get("pods", "-l", ACTIVATOR)["items"]

    with watching(environment, name, "--output=jsonpath={.status.idle.wakingSince}{'\\n'}") as seen:
        asked = datetime.now(UTC)
        assert environment.psql("postgresql-sample", "select id from first_served") == "7"
        served = datetime.now(UTC)
        environment.kubectl("wait", "--for=condition=Ready", name, "--timeout=60s")
    (woken,) = {line for _, line in seen if line}
    # A time of whole seconds.
    assert asked - timedelta(seconds=1) <= datetime.fromisoformat(woken) <= served
    assert set(environment.get(name)["status"].get("idle") or ()) <= {"wake"}
    server = environment.get("pod", "postgresql-sample-0")
    within(10, lambda: _addresses(environment) == {server["status"]["podIP"]})
    assert environment.psql("postgresql-sample", "select inet_client_addr()") != pod["status"]["podIP"]
    (still,) = environment.get("pods", "-l", ACTIVATOR)["items"]
    assert still["status"]["containerStatuses"][0]["restartCount"] == 0
    left = {"spec": {"hibernateAfter": None, "wakeOnConnection": None}}
    environment.kubectl("patch", name, "--type=merge", f"--patch={json.dumps(left)}")
    within(30, lambda: environment.get("pods", "-l", ACTIVATOR)["items"] == [])


ACTIVATOR = "app.kubernetes.io/component=activator,kindling.dev/name=postgresql-sample"


def _wait_for_activator(environment: Environment) -> None:
    name = "deployment/postgresql-sample-activator"
    # kubectl waits for nothing that is not there yet.
    within(60, lambda: environment.kubectl("get", name, "--ignore-not-found") != "")
    environment.kubectl("wait", "--for=condition=Available", name, "--timeout=60s")


def _addresses(environment: Environment) -> set[str]:
    """Where the Service leads."""
    slices = environment.get("endpointslices", "-l", "kubernetes.io/service-name=postgresql-sample")["items"]
    return {
        address
        for item in slices
        for endpoint in item.get("endpoints") or ()
        for address in endpoint["addresses"]
    }


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
    # The children do not block their owner's deletion, so each may outlast it, the Pod and the others.
    kinds = "statefulsets,pods,services,configmaps,pvc"
    environment.kubectl(
        "wait", "--for=delete", kinds, "-l", "app.kubernetes.io/instance=kept", "--timeout=120s"
    )
    environment.kubectl("wait", "--for=delete", "secret/kept-binding", "--timeout=60s")
    left = environment.get(f"{kinds},secrets", "-l", "app.kubernetes.io/instance=kept")["items"]
    # The claim, which belongs to nobody now, bears no label by which another tool would take it for its own.
    assert [(item["kind"], item["metadata"]["name"]) for item in left] == [("Secret", "kept-superuser")]
    kept = environment.get("pvc", "-l", "kindling.dev/name=kept")["items"]
    assert [item["metadata"]["name"] for item in kept] == ["kept-data"]
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
    environment.kubectl("wait", "--for=delete", "pvc/fleeting-data", "--timeout=120s")


@pytest.fixture
def made(environment: Environment) -> Iterator[Callable[..., str]]:
    """Makes a Postgresql of this spec, waits for it to be Ready, and deletes it with its data at the end."""
    names: list[str] = []

    def make(name: str, **spec: Any) -> str:
        manifest = {
            "apiVersion": "database.db.example.com/v1",
            "kind": "Postgresql",
            "metadata": {"name": name},
            "spec": {"deletionPolicy": "Delete", **spec},
        }
        names.append(f"{GROUPS['mydb']}/{name}")
        environment.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        environment.kubectl("wait", "--for=condition=Ready", names[-1], "--timeout=180s")
        return names[-1]

    yield make
    for resource in names:
        environment.kubectl("delete", resource, "--wait=true", "--cascade=foreground", timeout=180)


def patch(environment: Environment, resource: str, reason: str, **spec: Any) -> str:
    """Lay this over the spec, wait for the reason, and give back the uid of the Pod then."""
    body = json.dumps({"spec": spec})
    generation = environment.get(resource)["metadata"]["generation"] + 1
    environment.kubectl("patch", resource, "--type=merge", f"--patch={body}")
    environment.kubectl(
        "wait", resource, f"--for=jsonpath={{.status.observedGeneration}}={generation}", "--timeout=60s"
    )
    query = '{.status.conditions[?(@.type=="Ready")].reason}'
    environment.kubectl("wait", resource, f"--for=jsonpath={query}={reason}", "--timeout=180s")
    return str(environment.get("pod", f"{resource.partition('/')[2]}-0")["metadata"]["uid"])


def test_parameters_reload_restart_and_are_refused(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("tuned", parameters={"max_connections": 40})
    first = environment.get("pod", "tuned-0")["metadata"]["uid"]
    assert environment.psql("tuned", "show max_connections") == "40"

    both = {"max_connections": 40, "work_mem": "8MB"}
    assert patch(environment, resource, "LoginSucceeded", parameters=both) == first
    assert environment.psql("tuned", "show work_mem") == "8MB"

    # The server is another one then, in the same Pod and the same container.
    second = patch(environment, resource, "LoginSucceeded", parameters={"max_connections": 50})
    assert second == first
    (server,) = environment.get("pod", "tuned-0")["status"]["containerStatuses"]
    assert server["restartCount"] == 0
    assert environment.psql("tuned", "show max_connections") == "50"

    assert patch(environment, resource, "InvalidParameter", parameters={"work_mem": "banana"}) == second
    message = environment.get(resource)["status"]["conditions"][0]["message"]
    assert "spec.parameters.work_mem 'banana'" in message
    assert environment.psql("tuned", "show work_mem") == "8MB"

    # Fine by itself, but no server starts with it: it is back with what it had.
    bad = {"max_connections": 3, "work_mem": "8MB"}
    patch(environment, resource, "InvalidParameter", parameters=bad)
    assert environment.psql("tuned", "show max_connections") == "50"
    assert environment.get(resource)["status"]["pgPhase"] == "up"

    patch(environment, resource, "LoginSucceeded", parameters={"max_connections": 50, "work_mem": None})
    assert environment.psql("tuned", "show work_mem") == "4MB"


def test_password_of_a_secret_is_followed_by_the_running_server(
    environment: Environment, made: Callable[..., str]
) -> None:
    def put(password: str) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}}
        environment.kubectl(
            "apply", "-f", "-", stdin=json.dumps({**secret, "stringData": {"word": password}})
        )

    put("first-one")
    made("referring", passwordSecretRef={"name": "mine", "key": "word"})
    before = environment.get("pod", "referring-0")["metadata"]["uid"]
    assert environment.psql("referring", "select 1") == "1"
    put("second-pw")
    encoded = base64.b64encode(b"second-pw").decode()
    environment.kubectl(
        "wait", "secret/referring-binding", f"--for=jsonpath={{.data.password}}={encoded}", "--timeout=30s"
    )
    assert environment.psql("referring", "select 1") == "1"
    assert environment.get("pod", "referring-0")["metadata"]["uid"] == before
    environment.kubectl("delete", "secret", "mine")


def message_of(environment: Environment, resource: str) -> str:
    """What Ready says."""
    return environment.kubectl(
        "get", resource, "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].message}'
    )


def test_ephemeral_data_goes_with_its_pod_and_the_login_comes_back(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("passing", storage={"ephemeral": True})
    assert environment.get("pvc", "-l", "kindling.dev/name=passing")["items"] == []
    environment.psql("passing", "create table gone (id int)")
    environment.kubectl("delete", "pod", "passing-0", "--wait=true")
    environment.kubectl("wait", "--for=create", "pod/passing-0", "--timeout=60s")
    environment.kubectl("wait", "--for=condition=Ready", "pod/passing-0", "--timeout=120s")
    environment.kubectl("wait", "--for=condition=Ready", resource, "--timeout=60s")
    assert environment.psql("passing", "select count(*) from pg_tables where tablename = 'gone'") == "0"
    created = environment.get("pod", "passing-0")["metadata"]["creationTimestamp"]
    assert message_of(environment, resource).endswith(f" began empty with Pod passing-0 at {created}.")


@pytest.mark.thorough
def test_ephemeral_data_that_outgrew_its_size_is_gone_and_the_status_says_since_when(
    environment: Environment, made: Callable[..., str]
) -> None:
    """The kubelet looks every few seconds, and evicts the Pod."""
    resource = made("outgrown", storage={"ephemeral": True, "size": "150Mi"})
    first = environment.get("pod", "outgrown-0")["metadata"]
    environment.psql(
        "outgrown", "create table t as select repeat(md5(n::text), 20) from generate_series(1, 500000) n"
    )
    environment.kubectl("wait", "--for=delete", "pod/outgrown-0", "--timeout=240s")
    environment.kubectl("wait", "--for=create", "pod/outgrown-0", "--timeout=60s")
    environment.kubectl("wait", "--for=condition=Ready", "pod/outgrown-0", "--timeout=120s")
    environment.kubectl("wait", "--for=condition=Ready", resource, "--timeout=60s")
    second = environment.get("pod", "outgrown-0")["metadata"]
    assert second["uid"] != first["uid"]
    assert message_of(environment, resource).endswith(f" at {second['creationTimestamp']}.")
    assert environment.psql("outgrown", "select count(*) from pg_tables where tablename = 't'") == "0"


def wait_reason(environment: Environment, resource: str, reason: str) -> dict[str, dict[str, Any]]:
    """Wait until Ready has that reason; the conditions then, by their type."""
    query = '{.status.conditions[?(@.type=="Ready")].reason}'
    environment.kubectl("wait", resource, f"--for=jsonpath={query}={reason}", "--timeout=180s")
    conditions = environment.get(resource)["status"]["conditions"]
    return {item["type"]: item for item in conditions}


def test_lost_data_is_reported_and_only_the_command_of_the_message_begins_empty(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("losing")
    before = environment.get(resource)["status"]["systemIdentifier"]
    environment.psql("losing", "create table t as select 42 as id")
    environment.kubectl("delete", "pvc", "losing-data", "--wait=false")
    conditions = wait_reason(environment, resource, "VolumeDeleting")
    assert (conditions["Available"]["status"], conditions["Degraded"]["status"]) == ("True", "True")
    assert environment.psql("losing", "select id from t") == "42"

    environment.kubectl("delete", "pod", "losing-0", "--wait=true")
    conditions = wait_reason(environment, resource, "DataLost")
    assert (conditions["Available"]["status"], conditions["Degraded"]["status"]) == ("False", "True")
    assert before in conditions["Ready"]["message"]
    assert environment.get(resource)["status"]["pgPhase"] == "Failed"
    printed = re.search(r"`kubectl (annotate [^`]*)`", conditions["Ready"]["message"])
    assert printed is not None
    environment.kubectl(*shlex.split(printed[1]))
    wait_reason(environment, resource, "LoginSucceeded")
    assert environment.get(resource)["status"]["systemIdentifier"] != before
    assert environment.psql("losing", "select count(*) from pg_tables where tablename = 't'") == "0"


def test_superusers_password_is_that_of_its_secret_from_the_next_start_on(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("rotating", parameters={"work_mem": "8MB"})
    environment.psql("rotating", "create table t as select 42 as id")
    environment.kubectl("delete", "secret", "rotating-superuser")
    environment.kubectl("wait", "--for=create", "secret/rotating-superuser", "--timeout=60s")
    patch(environment, resource, "SuperuserLoginFailed", parameters={"work_mem": "9MB"})
    message = environment.get(resource)["status"]["conditions"][0]["message"]
    printed = re.search(r"`kubectl (delete pod [^`]*)`", message)
    assert printed is not None
    environment.kubectl(*shlex.split(printed[1]))
    wait_reason(environment, resource, "LoginSucceeded")
    assert environment.psql("rotating", "select id from t") == "42"

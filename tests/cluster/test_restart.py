"""A parameter that needs a restart while clients stay logged in: how long others are refused."""

from __future__ import annotations

import json
import time

from tests.cluster.stack import Environment

RESOURCE = "postgresqls.database.db.example.com/restarted"
WANTED = "57"
# Libpq has where and who from the environment. It says what it found once the server has the parameter.
CLIENTS = f"""
import json, time
import psycopg

lasting = [psycopg.connect(autocommit=True) for _ in range(3)]
lasting[0].execute("SELECT 1")
lasting[1].execute("BEGIN")
print("ready", flush=True)
refused, moments, logins, deadline = [], [], 0, time.monotonic() + 150
after = None
while time.monotonic() < (after or deadline):
    moment = time.monotonic()
    try:
        with psycopg.connect(connect_timeout=2) as connection:
            logins += 1
            found = connection.execute("SHOW max_connections").fetchone()[0]
        if found == "{WANTED}" and after is None:
            after = time.monotonic() + 3
    except psycopg.OperationalError as error:
        refused.append(moment)
        moments.append(time.monotonic())
    time.sleep(0.02)
seconds = moments[-1] - refused[0] + 0.02 if refused else 0.0
found = {{"refused": len(refused), "seconds": round(seconds, 2), "logins": logins, "in force": bool(after)}}
print(json.dumps(found))
"""


def test_logins_are_refused_for_less_than_a_second_and_the_pod_stays(environment: Environment) -> None:
    manifest = {
        "apiVersion": "database.db.example.com/v1",
        "kind": "Postgresql",
        "metadata": {"name": "restarted"},
        "spec": {"deletionPolicy": "Delete", "parameters": {"max_connections": 40}},
    }
    environment.apply(manifest)
    environment.wait_ready(RESOURCE, seconds=180)
    try:
        before = environment.get("pod", "restarted-0")["metadata"]["uid"]
        operator = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
        image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
        container = {
            "name": "clients",
            "env": environment.operand("restarted")["env"],
            "image": image,
            "command": ["/opt/kindling/bin/python", "-c", CLIENTS],
        }
        spec = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        environment.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "clients"}, "spec": spec})
        try:
            deadline = time.monotonic() + 120
            environment.wait_ready("pod/clients")
            while "ready" not in environment.kubectl("logs", "clients"):
                assert time.monotonic() < deadline
                time.sleep(0.5)
            body = json.dumps({"spec": {"parameters": {"max_connections": int(WANTED)}}})
            environment.kubectl("patch", RESOURCE, "--type=merge", f"--patch={body}")
            environment.kubectl(
                "wait", "pod/clients", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s"
            )
            found = json.loads(environment.kubectl("logs", "clients").splitlines()[-1])
        finally:
            environment.kubectl("delete", "pod", "clients", "--wait=false")
        print(found)
        assert found["in force"]
        assert found["seconds"] < 1
        environment.wait_ready(RESOURCE)
        pod = environment.get("pod", "restarted-0")
        assert pod["metadata"]["uid"] == before
        assert [item["restartCount"] for item in pod["status"]["containerStatuses"]] == [0]
        assert "pendingRestart" not in environment.get(RESOURCE)["status"]
        events = environment.get("events.events.k8s.io", "--field-selector=reason=Restarted")["items"]
        [note] = [event["note"] for event in events if event["regarding"]["name"] == "restarted"]
        assert "max_connections" in note
    finally:
        environment.kubectl("delete", RESOURCE, "--wait=true", "--cascade=foreground", timeout=180)

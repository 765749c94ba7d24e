"""A rotation that no client notices: each connects by what the binding says, and one never lets go."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster import client_pod
from tests.cluster.stack import Environment, within
from tests.cluster.test_claims import hold

PLURAL = "postgresqls.database.db.example.com"
OVERLAP_SECONDS = 60
ASKED_SECONDS = 60
"""How old the server's word of who uses a login may be."""
ROUND_SECONDS = 5
"""As long an application goes on with what it has read; far less than the overlap."""
CLIENTS = 4
RATE = 20
"""How many connect each second: as many as they can would be a core's work."""
YEARLY = "0 3 29 2 *"
"""Not in any run of this test, and so only said."""
INSERT = "INSERT INTO visits DEFAULT VALUES"


class Load(threading.Thread):
    """Applications that read the Secret, connect for each transaction, and after a while read it again."""

    def __init__(self, environment: Environment, name: str, pod: str) -> None:
        super().__init__(daemon=True)
        self.environment, self.name_of, self.pod = environment, name, pod
        self.over = threading.Event()
        self.done, self.users, self.error = 0, list[str](), ""

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self._round()
        except (AssertionError, subprocess.SubprocessError) as error:
            self.error = repr(error)

    def _round(self) -> None:
        user, password = bound(self.environment, self.name_of)
        load = self.environment.kubectl(
            "exec", "-i", self.pod, "--", "env", f"PGUSER={user}", f"PGPASSWORD={password}",
            "pgbench", "--no-vacuum", "--connect", f"--client={CLIENTS}", f"--time={ROUND_SECONDS}",
            f"--rate={RATE}", "--file=/dev/stdin", stdin=INSERT,
        )  # fmt: skip
        assert "number of failed transactions: 0 " in load, load
        done = re.search(r"number of transactions actually processed: (\d+)", load)
        assert done is not None
        self.done += int(done[1])
        self.users += [user] if user not in self.users else []


def bound(environment: Environment, name: str) -> tuple[str, str]:
    data = environment.get(f"secret/{name}-binding")["data"]
    user, password = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
    return user, password


@contextmanager
def database(environment: Environment) -> Iterator[str]:
    name = f"rotated-{os.urandom(3).hex()}"
    environment.apply(
        {
            "apiVersion": "database.db.example.com/v1",
            "kind": "Postgresql",
            "metadata": {"name": name},
            "spec": {
                "defaultUser": "app",
                "credentials": {"rotation": {"schedule": YEARLY, "overlap": f"{OVERLAP_SECONDS // 60}m"}},
                "storage": {"size": "256Mi"},
                "deletionPolicy": "Delete",
            },
        }
    )
    try:
        environment.wait_ready(f"{PLURAL}/{name}", seconds=180)
        yield name
    finally:
        environment.kubectl("delete", f"{PLURAL}/{name}", "--wait=false")


@contextmanager
def client(environment: Environment, name: str, *command: str) -> Iterator[str]:
    """A Pod with libpq's programs, and in its environment what the binding says now."""
    container = {**environment.operand(name), "command": list(command)}
    with client_pod.running(environment, "client", container, delete=("--ignore-not-found",)) as pod:
        yield pod


def credentials(environment: Environment, name: str) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(f"{PLURAL}/{name}")["status"].get("credentials", {})
    return found


def rotate(environment: Environment, name: str) -> None:
    value = f"kindling.dev/rotate={os.urandom(3).hex()}"
    environment.kubectl("annotate", f"{PLURAL}/{name}", "--overwrite", value)


def may_log_in(environment: Environment, pod: str, user: str, password: str) -> bool:
    words = ("env", f"PGUSER={user}", f"PGPASSWORD={password}", "psql", "--no-psqlrc", "-tAc", "select 1")
    try:
        return environment.kubectl("exec", pod, "--", *words).strip() == "1"
    except AssertionError as error:
        if re.search(r"not permitted to log in|password authentication failed", str(error)):
            return False
        raise


def test_applications_notice_no_rotation(environment: Environment, thorough: bool) -> None:
    """Once, or thrice with one that never lets go: each takes its minutes."""
    with database(environment) as name, client(environment, name, "sleep", "infinity") as pod:
        environment.psql(name, "create table visits (id bigint generated always as identity, at timestamptz)")
        restarts = environment.get("pod", f"{name}-0")["metadata"]["uid"]
        load = Load(environment, name, pod)
        load.start()
        try:
            if thorough:
                _with_one_that_never_lets_go(environment, name, pod)
                _rotated(environment, name, pod)
            _rotated(environment, name, pod)
        finally:
            load.over.set()
            load.join(timeout=120)
        assert load.error == ""
        assert load.done > 300
        assert load.users == ["app", "app_a", "app_b", "app_a"][: 4 if thorough else 2][: len(load.users)]
        assert len(load.users) >= (3 if thorough else 2)
        # Nothing was lost, and all of it is the default user's.
        assert int(environment.psql(name, "select count(*) from visits")) == load.done
        owner = "select tableowner from pg_tables where tablename = 'visits'"
        assert environment.psql(name, owner) == "app"
        assert environment.get("pod", f"{name}-0")["metadata"]["uid"] == restarts
        hold(environment, PLURAL, name)


def _rotated(environment: Environment, name: str, pod: str) -> None:
    """Once, from the request to the end of the login before."""
    before = bound(environment, name)
    rotate(environment, name)
    within(60, lambda: bound(environment, name)[0] != before[0])
    assert may_log_in(environment, pod, *before)
    within(OVERLAP_SECONDS + 2 * ASKED_SECONDS, lambda: "previous" not in credentials(environment, name))
    assert not may_log_in(environment, pod, *before)
    assert may_log_in(environment, pod, *bound(environment, name))


def _with_one_that_never_lets_go(environment: Environment, name: str, pod: str) -> None:
    before = bound(environment, name)
    sleep = ("psql", "--no-psqlrc", "-c", "select pg_sleep(3600)")
    with client(environment, name, *sleep) as lasting:
        rotate(environment, name)
        within(60, lambda: bound(environment, name)[0] != before[0])
        within(
            OVERLAP_SECONDS + 2 * ASKED_SECONDS,
            lambda: "message" in credentials(environment, name).get("previous", {}),
        )
        previous = credentials(environment, name)["previous"]
        address = environment.get("pod", lasting)["status"]["podIP"]
        assert previous["sessions"] == [{"address": address, "application": "psql", "count": 1}], previous
        command = re.search(r"`kubectl (get pods [^`]+)`", previous["message"])
        assert command is not None
        assert lasting in environment.kubectl(*command[1].split())
        hold(environment, PLURAL, name)
        assert may_log_in(environment, pod, *before)
        assert environment.get("pod", lasting)["status"]["containerStatuses"][0]["restartCount"] == 0
    within(2 * ASKED_SECONDS + 15, lambda: "previous" not in credentials(environment, name))
    assert not may_log_in(environment, pod, *before)

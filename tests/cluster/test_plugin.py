"""The kubectl plugin with real servers: logs, logins of the default user, a restart, a report."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import Toolchain
from infra.cli.commands import release
from infra.distribution import plugin
from infra.paths import REPOSITORY
from infra.settings import read
from tests.cluster.consumers import ADMIN, BROKER, produce
from tests.cluster.consumers import KIND as CONSUMER
from tests.cluster.stack import STACK, Environment, within
from tests.model.recorded import otherwise
from tests.unit.plugin.guide import commands
from tests.unit.plugin.terminals import on_a_terminal

GROUP = "postgresqls.database.db.example.com"
NAME = "shop"
PASSWORD = "canary-of-the-plugin"
SECONDS = 60.0
HANDLER = """
from pulsar_consumer.handler import Reject

def handle(message):
    if message.data() == b"hello 2":
        raise ValueError("two")
    if message.data() == b"hello 3":
        raise Reject("three")
"""
# What a binding has beside the password and the address that has it in it; and who a store's key is of.
PUBLIC = {"type", "provider", "host", "port", "database", "username", "accessKeyId", "ca.crt", "tls.crt"}


class Plugin:
    """`kubectl kindling` on this stack, as a release has it."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        files = plugin.files(REPOSITORY, version="1.2.3", commit="c" * 40)
        release._write(files, folder)
        places = [folder, Path(Toolchain().ensure("kubectl")).parent, Path(sys.executable).parent]
        self.variables = {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, places), os.environ["PATH"]]),
            "KUBECONFIG": str(environment.kubeconfig),
        }

    def argv(self, verb: str, *words: str) -> list[str]:
        return ["kubectl", "kindling", verb, f"--context={read(STACK).cluster.context}", *words]

    def run(
        self, *words: str, stdin: str = "", folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            env=self.variables,
            cwd=folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def ok(self, *words: str, stdin: str = "", folder: Path | None = None) -> str:
        """What it prints; it must succeed, and nothing that it prints has the password."""
        done = self.run(*words, stdin=stdin, folder=folder)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        assert PASSWORD not in done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def kindling(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """The plugin, and a Postgresql `shop` that is Ready."""
    manifest = {
        "apiVersion": "database.db.example.com/v1",
        "kind": "Postgresql",
        "metadata": {"name": NAME},
        "spec": {"defaultUser": "keeper", "password": PASSWORD, "deletionPolicy": "Delete"},
    }
    environment.apply(manifest)
    try:
        environment.wait_ready(f"{GROUP}/{NAME}", seconds=180)
        yield Plugin(environment, tmp_path_factory.mktemp("plugin") / "release")
    finally:
        environment.kubectl("delete", GROUP, NAME, "--wait=true", "--cascade=foreground", timeout=180)


def test_status_of_a_server_that_answers(environment: Environment, kindling: Plugin) -> None:
    printed = " ".join(kindling.ok("status", f"pge/{NAME}").split())
    status = environment.get(GROUP, NAME)["status"]
    for text in ("phase up", f"version {status['version']}", f"binding name {NAME}-binding", "Pod/shop-0"):
        assert text in printed
    assert "ready True (LoginSucceeded)" in printed


def test_psql_is_a_login_of_the_default_user(kindling: Plugin) -> None:
    query = "select session_user || ' ' || current_user || ' ' || current_database()"
    assert kindling.ok("psql", NAME, "--", "-Atc", query) == "keeper keeper keeper\n"
    assert kindling.ok("psql", NAME, "--", "-At", stdin="select 6 * 7;\nselect 'two';\n") == "42\ntwo\n"


def test_psql_ends_with_the_status_of_psql(kindling: Plugin) -> None:
    done = kindling.run("psql", NAME, "--", "-c", "select nothing")
    assert done.returncode == 1
    assert 'column "nothing" does not exist' in done.stderr
    assert "Password" not in done.stderr
    statements = kindling.run("psql", NAME, "--", "--set=ON_ERROR_STOP=1", stdin="select nothing;\n")
    assert statements.returncode == 3


def test_psql_on_a_terminal(kindling: Plugin) -> None:
    argv = kindling.argv("psql", NAME, "--", "-P", "pager=off")
    output, status = on_a_terminal(
        argv, keys=b"select 6 * 7 as product;\r\\q\r", after=b"keeper=> ", environment=kindling.variables
    )
    assert status == 0, output
    assert b"42" in output
    assert b"Password" not in output
    assert PASSWORD.encode() not in output


def test_logs_have_each_pod_and_container(kindling: Plugin) -> None:
    lines = kindling.ok("logs", f"pge/{NAME}", "--tail=-1").splitlines()
    assert any(
        line.startswith("[pod/shop-0/postgres] ") and "ready to accept connections" in line for line in lines
    )
    assert all(line.startswith("[pod/shop-0/") for line in lines if line)


def test_logs_are_followed_until_they_are_interrupted(kindling: Plugin, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            kindling.argv("logs", f"pge/{NAME}", "--follow", "--since=1s"),
            env=kindling.variables,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        time.sleep(2)
        assert kindling.run("psql", NAME, "--", "-c", "select to_be_followed").returncode == 1
        within(SECONDS, lambda: 'column "to_be_followed" does not exist' in output.read_text())
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.wait(timeout=30)


def test_version_names_the_operators_image(environment: Environment, kindling: Plugin) -> None:
    found = json.loads(kindling.ok("version", "-o", "json"))
    deployment = environment.get("deployment", "kindling-operator", "-n", "kindling-system")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert found["operator"]["images"] == {each["name"]: each["image"] for each in containers}
    assert found["notRead"] == []


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file, "r:gz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive}
        return {name.partition("/")[2]: found.read().decode() for name, found in members.items() if found}


def test_a_report_has_the_operators_lines_and_no_secret_of_the_namespace(
    environment: Environment, kindling: Plugin, tmp_path: Path
) -> None:
    printed = kindling.ok("report", f"pge/{NAME}", folder=tmp_path)
    (file,) = tmp_path.glob("kindling-postgresql-*.tar.gz")
    texts = unpacked(file)
    assert "not-read.txt" not in texts, texts["not-read.txt"]
    lines = [json.loads(line) for line in texts["operator.log"].splitlines()]
    assert {line["key"] for line in lines} == {f"postgresql.database.db.example.com/default/{NAME}"}
    record = json.loads(texts["decisions.json"])
    decided = [entry["decided"] for entry in record["entries"] if entry["what"] == "children"]
    made = {"action": "Create", "object": f"StatefulSet/{NAME}"}
    assert any(made in each["changes"] for each in decided)
    assert otherwise(record) == []
    everything = "\n".join([printed, *texts.values()])
    assert PASSWORD not in everything
    secret = 0
    for item in environment.get("secrets")["items"]:
        for key, value in (item.get("data") or {}).items():
            text = base64.b64decode(value).decode(errors="replace")
            if key in PUBLIC or not text:
                continue
            secret += 1
            for written in (value, text, json.dumps(text)[1:-1]):
                assert written not in everything, (item["metadata"]["name"], key)
    assert secret > 3


@pytest.mark.parametrize("line", commands(cluster=True), ids=str)
def test_the_guides_commands_work_as_printed(environment: Environment, kindling: Plugin, line: str) -> None:
    words = shlex.split(line)[2:]
    if words[0] == "rotate":
        patch = json.dumps({"spec": {"password": None, "credentials": {"rotation": {}}}})
        environment.kubectl("patch", GROUP, NAME, "--type=merge", f"--patch={patch}")
    kindling.ok(*words)


def test_restart_replaces_the_server(environment: Environment, kindling: Plugin) -> None:
    before = environment.get("pod", f"{NAME}-0")["metadata"]["uid"]
    assert "all its connections end" in " ".join(kindling.ok("restart", NAME, "--yes").split())

    def replaced() -> bool:
        found = environment.kubectl(
            "get", "pod", f"{NAME}-0", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"
        )
        return found not in ("", before)

    within(SECONDS, replaced)
    environment.kubectl("wait", "--for=condition=Ready", f"pod/{NAME}-0", "--timeout=120s")
    environment.wait_ready(f"{GROUP}/{NAME}", seconds=120)
    assert kindling.ok("psql", NAME, "--", "-Atc", "select 1") == "1\n"


@pytest.fixture
def given_up(environment: Environment) -> Iterator[str]:
    """A consumer `orders` whose handler rejects one message and fails on another; its topic."""
    topic = f"orders-{os.urandom(3).hex()}"
    code = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "orders"},
        "data": {"orders.py": HANDLER},
    }
    consumer = {
        "apiVersion": "pulsar.pulsarconsumer.krvarma.com/v1",
        "kind": "PulsarConsumer",
        "metadata": {"name": "orders"},
        "spec": {
            "serverAddress": BROKER,
            "topic": topic,
            "subscriptionName": "workers",
            "replicas": 1,
            "adminURL": ADMIN,
            "handler": {"python": {"configMapRef": {"name": "orders"}, "handler": "orders:handle"}},
            "retry": {"maxDeliveries": 2, "backoff": {"initialSeconds": 1}},
            "deadLetter": {"topic": f"{topic}-dead"},
        },
    }
    environment.apply(code)
    environment.apply(consumer)
    try:
        environment.wait_ready(f"{CONSUMER}/orders", seconds=120)
        produce(environment, topic=topic, count=4)
        yield topic
    finally:
        environment.kubectl("delete", f"{CONSUMER}/orders", "configmap/orders", "--wait=false")


def test_dead_letters_are_kept_shown_and_sent_back(
    environment: Environment, kindling: Plugin, given_up: str
) -> None:
    """Nobody subscribed to their topic before they were sent."""

    def letters() -> list[dict[str, str]]:
        found = json.loads(kindling.ok("dead-letters", "orders", "-o", "json"))
        assert found["topic"] == f"{given_up}-dead"
        letters: list[dict[str, str]] = found["deadLetters"]
        return letters

    within(SECONDS, lambda: len(letters()) == 2)
    shown = {each["payload"]: (each["reason"], each["error"], each["deliveries"]) for each in letters()}
    assert shown == {
        "hello 2": ("MaxDeliveries", "ValueError: two", "2"),
        "hello 3": ("Rejected", "Reject: three", "1"),
    }
    printed = kindling.ok("dead-letters", "orders", "--reason", "Rejected")
    assert "Reject: three" in printed
    assert "ValueError" not in printed
    *lines, replay = commands(broker=True)
    for line in lines:
        kindling.ok(*shlex.split(line)[2:])
    # The handler gives up the one that was sent back again: as a new dead letter, once.
    within(SECONDS, lambda: len(letters()) == 2)
    before = _generation(environment)
    fixed = HANDLER.replace("raise ValueError", "print").replace("raise Reject", "print")
    patch = json.dumps({"data": {"orders.py": fixed}})
    environment.kubectl("patch", "configmap", "orders", "--type=merge", "-p", patch)
    within(SECONDS, lambda: _generation(environment) > before)
    environment.kubectl("rollout", "status", "deployment/orders-deployment", "--timeout=120s")
    assert "Sent back: 2." in kindling.ok("redrive", "orders", "--yes")
    within(SECONDS, lambda: letters() == [])

    def handled() -> list[str]:
        log = environment.kubectl("logs", "deployment/orders-deployment", "-c", "consumer", "--tail=-1")
        return [word for word in log.split() if word in ("two", "three")]

    assert {"two", "three"} <= set(handled())
    before = len(handled())
    kindling.ok(*shlex.split(replay)[2:])
    within(SECONDS, lambda: len(handled()) >= before + 2)
    environment.kubectl("wait", f"{CONSUMER}/orders", "--for=condition=Replayed", "--timeout=60s")


def _generation(environment: Environment) -> int:
    return int(environment.get("deployment", "orders-deployment")["metadata"]["generation"])

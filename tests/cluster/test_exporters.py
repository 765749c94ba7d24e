"""spec.exporter on real nodes: what Prometheus would read of a database and of a cache is what they say
themselves, without a password on the way; and it goes with the field.

The pages are read from a Pod of another namespace, which the NetworkPolicy lets to the metrics and to nothing
else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import prometheus_client.parser
import pytest

from tests.cluster.connections import Client, client
from tests.cluster.stack import Environment, within
from tests.cluster.test_memcached import talk

DATABASE, CACHE = "postgresqls.database.technotuesday.io", "memcacheds.cache.example.com"
OUTSIDE = "exporters-outside"
SECONDS = 180.0
MIB = 2**20
_READ = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
    sys.stdout.write(answer.read().decode())
"""


@pytest.fixture(scope="module")
def outsider(environment: Environment) -> Iterator[Client]:
    environment.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OUTSIDE}})
    try:
        with client(environment, namespace=OUTSIDE) as found:
            yield found
    finally:
        environment.kubectl("delete", "namespace", OUTSIDE, timeout=180)


def python(environment: Environment, who: Client, program: str, *words: str) -> str:
    command = ("exec", "-n", who.namespace, who.name, "--", "python3", "-c", program, *words)
    return environment.kubectl(*command, timeout=60)


def page(text: str) -> dict[str, float]:
    """The figures by name, with the values of the labels."""
    return {
        " ".join(
            [sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))]
        ): sample.value
        for family in prometheus_client.parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def reads(environment: Environment, who: Client, host: str, *, port: int = 9187) -> dict[str, float]:
    """The page of a database's exporter, by default; nothing while that is started again."""
    try:
        return page(python(environment, who, _READ, f"http://{host}:{port}/metrics"))
    except AssertionError:
        return {}


def edit(environment: Environment, resource: str, spec: dict[str, Any]) -> None:
    environment.kubectl("patch", resource, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def condition(environment: Environment, resource: str) -> dict[str, Any]:
    found = environment.get(resource)
    (ready,) = (item for item in found["status"]["conditions"] if item["type"] == "Ready")
    current: bool = found["status"]["observedGeneration"] == found["metadata"]["generation"]
    return {**ready, "current": current}


def is_ready(environment: Environment, resource: str) -> bool:
    found = condition(environment, resource)
    return bool(found["current"] and found["status"] == "True")


def containers(environment: Environment, pod: str) -> list[str]:
    return [item["name"] for item in environment.get("pod", pod)["spec"]["containers"]]


def address(environment: Environment, pod: str) -> str:
    return str(environment.get("pod", pod)["status"]["podIP"])


def test_a_databases_page_is_what_the_server_says(environment: Environment, outsider: Client) -> None:
    name = f"watched-{os.urandom(3).hex()}"
    resource, pod = f"{DATABASE}/{name}", f"{name}-0"
    body = {"apiVersion": "database.technotuesday.io/v1", "kind": "Postgresql", "metadata": {"name": name}}
    spec = {"storage": {"size": "256Mi"}, "deletionPolicy": "Delete", "defaultUser": "shop"}
    environment.apply({**body, "spec": {**spec, "tls": {"required": True}, "exporter": {"enabled": True}}})
    try:
        environment.wait_ready(resource, seconds=180)
        assert containers(environment, pod) == ["postgres", "exporter"]
        host = address(environment, pod)
        text = python(environment, outsider, _READ, f"http://{host}:9187/metrics")
        found = page(text)
        assert found["pg_up"] == 1
        assert found["pg_exporter_last_scrape_error"] == 0
        assert [
            key for key in found if key.startswith("pg_scrape_collector_success") and not found[key]
        ] == []
        filled = "CREATE TABLE filled AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
        environment.psql(name, filled)
        environment.psql(name, "VACUUM filled")  # which the server would do by itself within a minute

        def shown() -> dict[str, float]:
            return page(python(environment, outsider, _READ, f"http://{host}:9187/metrics"))

        def same_size() -> bool:  # it still grows a little
            size = int(environment.psql(name, "SELECT pg_database_size('shop')"))
            return shown()["pg_database_size_bytes datname=shop"] == size > 20 * MIB

        within(SECONDS, same_size)
        limit = int(environment.psql(name, "SHOW max_connections"))
        settings = shown()
        assert [settings[key] for key in settings if key.startswith("pg_settings_max_connections")] == [limit]

        # The role can look, and no more.
        rights = (
            "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls, rolconnlimit "
            "FROM pg_roles WHERE rolname = 'kindling_exporter'"
        )
        assert environment.psql(name, rights) == "f|5"
        member = (
            "SELECT string_agg(roleid::regrole::text, ',') FROM pg_auth_members "
            "WHERE member = 'kindling_exporter'::regrole"
        )
        assert environment.psql(name, member) == "pg_monitor"
        entries = environment.get(resource)["status"]["roles"]
        assert [(item["name"], item["reason"]) for item in entries] == [("kindling_exporter", "Applied")]

        # The password is in the Secret and in the container's file.
        secret = f"{name}-role-kindling-exporter"
        template = "go-template={{.data.password | base64decode}}"
        password = environment.kubectl("get", "secret", secret, "-o", template).strip()
        assert len(password) == 32
        for kind in ("pod", "statefulset", "configmaps,services,networkpolicies"):
            names = () if "," in kind else (pod if kind == "pod" else name,)
            assert password not in environment.kubectl("get", kind, *names, "-o", "yaml")
        assert password not in text
        assert password not in environment.kubectl("logs", pod, "-c", "exporter")

        # What would connect to any server for whoever asks is not to be reached.
        asked = f"http://{host}:9187/probe?target=postgresql://a:b@localhost:5432/shop"
        with pytest.raises(AssertionError, match="404"):
            python(environment, outsider, _READ, asked)

        # Another password is set in the server, and the exporter reads it; the Pod stays as it is.
        changed = json.dumps({"stringData": {"password": "changed-by-hand"}})
        environment.kubectl("patch", "secret", secret, "--type=merge", f"--patch={changed}")
        log = ("logs", pod, "-c", "exporter")
        within(SECONDS, lambda: "/etc/kindling/exporter/password has changed" in environment.kubectl(*log))
        within(SECONDS, lambda: reads(environment, outsider, host).get("pg_up") == 1)
        (kept,) = (
            item
            for item in environment.get("pod", pod)["status"]["containerStatuses"]
            if item["name"] == "exporter"
        )
        assert (kept["ready"], kept["restartCount"]) == (True, 0)

        # Of another namespace, the metrics can be reached and the server cannot.
        outsider.is_kept_out(host, 5432)

        before = environment.get("pod", pod)["metadata"]["uid"]
        edit(environment, resource, {"exporter": {"enabled": False}})
        within(SECONDS, lambda: is_ready(environment, resource))
        assert environment.get("pod", pod)["metadata"]["uid"] != before
        assert containers(environment, pod) == ["postgres"]
        gone = "SELECT count(*) FROM pg_roles WHERE rolname = 'kindling_exporter'"
        within(SECONDS, lambda: environment.psql(name, gone) == "0")
        within(SECONDS, lambda: "roles" not in environment.get(resource)["status"])
        outsider.is_kept_out(address(environment, pod), 9187)
    finally:
        environment.kubectl("delete", resource, "--ignore-not-found", "--wait=true")


def test_a_caches_page_is_what_memcached_says(environment: Environment, outsider: Client) -> None:
    name = f"watched-{os.urandom(3).hex()}"
    resource, selector = f"{CACHE}/{name}", f"app.kubernetes.io/instance={name}"
    body = {"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "metadata": {"name": name}}
    environment.apply({**body, "spec": {"size": 1, "exporter": {"enabled": True}}})
    try:
        environment.wait_ready(resource, seconds=180)
        (pod,) = environment.get("pods", "-l", selector)["items"]
        host = pod["status"]["podIP"]
        stored = "".join(f"set key{number} 0 0 1\r\nx\r\n" for number in range(7))
        talk(environment, host, 11211, stored.removesuffix("\r\n"), "get key1", "get none", "get none")
        lines = [line.split() for line in talk(environment, host, 11211, "stats").splitlines()]
        stats = {words[1]: words[2] for words in lines if words[:1] == ["STAT"]}
        shown = page(python(environment, outsider, _READ, f"http://{host}:9150/metrics"))
        assert shown["memcached_up"] == 1
        commands = "memcached_commands_total command="
        assert shown[f"{commands}set status=hit"] == int(stats["cmd_set"]) == 7
        assert shown[f"{commands}get status=hit"] == int(stats["get_hits"]) == 1
        assert shown[f"{commands}get status=miss"] == int(stats["get_misses"]) == 2
        assert shown["memcached_current_items"] == int(stats["curr_items"]) == 7
        assert shown["memcached_limit_bytes"] == int(stats["limit_maxbytes"])
        outsider.is_kept_out(host, 11211)

        edit(environment, resource, {"exporter": {"enabled": False}})
        within(SECONDS, lambda: is_ready(environment, resource))
        (left,) = (
            item
            for item in environment.get("pods", "-l", selector)["items"]
            if "deletionTimestamp" not in item["metadata"]
        )
        assert [item["name"] for item in left["spec"]["containers"]] == ["memcached"]
        outsider.is_kept_out(left["status"]["podIP"], 9150)
    finally:
        environment.kubectl("delete", resource, "--ignore-not-found", "--wait=true")

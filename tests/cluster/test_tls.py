"""TLS of a Postgresql: roles' certificates, servers' of two minutes under load, who gets in, another's."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kindling.kinds import certificates
from kindling.kinds.certificates import Pair

from tests.cluster import certified, client_pod
from tests.cluster.stack import STACK, Environment, within
from tests.cluster.test_claims import hold

pytestmark = pytest.mark.thorough

PLURAL = "postgresqls.database.db.example.com"
SYSTEM, OPERATOR = "kindling-system", "deployment/kindling-operator"
LIFE_SECONDS = 120
LOAD_SECONDS = 330
"""Long enough for two renewals, whenever the kubelet brings the files."""
DELIVERED_SECONDS = 150.0
SMALL = {"requests": {"cpu": "10m", "memory": "64Mi"}}
CA = "/etc/binding/ca.crt"


@pytest.fixture(scope="module")
def short_lived(environment: Environment) -> Iterator[Environment]:
    """An operator that makes certificates of two minutes; the stack's own again at the end."""
    value = f"KINDLING_CERTIFICATE_SECONDS={LIFE_SECONDS}"
    environment.kubectl("set", "env", OPERATOR, "-n", SYSTEM, "--containers=operator", value)
    environment.kubectl("rollout", "status", OPERATOR, "-n", SYSTEM, "--timeout=180s")
    yield environment
    environment.ok("up", STACK)


@contextmanager
def database(environment: Environment, name: str, **spec: Any) -> Iterator[str]:
    body = {"apiVersion": "database.db.example.com/v1", "kind": "Postgresql", "metadata": {"name": name}}
    values = {"storage": {"size": "256Mi"}, "resources": SMALL, "deletionPolicy": "Delete", **spec}
    environment.apply({**body, "spec": values})
    try:
        environment.wait_ready(f"{PLURAL}/{name}", seconds=240)
        yield name
    finally:
        environment.kubectl("delete", f"{PLURAL}/{name}")


@contextmanager
def client(environment: Environment, name: str) -> Iterator[str]:
    """A Pod with libpq's programs and what the binding says, `ca.crt` as a file."""
    operand = environment.operand(name)
    variables = [
        *operand["env"],
        {"name": "PGSSLMODE", "value": "verify-full"},
        {"name": "PGSSLROOTCERT", "value": CA},
    ]
    container = {
        **operand,
        "env": variables,
        "command": ["sleep", "infinity"],
        "volumeMounts": [{"name": "binding", "mountPath": os.path.dirname(CA), "readOnly": True}],
    }
    binding = {"secretName": f"{name}-binding", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    spec = {"volumes": [{"name": "binding", "secret": binding}]}
    with client_pod.running(environment, "tls", container, spec=spec) as pod:
        yield pod


def status_of(environment: Environment, name: str) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(f"{PLURAL}/{name}")["status"]
    return found


def server(environment: Environment, name: str) -> tuple[str, int]:
    """What a restart changes."""
    pod = environment.get("pod", f"{name}-0")
    return pod["metadata"]["uid"], sum(each["restartCount"] for each in pod["status"]["containerStatuses"])


def asks(environment: Environment, pod: str, mode: str) -> str:
    """Whether that connection is encrypted, by the server's word; fails where it is refused."""
    query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    words = ("env", f"PGSSLMODE={mode}", "psql", "--no-psqlrc", "-tAc", query)
    return environment.kubectl("exec", pod, "--", *words).strip()


def test_a_role_logs_in_with_its_certificate_as_long_as_the_spec_says_so(environment: Environment) -> None:
    """By the operator of the stack, whose certificates do not end meanwhile."""
    plain: list[dict[str, Any]] = [{"name": name, "login": True} for name in ("app", "careful", "bob")]
    options = ({"enabled": True}, {"enabled": True, "passwordRequired": True})
    asked = [{**role, "clientCertificate": each} for role, each in zip(plain, options, strict=False)]
    with database(environment, "tls-roles", roles=plain) as name:
        before = server(environment, name)

        def edit(*roles: dict[str, Any]) -> None:
            patch = json.dumps({"spec": {"roles": roles}})
            environment.kubectl("patch", f"{PLURAL}/{name}", "--type=merge", f"--patch={patch}")
            within(DELIVERED_SECONDS, lambda: is_ready(environment, name))

        edit(*asked, plain[2])
        with certified.client(environment, name, "app", "careful", "bob") as pod:

            def gets_in(user: str, **given: Any) -> str:
                query = "SELECT coalesce(client_dn, '') FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                return certified.asks(environment, pod, query, user=user, **given)

            def is_refused(words: str, user: str, **given: Any) -> None:
                with pytest.raises(AssertionError, match=words):
                    gets_in(user, **given)

            words = {
                role: certified.values(environment, name, role)["password"]
                for role in ("app", "careful", "bob")
            }
            assert gets_in("app", shows="app") == "/CN=app"
            assert gets_in("careful", shows="careful", password=words["careful"]) == "/CN=careful"
            is_refused("no password supplied", "careful", shows="careful")
            is_refused("certificate authentication failed", "app", shows="careful")
            is_refused("requires a valid client certificate", "app", password=words["app"])
            is_refused("pg_hba.conf rejects", "app", password=words["app"], mode="disable")
            assert gets_in("bob", password=words["bob"]) == ""
            said = {role["name"]: role for role in status_of(environment, name)["roles"]}
            found = certificates.read(certified.values(environment, name, "app")["tls.crt"])
            assert found is not None
            assert said["app"]["clientCertificate"] == {"notAfter": certificates.stamp(found.not_after)}
            assert "clientCertificate" not in said["bob"]
            hold(environment, PLURAL, name)

            # Its kubelet takes the files from the Pod; whoever has a copy has nothing of it.
            environment.kubectl("exec", pod, "--", "cp", "-rL", certified.FOLDER, "/tmp/roles")
            environment.kubectl("exec", pod, "--", "chmod", "-R", "go=", "/tmp/roles")
            edit(*plain)
            is_refused("no password supplied", "app", shows="app", folder="/tmp/roles")
            assert gets_in("app", password=words["app"]) == ""
        assert "tls.key" not in certified.values(environment, name, "app")
        assert server(environment, name) == before
        hold(environment, PLURAL, name)


def is_ready(environment: Environment, name: str) -> bool:
    """Of the spec as it stands."""
    found = environment.get(f"{PLURAL}/{name}")
    ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
    generation = found["metadata"]["generation"]
    return bool(ready["observedGeneration"] == generation and ready["status"] == "True")


def test_certificates_of_two_minutes_fail_no_transaction(short_lived: Environment) -> None:
    with database(short_lived, "tls-short") as name, client(short_lived, name) as pod:
        before = server(short_lived, name)
        assert asks(short_lived, pod, "verify-full") == "t"
        assert asks(short_lived, pod, "disable") == "f"
        short_lived.kubectl("exec", pod, "--", "pgbench", "--initialize", "--quiet", "--scale=1")
        words = ("pgbench", "--no-vacuum", "--client=4", f"--time={LOAD_SECONDS}", "--builtin=simple-update")
        lasting = short_lived.start("exec", pod, "--", *words)
        # Each transaction has a connection of its own.
        reconnecting = short_lived.start("exec", pod, "--", *words, "--connect")
        served: list[str] = []
        while lasting.poll() is None or reconnecting.poll() is None:
            status = status_of(short_lived, name)
            assert status["tls"]["active"] is True
            moment = status["tls"]["notAfter"]
            assert datetime.fromisoformat(moment) > datetime.now(UTC), "it served one that has ended"
            ready = next(each for each in status["conditions"] if each["type"] == "Ready")
            assert ready["status"] == "True", ready
            served += [moment] if moment not in served else []
            time.sleep(2)
        for load in (lasting, reconnecting):
            printed, errors = load.communicate(timeout=60)
            assert load.returncode == 0, errors
            assert "number of failed transactions: 0 " in printed, printed
            done = re.search(r"number of transactions actually processed: (\d+)", printed)
            assert done is not None
            assert int(done[1]) > 500, printed
            assert "aborted" not in errors
        assert len(served) >= 3, served
        assert server(short_lived, name) == before


def test_tls_is_required_without_a_restart(short_lived: Environment) -> None:
    with database(short_lived, "tls-only") as name, client(short_lived, name) as pod:
        before = server(short_lived, name)
        assert asks(short_lived, pod, "disable") == "f"
        patch = json.dumps({"spec": {"tls": {"required": True}}})
        short_lived.kubectl("patch", f"{PLURAL}/{name}", "--type=merge", f"--patch={patch}")
        within(DELIVERED_SECONDS, lambda: is_ready(short_lived, name))
        with pytest.raises(AssertionError, match="no encryption"):
            asks(short_lived, pod, "disable")
        assert asks(short_lived, pod, "verify-full") == "t"
        assert server(short_lived, name) == before
        binding = short_lived.get("secret", f"{name}-binding")["data"]
        assert base64.b64decode(binding["uri"]).endswith(b"?sslmode=verify-full")


def test_a_pair_of_ones_own_is_served_and_a_bad_one_changes_nothing(short_lived: Environment) -> None:
    namespace = short_lived.kubectl("config", "view", "--minify", "-o", "jsonpath={..namespace}") or "default"
    now = datetime.now(UTC)
    authority = certificates.make_authority(b"own", name="own-ca", now=now)
    host = f"tls-own.{namespace}.svc"
    made = certificates.make_server(
        b"own", authority=authority, name="own", hosts=[host], now=now, life=timedelta(days=1)
    )
    other = certificates.make_server(
        b"other", authority=authority, name="own", hosts=[host], now=now, life=timedelta(days=2)
    )

    def put(pair: Pair) -> None:
        values = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}, "stringData": values}
        short_lived.apply({**body, "type": "kubernetes.io/tls"})

    def reason() -> str:
        conditions = status_of(short_lived, "tls-own")["conditions"]
        return str(next(each["reason"] for each in conditions if each["type"] == "Ready"))

    put(made)
    try:
        with (
            database(short_lived, "tls-own", tls={"secretName": "own"}) as name,
            client(short_lived, name) as pod,
        ):
            before = server(short_lived, name)
            assert status_of(short_lived, name)["tls"]["issuer"] == "CN=own-ca"
            assert asks(short_lived, pod, "verify-full") == "t"
            put(Pair(other.certificate, made.key))
            within(30, lambda: reason() == "InvalidCertificate")
            assert asks(short_lived, pod, "verify-full") == "t"
            put(other)
            within(30, lambda: reason() == "LoginSucceeded")
            wanted = certificates.read(other.certificate)
            assert wanted is not None
            end = certificates.stamp(wanted.not_after)
            within(DELIVERED_SECONDS, lambda: status_of(short_lived, name)["tls"]["notAfter"] == end)
            assert asks(short_lived, pod, "verify-full") == "t"
            assert server(short_lived, name) == before
    finally:
        short_lived.kubectl("delete", "secret", "own")

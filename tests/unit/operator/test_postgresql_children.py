"""What a Postgresql wants: total over every admitted spec, names that fit, and secrets in Secrets alone."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from kindling.engine.plan import Apply, Create, plan
from kindling.kinds.base import Child, SyncResult
from kindling.kinds.postgresql import Postgresql
from kindling.kube.resources import SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.model.memory import MemoryApi
from tests.unit.operator.networks import DEFAULT_PEERS
from tests.unit.operator.postgresqls import (
    KIND,
    NAMES,
    SPECS,
    observed,
    postgresql,
    request,
    running,
    secret,
    volume,
)


def children(cr: Object, known: dict[Ref, Object] | None = None) -> dict[str, Child]:
    return {
        child.body["metadata"]["name"] + "/" + child.type.kind: child
        for child in KIND.desired(cr, observed(known or volume()))
    }


def pod_of(cr: Object) -> Object:
    found: Object = children(cr)["db/StatefulSet"].body["spec"]["template"]["spec"]
    return found


def wanted_ephemeral(spec: Object) -> bool:
    return (spec.get("storage") or {}).get("ephemeral") is True


@given(SPECS, NAMES)
def test_total_and_plan_comes_to_rest(spec: Object, name: str) -> None:
    """Any admitted spec: applied once as it is, nothing is left to write."""
    cr = postgresql(name=name, **spec)
    api = MemoryApi()

    async def converge() -> int:
        writes = 0
        for _ in range(3):
            known = dict(api.objects)
            decided = plan(type=KIND.type, cr=cr, desired=KIND.desired(cr, observed(known)), observed=known)
            assert decided.problem is None
            for action in decided.actions:
                assert isinstance(action, Apply | Create)
                once = next(
                    c.create_only
                    for c in KIND.desired(cr, observed(known))
                    if c.type == action.type and c.body["metadata"]["name"] == action.body["metadata"]["name"]
                )
                await (api.create if once else api.apply)(action.type, action.body)
                writes += 1
        return writes

    exports = (spec.get("exporter") or {}).get("enabled") is True  # a Secret more
    assert asyncio.run(converge()) == (8 if wanted_ephemeral(spec) else 9) + exports
    for ref in api.objects:
        assert len(ref.name) <= (63 if ref.type in (SERVICE, STATEFUL_SET) else 253)
    for obj in api.objects.values():
        for value in (obj["metadata"].get("labels") or {}).values():
            assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


def test_both_spellings_and_the_default_of_the_user() -> None:
    def user(**spec: Any) -> str:
        return observed(
            {Ref(SECRET, "ns", "db-binding"): children(postgresql(**spec))["db-binding/Secret"].body}
        ).secret(namespace="ns", name="db-binding")["username"]

    assert user(defaultUser="ada") == user(defaultuser="ada") == "ada"
    assert user() == "postgres"


def test_binding_is_what_servicebinding_says_and_its_uri_parses() -> None:
    password = "p@ss/w?rd:%#é 'x'"
    body = children(postgresql(defaultUser="a.b-C", password=password))["db-binding/Secret"].body
    assert body["type"] == "servicebinding.io/postgresql"
    values = observed({Ref(SECRET, "ns", "b"): body}).secret(namespace="ns", name="b")
    login = {"type", "provider", "host", "port", "database", "username", "password"}
    assert set(values) == {*login, "uri", "jdbc-uri", "pgpass", "ca.crt"}
    uri = urlsplit(values["uri"])
    assert (uri.scheme, uri.hostname, uri.port) == ("postgresql", values["host"], 5432)
    assert unquote(uri.password or "") == password == values["password"]
    assert unquote(uri.username or "") == unquote(uri.path[1:]) == "a.b-C"
    assert values["host"] == "db.ns.svc"


def test_generated_password_is_kept_and_a_given_one_wins() -> None:
    def password(known: dict[Ref, Object], **spec: Any) -> str:
        body = children(postgresql(**spec), {**volume(), **known})["db-binding/Secret"].body
        return observed({Ref(SECRET, "ns", "b"): body}).secret(namespace="ns", name="b")["password"]

    ref = Ref(SECRET, "ns", "db-binding")
    made = password({})
    assert len(made) == 32
    assert re.fullmatch(r"[A-Za-z0-9]{32}", made)
    assert password({ref: secret(password="kept")}) == "kept"
    assert password({ref: secret(password="kept")}, password="given") == "given"
    assert password({ref: secret(password="")}) == made
    assert password({ref: {"metadata": {}, "data": {"password": "!not base64!"}}}) == made


def test_superuser_waits_for_the_volume_and_is_owned_by_it() -> None:
    assert children(postgresql(), {Ref(VOLUME_CLAIM, "ns", "other"): {}})["db-superuser/Secret"].blocked
    child = children(postgresql())["db-superuser/Secret"]
    assert (child.blocked, child.create_only) == (False, True)
    assert child.body["metadata"]["ownerReferences"][0]["uid"] == "volume-uid"


@pytest.mark.parametrize(
    ("asked", "present", "size"),
    [
        (None, "1Gi", "1Gi"),
        ("2Gi", "1Gi", "2Gi"),
        ("1Gi", "2Gi", "2Gi"),
        ("1Gi", "1024Mi", "1Gi"),
        (None, "5Gi", "5Gi"),
    ],
)
def test_volume_never_shrinks(asked: str | None, present: str, size: str) -> None:
    cr = postgresql(storage={"size": asked} if asked else {})
    body = children(cr, volume(present))["db-data/PersistentVolumeClaim"].body
    assert body["spec"]["resources"]["requests"]["storage"] == size


def test_pod_is_restricted() -> None:
    """The restricted pod security standard, rule by rule."""
    pod = pod_of(postgresql())
    assert pod["automountServiceAccountToken"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == 999
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
        "persistentVolumeClaim", "configMap", "secret", "emptyDir",
    }  # fmt: skip
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert container["resources"]["limits"]["memory"]


def test_no_shell_anywhere() -> None:
    for word in json.dumps(pod_of(postgresql())).split('"'):
        assert word not in {"sh", "bash", "/bin/sh", "/bin/bash", "-c;"}
        assert not word.endswith(".sh")


def test_password_is_in_the_binding_alone() -> None:
    canary = "canary-93b1"
    for name, child in children(postgresql(password=canary)).items():
        encoded = json.dumps(child.body)
        assert canary not in encoded
        if name == "db-binding/Secret":
            assert (
                observed({Ref(SECRET, "ns", "b"): child.body}).secret(namespace="ns", name="b")["password"]
                == canary
            )
    assert canary not in repr(request(postgresql(password=canary), observed()))


def test_only_postgresqls_port_is_open_and_nothing_goes_out() -> None:
    cr = postgresql()
    body = children(cr)["db/NetworkPolicy"].body["spec"]
    assert set(body["policyTypes"]) == {"Ingress", "Egress"}
    assert body["egress"] == []
    assert body["ingress"] == [{"from": DEFAULT_PEERS, "ports": [{"port": 5432, "protocol": "TCP"}]}]
    template = children(cr)["db/StatefulSet"].body["spec"]["template"]["metadata"]["labels"]
    assert body["podSelector"]["matchLabels"].items() <= template.items()


def test_selectors_differ_between_the_groups() -> None:
    other = Postgresql(
        group="database.technotuesday.io", image="x", init_image="y", exporters_image="exporters:1"
    )
    mine = {c.type: c.body for c in KIND.desired(postgresql(), observed(volume()))}
    theirs = {c.type: c.body for c in other.desired(postgresql(), observed(volume()))}
    assert mine[SERVICE]["spec"]["selector"] != theirs[SERVICE]["spec"]["selector"]
    for body in (mine, theirs):
        template = body[STATEFUL_SET]["spec"]["template"]["metadata"]["labels"]
        assert body[SERVICE]["spec"]["selector"].items() <= template.items()
        assert body[STATEFUL_SET]["spec"]["selector"]["matchLabels"].items() <= template.items()


def test_mounts_have_their_volumes_and_probes_their_programs() -> None:
    pod = pod_of(postgresql(image="mine:1"))
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    images = {each["name"]: each["image"] for each in [*pod["initContainers"], *pod["containers"]]}
    assert images == {"install": "postgres-init:1", "initdb": "mine:1", "postgres": "mine:1"}
    assert pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][0] == "pg_ctl"


def test_program_runs_from_where_it_is_installed_and_only_the_installer_may_write_there() -> None:
    pod = pod_of(postgresql(image="mine:1"))
    install, initdb = pod["initContainers"]
    (server,) = pod["containers"]
    target = install["command"][-1].removeprefix("--to=")
    for container in (install, initdb, server):
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "program"]
        assert target == f"{mount['mountPath']}/postgres-init"
        assert mount.get("readOnly", False) is (container is not install)
    assert initdb["command"][0] == server["command"][0] == target
    # Pods of the class Guaranteed stay it.
    assert install["resources"] == initdb["resources"] == server["resources"]


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("db", {"defaultUser": "kindling"}, ["spec.defaultUser", "'kindling'"]),
        ("db", {"defaultuser": "pg_monitor"}, ["spec.defaultUser", "'pg_monitor'"]),
        ("db", {"defaultUser": "template1"}, ["'template1'"]),
        ("db", {"defaultUser": "a", "defaultuser": "b"}, ["spec.defaultUser", "spec.defaultuser"]),
        ("db", {"defaultUser": "é" * 32}, ["63 bytes"]),
        ("db", {"defaultUser": "a" * 64}, ["63 bytes"]),
        ("db", {"password": ""}, ["spec.password"]),
        ("db", {"password": "secret\0word"}, ["spec.password"]),
        ("a" * 53, {}, ["metadata.name", "52"]),
        ("a.b", {}, ["'a.b'"]),
        ("9db", {}, ["'9db'"]),
    ],
)
def test_refuses_by_field_and_value_never_the_password(name: str, spec: Object, words: list[str]) -> None:
    problem = KIND.validate(postgresql(name=name, **spec), observed())
    assert problem is not None
    assert problem.reason == "InvalidSpec"
    assert "secret" not in problem.message
    for word in words:
        assert word in problem.message


@pytest.mark.parametrize("user", ["a" * 63, "é" * 31 + "a", "Kindling", "pgadmin"])
def test_takes_a_user_that_postgresql_can_have(user: str) -> None:
    assert KIND.validate(postgresql(defaultUser=user), observed()) is None


# What the strategy draws though the CRD's rules would not let it through, or the cluster lacks.
BEYOND = ("passwordSecretRef", "parameters", "version")


@given(SPECS, NAMES)
def test_refuses_nothing_the_door_admits(spec: Object, name: str) -> None:
    user = spec.get("defaultUser", "")
    reserved = user in {"kindling", "public", "none", "template0", "template1"} or user.startswith("pg_")
    if not reserved and "\0" not in spec.get("password", ""):
        admitted = {field: value for field, value in spec.items() if field not in BEYOND}
        assert KIND.validate(postgresql(name=name, **admitted), observed()) is None


@given(SPECS, NAMES)
def test_every_rejection_and_status_has_a_report(spec: Object, name: str) -> None:
    cr = postgresql(name=name, **spec)
    problem = KIND.validate(cr, observed(running()))
    for sync in (
        SyncResult(in_sync=problem is None, problem=problem),
        SyncResult(in_sync=False, paused=True),
    ):
        for item in KIND.status(cr, observed(running()), sync).status["conditions"]:
            assert re.fullmatch(r"[A-Z][A-Za-z]{0,62}", item["reason"])
            assert 0 < len(item["message"]) <= 4096


def test_stopping_has_its_time_and_starting_any() -> None:
    for asked, memory, seconds in (
        (None, "512Mi", 68),
        (None, "16Gi", 316),
        (None, "512Gi", 1800),
        (None, "1Mi", 60),
        (90, "512Gi", 90),
    ):
        pod = pod_of(postgresql(shutdownSeconds=asked, resources={"limits": {"memory": memory}}))
        assert pod["terminationGracePeriodSeconds"] == seconds
        container = pod["containers"][0]
        assert "startupProbe" not in container
        # What is dead is not waited for as long as what is to end well.
        assert container["livenessProbe"]["terminationGracePeriodSeconds"] == 60
        assert "terminationGracePeriodSeconds" not in container["readinessProbe"]


def test_new_claim_has_the_access_mode_that_is_asked_and_an_old_one_its_own() -> None:
    """None can change: were one asked for, the API server would refuse the whole claim."""

    def modes(known: dict[Ref, Object], **storage: Any) -> list[str]:
        body = children(postgresql(storage=storage), known)["db-data/PersistentVolumeClaim"].body
        found: list[str] = body["spec"]["accessModes"]
        return found

    none: dict[Ref, Object] = {Ref(VOLUME_CLAIM, "ns", "other"): {}}
    assert modes(none) == ["ReadWriteOnce"]
    assert modes(none, accessMode="ReadWriteOncePod") == ["ReadWriteOncePod"]
    for there in ("ReadWriteOnce", "ReadWriteOncePod"):
        known = volume()
        known[Ref(VOLUME_CLAIM, "ns", "db-data")]["spec"]["accessModes"] = [there]
        for asked in ("ReadWriteOnce", "ReadWriteOncePod"):
            assert modes(known, accessMode=asked) == [there]

"""The children of a PulsarConsumer: for every admitted spec, with the spec verbatim, without a token."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given
from kindling.engine.compare import satisfies
from kindling.engine.plan import plan
from kindling.kube.resources import CONFIG_MAP, DEPLOYMENT, NETWORK_POLICY, SECRET, Object, Ref

from tests.model.memory import MemoryApi
from tests.unit.operator.pulsarconsumers import (
    IMAGE,
    KIND,
    LOCAL,
    NAMES,
    SECRETS,
    SPECS,
    consumer,
    observed,
    rolled_out,
    token,
)

TOKEN = {"tokenSecretRef": {"name": "pulsar-token"}}


def deployment(known: dict[Ref, Object] | None = None, **spec: Any) -> Object:
    return LOCAL.desired(consumer(**spec), observed(known))[1].body


def pod_of(**spec: Any) -> Object:
    found: Object = deployment(**spec)["spec"]["template"]["spec"]
    return found


def env_of(**spec: Any) -> dict[str, Object]:
    return {item["name"]: item for item in pod_of(**spec)["containers"][0]["env"]}


@given(SPECS, NAMES)
def test_total_and_plan_comes_to_rest(spec: Object, name: str) -> None:
    """Any admitted spec: applied once as it is, nothing is left to write."""
    cr = {**consumer(name=name), "spec": spec}
    api = MemoryApi()

    async def converge() -> int:
        writes = 0
        for _ in range(3):
            seen = observed({**api.objects, **SECRETS})
            assert LOCAL.validate(cr, seen) is None
            decided = plan(type=LOCAL.type, cr=cr, desired=LOCAL.desired(cr, seen), observed=api.objects)
            assert decided.problem is None
            for action in decided.actions:
                await api.apply(action.type, action.body)  # type: ignore[union-attr]
                writes += 1
        return writes

    assert asyncio.run(converge()) == 2
    for ref, obj in api.objects.items():
        # A Pod is named after its Deployment, and its dots may stand nowhere but between labels.
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", ref.name)
        labels = obj["metadata"]["labels"] | (
            obj["spec"]["template"]["metadata"]["labels"] if ref.type == DEPLOYMENT else {}
        )
        for value in labels.values():
            assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


def test_consumers_get_the_spec_verbatim() -> None:
    said = {
        "serverAddress": "pulsar://localhost:6650",
        "topic": "my-topic",
        "subscriptionName": "first-subscription",
    }
    env = env_of(**said)
    assert env["PULSAR_SERVER"] == {"name": "PULSAR_SERVER", "value": "pulsar://localhost:6650"}
    assert env["PULSAR_TOPIC"]["value"] == "my-topic"
    assert env["PULSAR_SUBSCRIPTION_NAME"]["value"] == "first-subscription"
    assert env["PULSAR_SUBSCRIPTION_TYPE"]["value"] == "Shared"
    assert env["PULSAR_INITIAL_POSITION"]["value"] == "Latest"
    assert "PULSAR_TOKEN_FILE" not in env


def test_kubernetes_puts_nothing_in_place_of_a_topics_dollars() -> None:
    assert env_of(topic="$(HOME)/a$$b$")["PULSAR_TOPIC"]["value"] == "$$(HOME)/a$$$$b$$"


def test_optional_fields_reach_the_pod() -> None:
    limits = {"limits": {"memory": "1Gi"}}
    extra = [
        {"name": "GREETING", "value": "$(PULSAR_TOPIC)"},
        {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    spec: Object = {
        "image": "mine:2", "subscriptionType": "Failover", "initialPosition": "Earliest",
        "replicas": 3, "resources": limits, "env": extra,
    }  # fmt: skip
    container = pod_of(**spec)["containers"][0]
    assert deployment(**spec)["spec"]["replicas"] == 3
    assert container["image"] == "mine:2"
    assert container["resources"] == {"requests": {"cpu": "20m", "memory": "64Mi"}, **limits}
    assert container["env"][-2:] == extra
    env = env_of(**spec)
    assert env["PULSAR_SUBSCRIPTION_TYPE"]["value"] == "Failover"
    assert env["PULSAR_INITIAL_POSITION"]["value"] == "Earliest"


def test_token_is_a_file_that_follows_its_secret() -> None:
    pod = pod_of(auth={"tokenSecretRef": {"name": "pulsar-token", "key": "jwt"}})
    container = pod["containers"][0]
    file = next(item["value"] for item in container["env"] if item["name"] == "PULSAR_TOKEN_FILE")
    mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "token")
    # A file mounted by subPath would never change.
    assert "subPath" not in mount
    assert file == f"{mount['mountPath']}/token"
    secret = next(volume["secret"] for volume in pod["volumes"] if volume["name"] == "token")
    assert secret == {
        "secretName": "pulsar-token", "defaultMode": 0o440, "items": [{"key": "jwt", "path": "token"}],
    }  # fmt: skip


def test_token_itself_is_in_no_child() -> None:
    canary = "canary-93b1"
    cr, known = consumer(auth=TOKEN), token(token=canary)
    assert KIND.validate(cr, observed(known)) is None
    for child in KIND.desired(cr, observed(known)):
        assert canary not in json.dumps(child.body)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, ["'pulsar-token'", "'ns'", "spec.auth.tokenSecretRef", "create it"]),
        (token(other="canary"), ["'pulsar-token'", "no key 'token'"]),
        (token(token=""), ["no key 'token'"]),
        (token(), ["no key 'token'"]),
    ],
)
def test_missing_token_is_refused_by_name(known: dict[Ref, Object], words: list[str]) -> None:
    problem = KIND.validate(consumer(auth=TOKEN), observed(known))
    assert problem is not None
    assert problem.reason == "SecretNotFound"
    assert [word for word in words if word not in problem.message] == []
    assert "canary" not in problem.message


def test_looks_at_the_tokens_secret_and_at_no_other() -> None:
    [watched] = KIND.watched_objects(consumer(auth=TOKEN))
    assert (watched.type, watched.name, watched.namespace) == (SECRET, "pulsar-token", "ns")
    assert KIND.watched_objects(consumer()) == []
    assert KIND.watches == (SECRET, CONFIG_MAP)


def running(subscription_type: str, *, strategy: str, done: bool) -> dict[Ref, Object]:
    """The Deployment as it was made for that type, by that strategy."""
    known = rolled_out(2, available=2 if done else 0)
    body = deployment(subscriptionType=subscription_type, replicas=2)
    [ref] = known
    spec = {**body["spec"], "strategy": {"type": strategy}}
    return {ref: {**known[ref], "metadata": {**known[ref]["metadata"], **body["metadata"]}, "spec": spec}}


@pytest.mark.parametrize(
    ("wanted", "before", "strategy"),
    [
        ("Shared", None, "RollingUpdate"),
        ("Exclusive", None, "Recreate"),
        ("Shared", ("Shared", "RollingUpdate", True), "RollingUpdate"),
        ("Shared", ("Shared", "RollingUpdate", False), "RollingUpdate"),
        ("Key_Shared", ("Shared", "RollingUpdate", True), "Recreate"),
        ("Shared", ("Exclusive", "Recreate", True), "Recreate"),
        ("Shared", ("Shared", "Recreate", False), "Recreate"),
        ("Shared", ("Shared", "Recreate", True), "RollingUpdate"),
        ("Exclusive", ("Exclusive", "Recreate", True), "Recreate"),
    ],
)
def test_old_consumers_go_first_where_the_broker_takes_no_new_one_beside_them(
    wanted: str, before: tuple[str, str, bool] | None, strategy: str
) -> None:
    known = running(before[0], strategy=before[1], done=before[2]) if before else {}
    assert deployment(known, subscriptionType=wanted)["spec"]["strategy"]["type"] == strategy


def test_pod_is_restricted() -> None:
    """The restricted pod security standard, rule by rule."""
    pod = pod_of(serverAddress="pulsar://localhost:6650", auth=TOKEN)
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} == {"secret", "emptyDir"}
    assert len(pod["initContainers"]) == 1
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= {
            volume["name"] for volume in pod["volumes"]
        }


def test_no_shell_anywhere() -> None:
    for word in json.dumps(pod_of(serverAddress="pulsar://localhost:6650")).split('"'):
        assert word not in {"sh", "bash", "/bin/sh", "/bin/bash", "-c"}


def test_probes_ask_a_port_that_is_there_and_messages_stay_out_of_the_status() -> None:
    [container] = pod_of()["containers"]
    [port] = container["ports"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    assert container["readinessProbe"]["periodSeconds"] == 2
    assert container["terminationMessagePolicy"] == "File"
    assert "command" not in container


def test_nobody_reaches_a_consumer_and_all_are_spread_over_nodes() -> None:
    policy, workload = KIND.desired(consumer(), observed())
    assert (policy.type, workload.type) == (NETWORK_POLICY, DEPLOYMENT)
    assert policy.body["metadata"]["name"] == workload.body["metadata"]["name"] == "printer-deployment"
    assert policy.body["spec"]["policyTypes"] == ["Ingress"]
    assert policy.body["spec"]["ingress"] == []
    labels = workload.body["spec"]["template"]["metadata"]["labels"]
    [spread] = workload.body["spec"]["template"]["spec"]["topologySpreadConstraints"]
    for selector in (
        policy.body["spec"]["podSelector"],
        spread["labelSelector"],
        workload.body["spec"]["selector"],
    ):
        assert selector["matchLabels"].items() <= labels.items()
        assert len(selector["matchLabels"]) == 2


def test_own_image_is_the_default() -> None:
    assert pod_of()["containers"][0]["image"] == IMAGE


def test_edit_of_the_strategy_is_seen() -> None:
    """The part that is left out under Recreate counts as a field of ours: it must be absent."""
    recreate = deployment(subscriptionType="Exclusive")["spec"]["strategy"]
    assert satisfies(recreate, {"type": "Recreate"})
    assert not satisfies(recreate, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}})

"""PulsarConsumer as its users meet it: a real broker, real messages, and each of them printed."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from tests.cluster.stack import ROOT, Environment, within

KIND = "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com"
SAMPLE = "pulsarconsumer-sample-1"
BROKER = "pulsar://pulsar.pulsar.svc:6650"
LINE = re.compile(r"\(\d+,\d+,-?\d+,-?\d+\) (.*)")
GUIDE = ROOT / "docs" / "guides" / "pulsarconsumer.md"


def wait_ready(environment: Environment, name: str, *, reason: str = "") -> None:
    """Until Ready is True; or, with a reason, until it has that one."""
    path = '{.status.conditions[?(@.type=="Ready")].reason}'
    until = f"--for=jsonpath={path}={reason}" if reason else "--for=condition=Ready"
    environment.kubectl("wait", until, f"{KIND}/{name}", "--timeout=120s")


def pods(environment: Environment, name: str) -> list[str]:
    """The resource's Pods that are not on their way out."""
    found = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def messages(log: str) -> list[str]:
    return [found[1] for line in log.splitlines() if (found := LINE.fullmatch(line))]


def printed(environment: Environment, pod: str) -> list[str]:
    return messages(environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1"))


def produce(environment: Environment, *, topic: str, count: int) -> None:
    """Send `hello 1`, `hello 2`, … by the Job that the guide prints, and wait until the broker has them."""
    [block] = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    image = environment.get("deployment", f"{SAMPLE}-deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]["image"]
    job = yaml.safe_load(block.replace("IMAGE", image))
    job["metadata"]["name"] = f"producer-{os.urandom(3).hex()}"
    env = {item["name"]: item for item in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["PULSAR_SERVER"]["value"] == BROKER
    env["PULSAR_TOPIC"]["value"] = topic
    env["PULSAR_COUNT"]["value"] = str(count)
    environment.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    name = f"job/{job['metadata']['name']}"
    environment.kubectl("wait", "--for=condition=complete", name, "--timeout=240s", timeout=300)
    environment.kubectl("delete", name, "--wait=false")


Make = Callable[..., str]


@pytest.fixture
def make(environment: Environment) -> Iterator[Make]:
    """Makes a resource with these fields laid over a sound spec, of a topic of its own; returns its name."""
    made: list[str] = []

    def _make(**spec: Any) -> str:
        name = f"consumer-{os.urandom(3).hex()}"
        sound = {
            "serverAddress": BROKER,
            "topic": name,
            "subscriptionName": "printers",
            "replicas": 1,
            "initialPosition": "Earliest",
        }
        resource = {
            "apiVersion": "pulsar.pulsarconsumer.krvarma.com/v1",
            "kind": "PulsarConsumer",
            "metadata": {"name": name},
            "spec": {**sound, **spec},
        }
        environment.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
        made.append(name)
        return name

    yield _make
    for name in made:
        environment.kubectl("delete", f"{KIND}/{name}", "--wait=false")


def edit(environment: Environment, name: str, **spec: Any) -> None:
    environment.kubectl("patch", f"{KIND}/{name}", "--type=merge", "-p", json.dumps({"spec": spec}))


def test_sample_is_ready_verbatim_and_consumes_from_the_broker_it_calls_localhost(
    environment: Environment,
) -> None:
    wait_ready(environment, SAMPLE)
    resource = environment.get(f"{KIND}/{SAMPLE}")
    status = resource["status"]
    assert status["server"] == resource["spec"]["serverAddress"] == "pulsar://localhost:6650"
    assert (status["topic"], status["subscription"], status["replicas"]) == (
        "my-topic",
        "first-subscription",
        1,
    )
    assert status["observedGeneration"] == resource["metadata"]["generation"]
    [pod] = pods(environment, SAMPLE)
    word = os.urandom(6).hex()
    environment.kubectl(
        "exec", pod, "-c", "consumer", "--",
        "env", f"PULSAR_MESSAGE={word}", "python3", "-m", "pulsar_consumer.producer",
    )  # fmt: skip
    within(120, lambda: printed(environment, pod).count(word) == 1)


def test_thousand_messages_are_printed_once_each(environment: Environment, make: Make) -> None:
    name = make(replicas=2)
    wait_ready(environment, name)
    produce(environment, topic=name, count=1000)
    wanted = Counter(f"hello {number}" for number in range(1, 1001))

    def seen() -> Counter[str]:
        return Counter(word for pod in pods(environment, name) for word in printed(environment, pod))

    within(120, lambda: seen().total() >= 1000)
    time.sleep(2)  # For what might come twice.
    assert seen() == wanted


def test_stopped_pod_loses_nothing_and_leaves_nothing_to_be_printed_twice(
    environment: Environment, make: Make
) -> None:
    """In the middle of so many that the sending outlasts the stop."""
    count = 10_000
    name = make()
    wait_ready(environment, name)
    [first] = pods(environment, name)
    with ThreadPoolExecutor() as pool:
        followed = pool.submit(
            environment.kubectl, "logs", "--follow", first, "-c", "consumer", "--tail=-1", timeout=400
        )
        sending = pool.submit(produce, environment, topic=name, count=count)
        within(120, lambda: len(printed(environment, first)) > 100)
        environment.kubectl("delete", "pod", first, "--wait=true")
        sending.result(timeout=400)
        before = messages(followed.result(timeout=400))
    wait_ready(environment, name)
    [second] = pods(environment, name)
    wanted = {f"hello {number}" for number in range(1, count + 1)}
    within(120, lambda: wanted <= {*before, *printed(environment, second)})
    after = printed(environment, second)
    assert 100 < len(before) < count
    assert after
    assert len(before) + len(after) == count
    assert {*before, *after} == wanted


def test_deployment_that_is_deleted_or_edited_comes_back(environment: Environment, make: Make) -> None:
    name = make()
    wait_ready(environment, name)
    workload = f"{name}-deployment"
    uid = environment.get("deployment", workload)["metadata"]["uid"]
    environment.kubectl("delete", "deployment", workload, "--wait=true")
    environment.kubectl("wait", "--for=create", f"deployment/{workload}", "--timeout=30s")
    assert environment.get("deployment", workload)["metadata"]["uid"] != uid
    environment.kubectl("scale", "deployment", workload, "--replicas=3")
    within(10, lambda: environment.get("deployment", workload)["spec"]["replicas"] == 1)
    wait_ready(environment, name)


def test_no_broker_is_told_and_heals_when_mended(environment: Environment, make: Make) -> None:
    name = make(serverAddress="pulsar://nobody.example.invalid:6650")
    wait_ready(environment, name, reason="BrokerUnreachable")
    status = environment.get(f"{KIND}/{name}")["status"]
    [ready] = [item for item in status["conditions"] if item["type"] == "Ready"]
    assert ready["status"] == "False"
    assert "pulsar://nobody.example.invalid:6650" in ready["message"]
    edit(environment, name, serverAddress=BROKER)
    wait_ready(environment, name)


def test_topic_in_a_namespace_that_is_not_there_is_told_in_the_consumers_words(
    environment: Environment, make: Make
) -> None:
    name = make()
    wait_ready(environment, name)
    [running] = pods(environment, name)
    edit(environment, name, topic="persistent://public/nowhere/t")
    wait_ready(environment, name, reason="TopicNotFound")
    assert running in pods(environment, name)  # A bad edit never breaks what runs.
    edit(environment, name, topic=name)
    wait_ready(environment, name)


def test_type_changes_there_and_back_and_to_none_at_all(environment: Environment, make: Make) -> None:
    name = make(replicas=2)
    wait_ready(environment, name)
    for spec in (
        {"subscriptionType": "Exclusive", "replicas": 1},
        {"subscriptionType": "Key_Shared", "replicas": 2},
        {"replicas": 0},
    ):
        edit(environment, name, **spec)
        wait_ready(environment, name)
    wait_ready(environment, name, reason="ScaledToZero")
    assert environment.get(f"{KIND}/{name}")["status"]["replicas"] == 0


def test_token_is_waited_for_and_stands_in_no_pod(environment: Environment, make: Make) -> None:
    """This broker asks for no token: what is tested is the way there."""
    secret = f"token-{os.urandom(3).hex()}"
    name = make(auth={"tokenSecretRef": {"name": secret}})
    wait_ready(environment, name, reason="SecretNotFound")
    assert pods(environment, name) == []
    environment.kubectl("create", "secret", "generic", secret, "--from-literal=token=canary-93b1")
    wait_ready(environment, name)
    [pod] = pods(environment, name)
    everything = environment.kubectl(
        "get", f"deployment/{name}-deployment", f"pod/{pod}", f"{KIND}/{name}", "-o", "json"
    )
    assert "canary-93b1" not in everything
    assert "canary-93b1" not in environment.kubectl("logs", pod, "-c", "consumer")
    environment.kubectl("delete", "secret", secret)
    wait_ready(environment, name, reason="SecretNotFound")
    assert pods(environment, name) == [pod]

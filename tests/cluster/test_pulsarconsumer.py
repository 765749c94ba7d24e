"""PulsarConsumer as its users meet it: a real broker, real messages, and each of them printed."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import yaml

from tests.cluster.consumers import (
    BROKER,
    GUIDE,
    KIND,
    SAMPLE,
    Make,
    edit,
    log,
    messages,
    pods,
    printed,
    produce,
    wait_ready,
)
from tests.cluster.stack import Environment, within


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


def test_no_broker_is_reported_until_the_address_is_fixed(environment: Environment, make: Make) -> None:
    name = make(serverAddress="pulsar://nobody.example.invalid:6650")
    wait_ready(environment, name, reason="BrokerUnreachable")
    status = environment.get(f"{KIND}/{name}")["status"]
    [ready] = [item for item in status["conditions"] if item["type"] == "Ready"]
    assert ready["status"] == "False"
    assert "pulsar://nobody.example.invalid:6650" in ready["message"]
    edit(environment, name, serverAddress=BROKER)
    wait_ready(environment, name)


def test_topic_in_a_missing_namespace_is_reported_with_the_consumers_message(
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


def test_guides_six_lines_handle_an_order(environment: Environment) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    [block] = [found for found in blocks if "kind: ConfigMap" in found]
    documents = list(yaml.safe_load_all(block))
    assert documents[1]["spec"]["serverAddress"] == BROKER
    documents[1]["spec"]["initialPosition"] = "Earliest"
    environment.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    try:
        wait_ready(environment, "orders")
        produce(environment, topic="orders", count=1, message='{"id": 4711}')
        within(60, lambda: "order 4711" in log(environment, "orders"))
    finally:
        environment.kubectl("delete", f"{KIND}/orders", "configmap/orders", "--wait=false")

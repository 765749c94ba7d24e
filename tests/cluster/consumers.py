"""What the tests of PulsarConsumer share: resources of their own, messages, and what consumers print."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.stack import ROOT, Environment

KIND = "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com"
SAMPLE = "pulsarconsumer-sample-1"
BROKER = "pulsar://pulsar.pulsar.svc:6650"
ADMIN = "http://pulsar.pulsar.svc:8080"
LINE = re.compile(r"\(\d+,\d+,-?\d+,-?\d+\) (.*)")
GUIDE = ROOT / "docs" / "guides" / "pulsarconsumer.md"


def wait_ready(environment: Environment, name: str, *, reason: str = "") -> None:
    """Until Ready is True; or, with a reason, until it has that one."""
    path = '{.status.conditions[?(@.type=="Ready")].reason}'
    until = f"--for=jsonpath={path}={reason}" if reason else "--for=condition=Ready"
    environment.kubectl("wait", until, f"{KIND}/{name}", "--timeout=240s")


def pods(environment: Environment, name: str) -> list[str]:
    """The resource's Pods that are not on their way out."""
    found = environment.get("pods", "-l", f"app.kubernetes.io/instance={name}")["items"]
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def messages(log: str) -> list[str]:
    return [found[1] for line in log.splitlines() if (found := LINE.fullmatch(line))]


def printed(environment: Environment, pod: str) -> list[str]:
    return messages(environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1"))


def produce(
    environment: Environment, *, topic: str, count: int, message: str = "hello", seconds: int = 240
) -> None:
    """Send `hello 1`, `hello 2`, … by the Job that the guide prints, and wait until the broker has them."""
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    [block] = [found for found in blocks if "kind: Job" in found]
    image = environment.get("deployment", f"{SAMPLE}-deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]["image"]
    job = yaml.safe_load(block.replace("IMAGE", image))
    job["metadata"]["name"] = f"producer-{os.urandom(3).hex()}"
    env = {item["name"]: item for item in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["PULSAR_SERVER"]["value"] == BROKER
    env["PULSAR_TOPIC"]["value"] = topic
    env["PULSAR_COUNT"]["value"] = str(count)
    env["PULSAR_MESSAGE"]["value"] = message
    environment.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    name = f"job/{job['metadata']['name']}"
    wait = ("wait", "--for=condition=complete", name, f"--timeout={seconds}s")
    environment.kubectl(*wait, timeout=seconds + 60)
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
        environment.kubectl("delete", f"{KIND}/{name}", "--wait=false", "--ignore-not-found")


def edit(environment: Environment, name: str, **spec: Any) -> None:
    environment.kubectl("patch", f"{KIND}/{name}", "--type=merge", "-p", json.dumps({"spec": spec}))


@pytest.fixture
def put(environment: Environment) -> Iterator[Callable[[str], str]]:
    """Writes a ConfigMap with this code as orders.py, under a name that is returned, or changes that one."""
    made: list[str] = []

    def _put(code: str, name: str = "") -> str:
        name = name or f"code-{os.urandom(3).hex()}"
        data = {"orders.py": textwrap.dedent(code)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        environment.kubectl("apply", "-f", "-", stdin=json.dumps(body))
        made.append(name)
        return name

    yield _put
    for name in set(made):
        environment.kubectl("delete", "configmap", name, "--wait=false")


def python(config_map: str, **more: Any) -> dict[str, Any]:
    """`spec.handler` for that code."""
    return {"python": {"configMapRef": {"name": config_map}, "handler": "orders:handle", **more}}


def log(environment: Environment, name: str) -> str:
    """All that the resource's Pods print now."""
    found = (
        environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1") for pod in pods(environment, name)
    )
    return "\n".join(found)

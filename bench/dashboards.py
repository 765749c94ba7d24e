"""Pictures of the dashboards for Grafana: `python3 -m bench.dashboards`, with the stack `dev` up.

A Prometheus on this machine scrapes the leader for RECORDED seconds, while resources are created, edited and
deleted beside the samples and a Pod of each kind is lost; and a consumer whose handler fails now and then,
while messages come. Then each panel's own query is asked for that time,
and the answers are drawn into docs/assets. Wants `kindling:objectStore: true`, for a Backup.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.dashboard_svg import Series, picture
from infra.paths import REPOSITORY
from tests.apiserver.support.prometheus import Prometheus, prometheus
from tests.unit.docs.panels import DASHBOARDS, Panel

CONTEXT = "kind-kindling-dev"
OPERATOR, NAMESPACE = "kindling-system", "shop"
RECORDED = 240.0
STEP = 2
ASSETS = REPOSITORY / "docs" / "assets"
LABEL = re.compile(r"{{(\w+)}}")
"""In the legend of a query, as Grafana has it."""
WORKER = "checkout"
"""The consumer that is scraped."""
HANDLER = """\
import random, time
from pulsar_consumer.handler import Reject, Retry

class Checkout:
    def process(self, input, context):
        time.sleep(random.expovariate(1 / 0.03))
        chance = random.random()
        if chance < 0.004:
            raise Reject("no such cart")
        if chance < 0.02:
            raise Retry(5, "the shop is busy")
        if chance < 0.06:
            raise ValueError("no price")
        context.record_metric("amount", random.randint(1, 90))
        return input
"""
PRODUCER = """\
import math, sys, time
import pulsar
producer = pulsar.Client(sys.argv[1]).create_producer(sys.argv[2])
while True:
    producer.send(b"cart")
    time.sleep(1 / (12 + 8 * math.sin(time.monotonic() / 15)))
"""
BROKER = "pulsar://pulsar.pulsar.svc:6650"
DATABASE, CACHE, CONSUMER, BACKUP = (
    "database.db.example.com/v1", "cache.example.com/v1alpha1",
    "pulsar.pulsarconsumer.krvarma.com/v1", "database.technotuesday.io/v1",
)  # fmt: skip


def main() -> int:
    rules = yaml.safe_load((REPOSITORY / "integrations" / "prometheus" / "rules.yaml").read_text())["spec"]
    leader = kubectl("get", "lease", "kindling-operator", f"--namespace={OPERATOR}", "-o=json")
    pod = json.loads(leader)["spec"]["holderIdentity"].partition("_")[0]
    path = f"/api/v1/namespaces/{OPERATOR}/pods/{pod}:8080/proxy/metrics"
    labels = {"__metrics_path__": path, "namespace": OPERATOR, "pod": pod, "instance": pod}
    with tempfile.TemporaryDirectory(prefix="kindling-bench-") as folder, proxy() as port:
        target = f"127.0.0.1:{port}"
        try:
            pods = {target: consumer()}
            with prometheus(
                target, folder=Path(folder), rules=rules, labels=labels, honor_labels=True, pods=pods
            ) as server:
                draw(server)
        finally:
            kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
            kubectl("delete", "backup", "mydb", "--ignore-not-found", "--wait=false")
    return 0


def draw(server: Prometheus) -> None:
    began = time.time()
    trouble(until=began + RECORDED)
    for dashboard in DASHBOARDS:
        found = {panel.title: series(server, panel, began) for panel in dashboard.panels}
        text = picture(dashboard, found, seconds=RECORDED)
        (ASSETS / f"{dashboard.name}.svg").write_text(text)
        empty = [title for title, each in found.items() if not each]
        print(f"{dashboard.name}.svg, without data: {', '.join(empty) or 'none'}")


def consumer() -> dict[str, str]:
    """Have one work, with a producer beside it; the labels of its Pod, as the PodMonitor gives them."""
    kubectl("create", "namespace", NAMESPACE)
    spec = {
        "serverAddress": BROKER,
        "topic": WORKER,
        "subscriptionName": WORKER,
        "replicas": 1,
        "metrics": {"enabled": True},
        "handler": {
            "python": {"configMapRef": {"name": WORKER}, "handler": "checkout:Checkout", "concurrency": 4}
        },
        "retry": {"maxDeliveries": 2},
        "deadLetter": {"topic": f"{WORKER}-dead"},
        "output": {"topic": f"{WORKER}-done"},
    }
    code = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": WORKER, "namespace": NAMESPACE},
        "data": {"checkout.py": HANDLER},
    }
    apply([code, resource(CONSUMER, "PulsarConsumer", WORKER, spec)])
    space = f"--namespace={NAMESPACE}"
    kubectl("wait", f"pulsarconsumers/{WORKER}", "--for=condition=Ready", "--timeout=110s", space)
    selector = f"--selector=app.kubernetes.io/instance={WORKER}"
    (pod,) = json.loads(kubectl("get", "pods", selector, "-o=json", space))["items"]
    image = next(each["image"] for each in pod["spec"]["containers"] if each["name"] == "consumer")
    container = {
        "name": "producer", "image": image, "command": ["python3", "-c", PRODUCER, BROKER, WORKER],
    }  # fmt: skip
    apply([resource("v1", "Pod", "producer", {"containers": [container]})])
    name = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:9151/proxy/metrics"
    return {
        "__metrics_path__": path,
        "namespace": NAMESPACE,
        "pod": name,
        "app_kubernetes_io_instance": WORKER,
        "instance": name,
    }


def series(server: Prometheus, panel: Panel, began: float) -> list[Series]:
    """The answer to each of its queries, over the time that was recorded."""
    found = []
    for expression, legend in panel.queries:
        query = expression.replace("$__rate_interval", "30s").replace("$namespace", ".*")
        answer = server.get(
            "query_range", query=query, start=f"{began}", end=f"{began + RECORDED}", step=f"{STEP}"
        )
        for each in answer["result"]:
            labels = {name: value for name, value in each["metric"].items() if name != "__name__"}
            name = legend
            for label in LABEL.findall(legend):
                name = name.replace(f"{{{{{label}}}}}", str(labels.get(label, "")))
            points = [(at - began, float(value)) for at, value in each["values"]]
            found.append(Series(name, labels, [point for point in points if point[1] == point[1]]))
    return sorted((one for one in found if one.points), key=lambda one: (-one.points[-1][1], one.name))


def trouble(*, until: float) -> None:
    """What an hour of a busy cluster has, in minutes. One database waits for a Secret that never comes."""
    resources = [
        *(
            resource(DATABASE, "Postgresql", f"orders-{number}", {"storage": {"size": "256Mi"}})
            for number in (1, 2)
        ),
        *(resource(CACHE, "Memcached", f"sessions-{number}", {"size": number}) for number in (1, 2, 3)),
        resource(DATABASE, "Postgresql", "broken", {"passwordSecretRef": {"name": "not-there"}}),
        resource(BACKUP, "Backup", "mydb", backup(), namespace="default"),
    ]
    apply(resources)
    steps = (
        ("delete", "pod", "orders-1-0", f"--namespace={NAMESPACE}", "--wait=false"),
        ("patch", "memcacheds.cache.example.com/sessions-1", f"--namespace={NAMESPACE}", "--type=merge",
         '--patch={"spec":{"size":3}}'),
        ("delete", "statefulset", "orders-2", f"--namespace={NAMESPACE}"),
        ("patch", "postgresqls.database.db.example.com/orders-2", f"--namespace={NAMESPACE}", "--type=merge",
         '--patch={"spec":{"parameters":{"max_connections":60}}}'),
        ("delete", "deployment", "sessions-3", f"--namespace={NAMESPACE}"),
    )  # fmt: skip
    for number, step in enumerate(steps, start=1):
        time.sleep(max(0.0, until - RECORDED * (1 - number / (len(steps) + 1)) - time.time()))
        kubectl(*step)
    time.sleep(max(0.0, until - time.time()))


def resource(version: str, kind: str, name: str, spec: Any, *, namespace: str = NAMESPACE) -> Any:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def backup() -> Any:
    """As in the guide's first example."""
    return {
        "databaseRef": {"name": "mydb", "group": "database.db.example.com"},
        "schedule": "*/2 * * * *",
        "targetURL": "s3://backups/pictures",
        "endpointURL": "https://object-store.object-store.svc:7070",
        "credentialsSecretRef": {"name": "object-store-keys"},
        "caSecretRef": {"name": "object-store-ca"},
        "verify": {"schedule": "0 5 * * 0"},
    }


def apply(resources: list[Any]) -> None:
    kubectl(
        "apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": resources})
    )


def kubectl(*words: str, stdin: str | None = None) -> str:
    """Its standard output; CalledProcessError, with what it said on standard error, where it fails."""
    done = subprocess.run(
        ["kubectl", f"--context={CONTEXT}", *words],
        input=stdin, stdout=subprocess.PIPE, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


@contextmanager
def proxy() -> Iterator[int]:
    """The port of `kubectl proxy`, which lets Prometheus in at the API server."""
    words = ["kubectl", f"--context={CONTEXT}", "proxy", "--port=0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())

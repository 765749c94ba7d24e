"""Clients of a database, a cache and a topic while an operator is upgraded; each counts what it lost.

They run in Pods of the images of a release. Each prints one line of JSON when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infra.manifests import Manifest

SECONDS = 60
DATABASE, CACHE, CONSUMER = "rows", "hits", "reads"
TOPIC = "release-load"
RESOURCES: list[Manifest] = [
    {
        "apiVersion": "database.technotuesday.io/v1",
        "kind": "Postgresql",
        "metadata": {"name": DATABASE, "namespace": "default"},
        "spec": {"storage": {"size": "256Mi"}, "deletionPolicy": "Delete", "defaultUser": "shop"},
    },
    {
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": CACHE, "namespace": "default"},
        "spec": {"size": 1},
    },
    {
        "apiVersion": "pulsar.pulsarconsumer.krvarma.com/v1",
        "kind": "PulsarConsumer",
        "metadata": {"name": CONSUMER, "namespace": "default"},
        "spec": {
            "serverAddress": "pulsar://pulsar.pulsar.svc:6650",
            "topic": TOPIC,
            "subscriptionName": "load",
            "replicas": 1,
        },
    },
]
# Each item is set once; one that is not found was lost, as its cache never evicts so few.
_CACHE = """
import json, socket, sys, time
host, seconds = sys.argv[1], float(sys.argv[2])
link = socket.create_connection((host, 11211), timeout=5)
lines = link.makefile("rb")
items, asked, lost = 200, 0, 0
for number in range(items):
    link.sendall(b"set item-%d 0 0 1\\r\\nx\\r\\n" % number)
    assert lines.readline() == b"STORED\\r\\n"
ends = time.monotonic() + seconds
while time.monotonic() < ends:
    if asked % 50 == 0:  # as a new client does
        link.close()
        link = socket.create_connection((host, 11211), timeout=5)
        lines = link.makefile("rb")
    link.sendall(b"get item-%d\\r\\n" % (asked % items))
    asked += 1
    if lines.readline() == b"END\\r\\n":
        lost += 1
    else:
        lines.readline(), lines.readline()
    time.sleep(0.02)
print(json.dumps({"asked": asked, "lost": lost}))
"""
_PRODUCER = """
import json, sys, time
import pulsar
client = pulsar.Client(sys.argv[1])
producer = client.create_producer(sys.argv[2])
ends, sent = time.monotonic() + float(sys.argv[3]), 0
while time.monotonic() < ends:
    sent += 1
    producer.send(b"load %d" % sent)
    time.sleep(0.05)
client.close()
print(json.dumps({"sent": sent}))
"""


def pods(images: Mapping[str, str]) -> dict[str, Manifest]:
    """The clients by name; `images` are a release's."""
    binding = f"{DATABASE}-binding"
    login = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "username", "PGPASSWORD": "password"}
    env = [_of_secret(name, binding, key) for name, key in {**login, "PGDATABASE": "database"}.items()]
    bench = ["--no-vacuum", "--client=2", f"--time={SECONDS}", "--connect", "--failures-detailed"]
    fill = _container("fill", images["postgres"], ["pgbench", "--initialize", "--quiet"], env)
    consumer = RESOURCES[2]["spec"]
    return {
        "load-database": _pod(_container("load", images["postgres"], ["pgbench", *bench], env), first=fill),
        "load-cache": _pod(
            _container(
                "load",
                images["operator"],
                ["/opt/kindling/bin/python", "-c", _CACHE, f"{CACHE}.default.svc", str(SECONDS)],
            )
        ),
        "load-topic": _pod(
            _container(
                "load",
                images["pulsar-consumer"],
                ["python3", "-c", _PRODUCER, consumer["serverAddress"], TOPIC, str(SECONDS)],
            )
        ),
    }


def _of_secret(name: str, secret: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _container(name: str, image: str, command: list[str], env: list[dict[str, Any]] | None = None) -> Any:
    return {"name": name, "image": image, "command": command, "env": env or []}


def _pod(container: Any, *, first: Any = None) -> Manifest:
    spec = {"restartPolicy": "Never", "containers": [container], "initContainers": [first] if first else []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default"}, "spec": spec}


def as_list(items: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

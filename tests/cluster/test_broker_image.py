"""The image `pulsar` on a container engine: what a topic has stays until it is read. No cluster."""

from __future__ import annotations

import re
import secrets
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar

from infra.components.images import BROKER
from infra.drivers.engine import ContainerEngine
from tests.apiserver.support.audit import wait_until
from tests.cluster.built_image import built
from tests.ports import free_ports

CONFIGURATION = "/opt/pulsar/conf/standalone.conf"
HOST = "127.0.0.1"
SWEEP_SECONDS = 1.0
"""Between two looks of the bookie for ledgers that are not there any more; in the image, five minutes."""


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Its address. Its configuration is the image's own, but for ports and how often it sweeps."""
    engine = ContainerEngine.detect()
    name = f"kindling-broker-{secrets.token_hex(4)}"
    image = built(engine, BROKER, name)
    port, http = free_ports(2)
    text = engine.run("run", "--rm", "--entrypoint=cat", image, CONFIGURATION)
    for key, value in {
        "brokerServicePort": port,
        "webServicePort": http,
        "gcWaitTime": round(SWEEP_SECONDS * 1000),
    }.items():
        text, count = re.subn(rf"(?m)^{key}=.*$", f"{key}={value}", text)
        assert count == 1, key
    file = folder / "standalone.conf"
    file.write_text(text)
    file.chmod(0o644)
    engine.run(
        "run", "--detach", "--name", name, "--network=host", f"--volume={file}:{CONFIGURATION}:ro",
        image, f"--advertised-address={HOST}",
    )  # fmt: skip

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{http}/admin/v2/brokers/health", timeout=5):
                return True
        except OSError:
            return False

    try:
        wait_until(ready, seconds=120, what=lambda: engine.run("logs", "--tail=20", name))
        yield f"pulsar://{HOST}:{port}"
    finally:
        engine.run("rm", "--force", name)
        engine.run("rmi", "--force", image)


def test_a_new_topic_keeps_its_messages_until_somebody_reads_them(tmp_path: Path) -> None:
    """The bookie has swept since each of them was made."""
    topics = [f"new-{number}" for number in range(3)]
    with broker(tmp_path) as address:
        client = pulsar.Client(address, operation_timeout_seconds=10)
        try:
            for topic in topics:
                client.create_producer(topic).send(topic.encode())
                time.sleep(SWEEP_SECONDS)
            time.sleep(4 * SWEEP_SECONDS)
            for topic in topics:
                consumer = client.subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest)
                assert consumer.receive(timeout_millis=10_000).data() == topic.encode()
        finally:
            client.close()

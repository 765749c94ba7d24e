"""`python3 -m infra handler`: a file on this machine handles the messages of a topic in the cluster."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.consumers import produce
from tests.cluster.stack import STACK, Environment, within
from tests.cluster.test_dev import wait_logged

SECONDS = 180.0
HANDLER = """
def handle(message):
    print({word!r}, message.data().decode())
"""


def test_a_file_handles_messages_and_each_change_is_taken_up(
    environment: Environment, tmp_path: Path
) -> None:
    log, file = tmp_path / "log", tmp_path / "code" / "orders.py"
    file.parent.mkdir()
    file.write_text(HANDLER.format(word="first"))
    topic = f"laptop-{os.urandom(3).hex()}"
    produce(environment, topic=topic, count=1, message="before")
    words = ("handler", str(file), "--topic", topic, "--earliest", "--stack", STACK)
    with environment.beside(*words, log=log) as process:
        wait_logged(process, log, "first before")
        file.write_text(HANDLER.format(word="second"))
        wait_logged(process, log, "orders.py has changed: starting again")
        produce(environment, topic=topic, count=1, message="after")
        wait_logged(process, log, "second after")
        file.write_text("this is no Python")
        wait_logged(process, log, "HandlerUnavailable: orders.py cannot be imported")
        file.write_text(HANDLER.format(word="third"))
        produce(environment, topic=topic, count=1, message="again")
        wait_logged(process, log, "third again")
    assert log.read_text().count("first before") == 1
    proxies = ("pods", "--namespace=pulsar", "--selector=app.kubernetes.io/component=proxy")
    within(60, lambda: environment.get(*proxies)["items"] == [])

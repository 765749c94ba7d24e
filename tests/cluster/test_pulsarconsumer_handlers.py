"""Code and services of users on a real broker: at least once, tried before it rolls, given up by reason."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable

import pytest

from tests.cluster.connections import client
from tests.cluster.consumers import (
    KIND,
    SAMPLE,
    Make,
    edit,
    log,
    messages,
    pods,
    printed,
    produce,
    python,
    wait_ready,
)
from tests.cluster.stack import Environment, within
from tests.cluster.test_exporters import reads

KILLING = """
    import os, pathlib
    import pulsar

    flag, point, count = pathlib.Path("/tmp/killed"), os.environ["POINT"], 0
    effects = pathlib.Path("/tmp/effects")
    effects.touch()
    if flag.exists():
        print("killed", flag.read_text(), flush=True)
        print(effects.read_text(), flush=True)

    def die(here):
        global count
        if here == point and not flag.exists():
            count += 1
            if count == 4:
                flag.write_text(here)
                os._exit(137)

    send, acknowledge = pulsar.Producer.send, pulsar.Consumer.acknowledge

    def killing_send(self, *given, **named):
        die("before-output")
        found = send(self, *given, **named)
        die("after-output")
        return found

    def killing_acknowledge(self, *given):
        die("before-acknowledge")
        acknowledge(self, *given)
        die("after-acknowledge")

    pulsar.Producer.send, pulsar.Consumer.acknowledge = killing_send, killing_acknowledge

    def handle(message):
        die("before-handle")
        with effects.open("a") as file:
            print("effect", message.data().decode(), file=file)
        print("effect", message.data().decode(), flush=True)
        die("after-handle")
        return message.data()
"""
POINTS = [f"{when}-{what}" for what in ("handle", "output", "acknowledge") for when in ("before", "after")]


def wait_printed(environment: Environment, name: str, *, by: str, wanted: set[str]) -> None:
    """Until the printer has printed all outputs of this consumer; else what both Pods say.

    A killed container waits for the kubelet's back-off, and twelve Pods share the machine with other tests.
    """
    [pod], [printer] = pods(environment, name), pods(environment, by)
    end = time.monotonic() + 300
    while missing := wanted - set(printed(environment, printer)):
        if time.monotonic() > end:
            said = [f"missing: {sorted(missing)}"]
            for each in (pod, printer):
                said.append(
                    environment.kubectl("get", "pod", each, "-o", "jsonpath={.status.containerStatuses}")
                )
                said.append(environment.kubectl("logs", each, "-c", "consumer", "--tail=40"))
            raise AssertionError("\n".join(said))
        time.sleep(1)


def test_killed_at_any_point_no_message_is_lost(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """Once, at the fourth message: no signal ends process 1 from within, `_exit` does, as abruptly.

    Each output is printed by another consumer. What the killed container did is said by the next one, from
    files that outlast it: the kubelet does not always keep a record of a container that ended, nor its log.
    """
    code, count = put(KILLING), 200
    wanted = {f"hello {number}" for number in range(1, count + 1)}
    killed, printers = {}, {}
    for point in POINTS:
        topic = f"out-{os.urandom(3).hex()}"
        env = [{"name": "POINT", "value": point}]
        killed[point] = make(handler=python(code, concurrency=3), output={"topic": topic}, env=env)
        printers[point] = make(topic=topic)
    for name in (*killed.values(), *printers.values()):
        wait_ready(environment, name)
    for name in killed.values():
        produce(environment, topic=name, count=count)
    for point in POINTS:
        wait_printed(environment, killed[point], by=printers[point], wanted=wanted)
        [pod] = pods(environment, killed[point])
        state = environment.get("pod", pod)["status"]["containerStatuses"][0]
        assert state["restartCount"] == 1, (point, state)
        said = environment.kubectl("logs", pod, "-c", "consumer", "--tail=-1").splitlines()
        assert said.count(f"killed {point}") == 1, (point, state)
        assert wanted <= {line.removeprefix("effect ") for line in said}, point


def test_dead_letter_says_why_how_often_and_which_message(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """And the page for Prometheus has the same, for whoever is in the cluster."""
    failing = put(
        """
        from pulsar_consumer.handler import Reject

        def handle(message):
            if message.data() == b"hello 2":
                raise ValueError("two")
            if message.data() == b"hello 3":
                raise Reject("three")
        """
    )
    showing = put(
        """
        def handle(message):
            print(message.data().decode(), sorted(message.properties().items()), flush=True)
        """
    )
    dead = f"dead-{os.urandom(3).hex()}"
    retry = {"maxDeliveries": 2, "backoff": {"initialSeconds": 1}}
    name = make(handler=python(failing), deadLetter={"topic": dead}, retry=retry, metrics={"enabled": True})
    reader = make(topic=dead, handler=python(showing))
    wait_ready(environment, name)
    wait_ready(environment, reader)
    produce(environment, topic=name, count=5)
    within(60, lambda: log(environment, reader).count("DEAD_LETTER_REASON") == 2)
    shown = {line[:7]: line for line in log(environment, reader).splitlines() if "DEAD_LETTER" in line}
    for words in ("'MaxDeliveries'", "'ValueError: two'", "('DEAD_LETTER_DELIVERIES', '2')", f"/{name}'"):
        assert words in shown["hello 2"]
    for words in ("'Rejected'", "'Reject: three'", "('DEAD_LETTER_DELIVERIES', '1')", "'printers'"):
        assert words in shown["hello 3"]
    assert re.search(r"'ORIGIN_MESSAGE_ID', '\d+:\d+:-1'", shown["hello 2"])
    [pod] = pods(environment, name)
    host = environment.get("pod", pod)["status"]["podIP"]
    with client(environment, namespace="kube-public") as outsider:
        outsider.reaches(host, 9151)
        found = reads(environment, outsider, host, port=9151)
        outsider.is_kept_out(host, 8080)
    counted = {
        result: found[f"kindling_consumer_handler_seconds_count result={result}"]
        for result in ("handled", "failed", "rejected", "delayed")
    }
    assert counted == {"handled": 3, "failed": 2, "rejected": 1, "delayed": 0}
    assert found["kindling_consumer_messages_total"] == 5
    assert found["kindling_consumer_messages_held"] == 0
    for reason in ("Rejected", "MaxDeliveries"):
        assert found[f"kindling_consumer_dead_letters_total reason={reason}"] == 1


def test_code_that_does_not_start_leaves_the_old_consumers_running(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    code = put("def handle(message): print('first', message.data().decode(), flush=True)")
    name = make(handler=python(code), replicas=2)
    wait_ready(environment, name)
    old = set(pods(environment, name))
    put("def handle(message:", code)
    wait_ready(environment, name, reason="HandlerUnavailable")
    status = environment.get(f"{KIND}/{name}")["status"]
    conditions = {item["type"]: item for item in status["conditions"]}
    assert "orders.py cannot be imported: SyntaxError" in conditions["Ready"]["message"]
    assert conditions["Available"]["status"] == "True"
    assert old < set(pods(environment, name))
    produce(environment, topic=name, count=20)
    within(60, lambda: log(environment, name).count("first hello") == 20)
    # A container of the old ones that ends starts again with the code that its Pod was made for.
    victim = sorted(old)[0]
    environment.kubectl("exec", victim, "-c", "consumer", "--", "python3", "-c", "import os; os.kill(1, 15)")

    def back() -> bool:
        [container] = environment.get("pod", victim)["status"]["containerStatuses"]
        return bool(container["restartCount"] == 1 and container["ready"])

    within(60, back)
    put("def handle(message): print('second', message.data().decode(), flush=True)", code)
    wait_ready(environment, name)
    assert not old & set(pods(environment, name))
    produce(environment, topic=name, count=20)
    within(60, lambda: log(environment, name).count("second hello") == 20)


def test_code_that_is_not_there_is_waited_for(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    code = f"code-{os.urandom(3).hex()}"
    name = make(handler=python(code))
    wait_ready(environment, name, reason="ConfigMapNotFound")
    assert pods(environment, name) == []
    put("async def handle(message): ...", code)
    wait_ready(environment, name)


SERVICE = """
    import time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    seen = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen[body] = seen.get(body, 0) + 1
            first = seen[body] == 1
            status = {b"hello 1": 503, b"hello 2": 429, b"hello 3": 500}.get(body, 200) if first else 200
            status = 422 if body == b"hello 4" else status
            if body == b"hello 5" and first:
                time.sleep(3)
            self.send_response(status)
            if status in (429, 503):
                self.send_header("Retry-After", "1")
            answer = body.upper() + b" " + self.headers["ce-specversion"].encode()
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def serve():
        ThreadingHTTPServer(("", 8000), Handler).serve_forever()

    serve()
"""


def test_service_gets_cloud_events_and_its_answers_decide(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    word = os.urandom(3).hex()
    service, done, dead = f"service-{word}", f"done-{word}", f"dead-{word}"
    name = make(
        handler={"http": {"serviceRef": {"name": service, "port": 8000}, "timeoutSeconds": 1}},
        output={"topic": done},
        deadLetter={"topic": dead},
        retry={"maxDeliveries": 3},
    )
    wait_ready(environment, name, reason="HandlerUnavailable")
    image = environment.get("deployment", f"{SAMPLE}-deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]["image"]
    labels = {"app": service}
    container = {
        "name": "service",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/code/orders.py"],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "code", "configMap": {"name": put(SERVICE)}}],
    }
    ports = {"selector": labels, "ports": [{"port": 8000}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": service, "labels": labels}, "spec": spec}
    front = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": ports}
    try:
        for body in (pod, front):
            environment.kubectl("apply", "-f", "-", stdin=json.dumps(body))
        # The kubelet starts the consumer again by itself.
        wait_ready(environment, name)
        outputs, letters = make(topic=done), make(topic=dead)
        produce(environment, topic=name, count=8)
        wanted = {f"HELLO {number} 1.0" for number in range(1, 9) if number != 4}
        within(90, lambda: wanted <= set(messages(log(environment, outputs))))
        within(60, lambda: messages(log(environment, letters)) == ["hello 4"])
    finally:
        environment.kubectl("delete", f"pod/{service}", f"service/{service}", "--wait=false")


def ready_message(environment: Environment, name: str) -> str:
    status = environment.get(f"{KIND}/{name}")["status"]
    [found] = [str(item["message"]) for item in status["conditions"] if item["type"] == "Ready"]
    return found


def test_a_message_that_kills_the_process_is_named_and_put_aside(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    """It comes again to each new container, until a topic for dead letters takes it."""
    code = put(
        """
        import ctypes

        def handle(message):
            print(message.message_id(), message.data().decode(), flush=True)
            if message.data() == b"hello 3":
                ctypes.string_at(0)
        """
    )
    name = make(handler=python(code))
    wait_ready(environment, name)
    produce(environment, topic=name, count=5)
    wait_ready(environment, name, reason="PoisonMessage")
    said = re.search(
        r"PoisonMessage: the process has ended 3 times while it handled message (\d+:\d+:-1)\.$",
        ready_message(environment, name),
    )
    assert said
    [pod] = pods(environment, name)
    assert environment.get("pod", pod)["status"]["containerStatuses"][0]["restartCount"] >= 2
    showing = put(
        """
        def handle(message):
            print(message.data().decode(), sorted(message.properties().items()), flush=True)
        """
    )
    dead = f"dead-{os.urandom(3).hex()}"
    reader = make(topic=dead, handler=python(showing))
    wait_ready(environment, reader)
    edit(environment, name, deadLetter={"topic": dead}, retry={"maxDeliveries": 3})
    within(240, lambda: "DEAD_LETTER_REASON" in log(environment, reader))
    [line] = [line for line in log(environment, reader).splitlines() if "DEAD_LETTER_REASON" in line]
    assert line.startswith("hello 3 ")
    for words in (
        "('DEAD_LETTER_REASON', 'MaxDeliveries')",
        "('DEAD_LETTER_DELIVERIES', '3')",
        "'ProcessEnded: the process has ended 3 times while it handled it'",
        f"('ORIGIN_MESSAGE_ID', '{said[1]}')",
    ):
        assert words in line
    wait_ready(environment, name)


def test_a_message_that_fails_while_others_are_handled_is_named_until_it_is_handled(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    """By the consumer's page, which the operator alone may read: nothing ends, and the Pod stays ready."""
    code = put(
        """
        import pathlib

        def handle(message):
            if message.data() == b"hello 2" and not pathlib.Path("/tmp/repaired").exists():
                raise ValueError("canary-77aa")
        """
    )
    name = make(handler=python(code), retry={"backoff": {"maxSeconds": 5}})
    wait_ready(environment, name)
    produce(environment, topic=name, count=5)
    wait_ready(environment, name, reason="PoisonMessage")
    resource = environment.get(f"{KIND}/{name}")
    [found] = resource["status"]["handler"]["poisonMessages"]
    assert f"Message {found['id']} of {found['topic']} has failed with ValueError" in ready_message(
        environment, name
    )
    assert "canary-77aa" not in json.dumps(resource)
    truths = {item["type"]: item["status"] for item in resource["status"]["conditions"]}
    assert (truths["Available"], truths["Degraded"]) == ("True", "True")
    [pod] = pods(environment, name)
    host = environment.get("pod", pod)["status"]["podIP"]
    with client(environment, namespace="kube-public") as outsider:
        outsider.is_kept_out(host, 8080)
    repair = "import pathlib; pathlib.Path('/tmp/repaired').touch()"
    environment.kubectl("exec", pod, "-c", "consumer", "--", "python3", "-c", repair)
    wait_ready(environment, name)
    status = environment.get(f"{KIND}/{name}")["status"]
    assert "poisonMessages" not in status["handler"]
    assert environment.get("pod", pod)["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.thorough
def test_handler_that_fails_on_every_message_is_reported_until_one_is_handled(
    environment: Environment, make: Make, put: Callable[..., str]
) -> None:
    code = put(
        """
        import pathlib

        def handle(message):
            if not pathlib.Path("/tmp/repaired").exists():
                raise ValueError("canary-93b1")
        """
    )
    name = make(handler=python(code))
    wait_ready(environment, name)
    produce(environment, topic=name, count=20)
    wait_ready(environment, name, reason="HandlerFailing")
    resource = environment.get(f"{KIND}/{name}")
    [message] = [item["message"] for item in resource["status"]["conditions"] if item["type"] == "Ready"]
    assert re.search(r"the last with ValueError of message \d+:\d+:-1\.", message)
    assert "canary-93b1" not in json.dumps(resource)  # It might be what a message says.
    [pod] = pods(environment, name)
    repair = "import pathlib; pathlib.Path('/tmp/repaired').touch()"
    environment.kubectl("exec", pod, "-c", "consumer", "--", "python3", "-c", repair)
    wait_ready(environment, name)
    [container] = environment.get("pod", pod)["status"]["containerStatuses"]
    assert container["restartCount"] == 1

"""A handler in a container beside the consumer: the guide's program in Go, and one that a message kills."""

from __future__ import annotations

import os
import re
import textwrap
from typing import Any

import pytest

from infra.bootstrap import image_archive
from infra.bootstrap.toolchain import Toolchain
from infra.bootstrap.toolchain.golang import Go
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.settings import cluster_name
from tests.cluster.consumers import GUIDE, KIND, SAMPLE, Make, edit, log, messages, pods, produce, wait_ready
from tests.cluster.stack import STACK, Environment, within

KILLED = """
    import os, socket, sys
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if body == b"hello 4":
                os._exit(137)
            if body == b"stop serving":
                os.unlink(sys.argv[1])
            answer = body.upper()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def address_string(self):
            return "beside"

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self):
            self.socket.bind(self.server_address)

    Server(sys.argv[1], Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def own_image(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of the guide's program, as its reader builds it, on the node."""
    folder = tmp_path_factory.mktemp("orders")
    [program] = re.findall(r"```go\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (folder / "main.go").write_text(program)
    (folder / "go.mod").write_text("module orders\n\ngo 1.22\n")
    Go.ensure().build(folder=folder, package=".", output=folder / "orders", ldflags="", on_line=None)
    ref = f"localhost/orders:{os.urandom(3).hex()}"
    archive = folder / "image.tar"
    image = image_archive.SmallImage(ref, {"/orders": folder / "orders"}, entrypoint=("/orders",))
    image_archive.write(archive, [image])
    KindCli(Toolchain().ensure("kind"), ContainerEngine.detect()).load(cluster_name(STACK), archive)
    return ref


def python_image(environment: Environment) -> str:
    """The consumers' own, which has Python: any image would do."""
    spec = environment.get("deployment", f"{SAMPLE}-deployment")["spec"]["template"]["spec"]
    return str(spec["containers"][0]["image"])


def beside(environment: Environment, name: str) -> str:
    """All that the resource's programs print now."""
    found = (
        environment.kubectl("logs", pod, "-c", "handler", "--tail=-1") for pod in pods(environment, name)
    )
    return "\n".join(found)


def restarts(environment: Environment, name: str) -> int:
    """How often the kubelet started the program again."""
    [pod] = pods(environment, name)
    statuses = environment.get("pod", pod)["status"]["initContainerStatuses"]
    return sum(status["restartCount"] for status in statuses if status["name"] == "handler")


def condition(environment: Environment, name: str, type: str) -> dict[str, Any]:
    found = environment.get(f"{KIND}/{name}")["status"]["conditions"]
    return next(item for item in found if item["type"] == type)


def test_the_guides_program_gets_each_message_and_a_new_one_rolls(
    environment: Environment, make: Make, own_image: str
) -> None:
    name = make(handler={"container": {"image": own_image}}, replicas=2)
    wait_ready(environment, name)
    produce(environment, topic=name, count=20)
    wanted = {f"hello {number}" for number in range(1, 21)}

    def handled() -> set[str]:
        return set(re.findall(r"\d+:\d+:-?\d+: (hello \d+)$", beside(environment, name), re.MULTILINE))

    within(60, lambda: handled() == wanted)
    old = set(pods(environment, name))
    edit(environment, name, handler={"container": {"args": ["--verbose"]}})
    environment.kubectl(
        "wait", f"{KIND}/{name}", "--for=jsonpath={.status.observedGeneration}=2", "--timeout=60s"
    )
    wait_ready(environment, name)
    within(60, lambda: not old & set(pods(environment, name)))
    produce(environment, topic=name, count=5, message="again")
    within(60, lambda: beside(environment, name).count("again ") == 5)


def test_a_message_that_kills_the_program_is_a_dead_letter_and_no_other_is(
    environment: Environment, make: Make
) -> None:
    """The program leaves its socket's file each time, and binds it again."""
    word = os.urandom(3).hex()
    done, dead = f"done-{word}", f"dead-{word}"
    command = ["python3", "-c", textwrap.dedent(KILLED), "/run/kindling/handler.sock"]
    container = {"image": python_image(environment), "command": command}
    name = make(
        handler={"container": container},
        output={"topic": done},
        deadLetter={"topic": dead},
        retry={"maxDeliveries": 2, "backoff": {"initialSeconds": 1}},
    )
    outputs, letters = make(topic=done), make(topic=dead)
    for each in (name, outputs, letters):
        wait_ready(environment, each)
    [pod] = pods(environment, name)

    def consumer() -> dict[str, Any]:
        """A program that is slower to start than the consumer waits has ended it before, once."""
        statuses = environment.get("pod", pod)["status"]["containerStatuses"]
        return next(status for status in statuses if status["name"] == "consumer")

    before = consumer()["containerID"]
    produce(environment, topic=name, count=30)
    wanted = {f"HELLO {number}" for number in range(1, 31) if number != 4}
    within(180, lambda: wanted <= set(messages(log(environment, outputs))))
    within(60, lambda: "hello 4" in messages(log(environment, letters)))
    assert messages(log(environment, letters)) == ["hello 4"], "those that waited have not failed"
    # The kubelet waits before it starts what has ended twice.
    within(60, lambda: restarts(environment, name) >= 2)
    wait_ready(environment, name)
    assert restarts(environment, name) <= 4, "a start that was quicker than the file's removal ends, too"
    status = consumer()
    assert status["containerID"] == before, f"the consumer went on: {status}"


def test_a_program_that_serves_nothing_is_reported_though_it_runs(
    environment: Environment, make: Make
) -> None:
    command = ["python3", "-c", "import time; time.sleep(3600)"]
    name = make(handler={"container": {"image": python_image(environment), "command": command}})
    wait_ready(environment, name, reason="HandlerUnavailable")
    assert (
        "nobody answers at the socket /run/kindling/handler.sock"
        in condition(environment, name, "Ready")["message"]
    )
    serving = ["python3", "-c", textwrap.dedent(KILLED), "/run/kindling/handler.sock"]
    edit(environment, name, handler={"container": {"command": serving}})
    wait_ready(environment, name)
    # And one that does no longer.
    produce(environment, topic=name, count=1, message="stop serving")
    wait_ready(environment, name, reason="HandlerUnavailable")
    assert " for 3" in condition(environment, name, "Ready")["message"]


def test_a_port_of_the_pod_serves_as_well(environment: Environment, make: Make) -> None:
    code = (
        "import os; from http.server import *\n"
        "class H(BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        body = self.rfile.read(int(self.headers['Content-Length']))\n"
        "        print('at', self.path, body.decode(), flush=True)\n"
        "        self.send_response(204); self.end_headers()\n"
        "HTTPServer(('127.0.0.1', int(os.environ['PULSAR_HANDLER_PORT'])), H).serve_forever()\n"
    )
    container = {
        "image": python_image(environment),
        "command": ["python3", "-c", code],
        "port": 9000,
        "path": "/orders",
    }
    name = make(handler={"container": container})
    wait_ready(environment, name)
    produce(environment, topic=name, count=3)
    within(60, lambda: beside(environment, name).count("at /orders hello") == 3)

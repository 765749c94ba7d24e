"""The way of a message through a real broker as one trace: function, program, dead letter; and a collector
that reads it with the official types of the protocol.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable
from typing import Any

from tests.cluster import client_pod
from tests.cluster.consumers import Make, produce, python, wait_ready
from tests.cluster.stack import Environment, within
from tests.cluster.test_pulsarconsumer_container import beside, python_image

COLLECTOR = """
    import json
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def attributes(items):
        return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in items}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces" and self.headers["Authorization"] == "Bearer canary-93b1"
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in each.scope_spans for span in scope.spans):
                    print(json.dumps({
                        "name": span.name, "trace": span.trace_id.hex(), "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(), "of": attributes(each.resource.attributes),
                        "attributes": attributes(span.attributes),
                    }), flush=True)
            self.send_response(200)
            self.end_headers()

    HTTPServer(("", 4318), Handler).serve_forever()
"""
REFUSES = """
    import os, socket
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            print("traceparent", self.headers["traceparent"], self.headers["ce-traceparent"], flush=True)
            self.send_error(422)

        def address_string(self):
            return "beside"

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self):
            self.socket.bind(self.server_address)

    Server(os.environ["PULSAR_HANDLER_SOCKET"], Handler).serve_forever()
"""
CODE = """
    from opentelemetry import trace

    def handle(message):
        with trace.get_tracer("shop").start_as_current_span("look up"):
            return message.data()
"""


def test_the_way_of_a_message_is_one_trace(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    word, image = os.urandom(3).hex(), python_image(environment)
    found, dead = f"found-{word}", f"dead-{word}"
    container = {
        "image": image,
        "command": ["python3", "-c", textwrap.dedent(COLLECTOR)],
        "readinessProbe": {"tcpSocket": {"port": 4318}, "periodSeconds": 1},
    }
    with client_pod.running(environment, "collector", container) as collector:
        pod = environment.get("pod", collector)
        address = pod["status"]["podIP"]
        env = [
            {"name": "TOKEN", "value": "canary-93b1"},
            {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": "authorization=Bearer%20$(TOKEN)"},
            {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": f"http://{address}:4318"},
            {"name": "OTEL_BSP_SCHEDULE_DELAY", "value": "200"},
        ]
        program = {"image": image, "command": ["python3", "-c", textwrap.dedent(REFUSES)]}
        first = make(handler=python(put(CODE)), output={"topic": found}, env=env)
        second = make(topic=found, handler={"container": program}, deadLetter={"topic": dead}, env=env)
        third = make(topic=dead, env=env)
        for each in (first, second, third):
            wait_ready(environment, each)
        produce(environment, topic=first, count=1)

        def spans() -> list[dict[str, Any]]:
            lines = environment.kubectl("logs", collector, "--tail=-1").splitlines()
            return [json.loads(line) for line in lines if line.startswith("{")]

        within(90, lambda: len(spans()) == 4)
        by_service = {(each["of"]["service.name"], each["name"]): each for each in spans()}
        said = beside(environment, second)
    names = [
        (first, f"process persistent://public/default/{first}"),
        (first, "look up"),
        (second, f"process persistent://public/default/{found}"),
        (third, f"process persistent://public/default/{dead}"),
    ]
    handled, own, refused, printed = (by_service[name] for name in names)
    assert {each["trace"] for each in by_service.values()} == {handled["trace"]}
    parents = [each["parent"] for each in (handled, own, refused, printed)]
    assert parents == ["", handled["span"], handled["span"], refused["span"]]
    outcomes = [each["attributes"]["kindling.message.outcome"] for each in (handled, refused, printed)]
    assert outcomes == ["acknowledged", "dead_letter", "acknowledged"]
    assert refused["attributes"]["error.type"] == "422"
    [headers] = re.findall(r"traceparent 00-(\w+)-(\w+)-\w+ 00-(\w+)-(\w+)-\w+", said)
    assert headers == (handled["trace"], refused["span"], handled["trace"], handled["span"])
    assert handled["of"]["k8s.namespace.name"] == pod["metadata"]["namespace"]

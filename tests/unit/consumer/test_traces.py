"""What handling a message leaves in its trace, what never gets in there; no message waits for a collector."""

from __future__ import annotations

import inspect
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pulsar
import pytest
from kindling.telemetry import export as operators_export
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from pulsar_consumer import trace_export, tracing
from pulsar_consumer.failing import Failing
from pulsar_consumer.handler import Delayed, Failed, Handled, Mismatched, Rejected, Verdict
from pulsar_consumer.handling import lanes
from pulsar_consumer.http_handler import verdict_of
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.python_handler import digest
from pulsar_consumer.recent import Recent
from pulsar_consumer.sdk_tracer import SdkTracer, attributes_of, provider
from pulsar_consumer.unfinished import Unfinished
from pulsar_consumer.work import Work

from infra.paths import REPOSITORY
from tests.otlp import Collector, Received, collector
from tests.ports import free_port
from tests.unit.consumer.messages import Message, Record
from tests.unit.consumer.test_http_handler import NOW
from tests.unit.consumer.test_work import SETTINGS, within

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b9c7c989f97918e1"
CAME = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1", "a": "1"}
SECONDS = 30.0


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans: InMemorySpanExporter) -> Iterator[SdkTracer]:
    made = provider(InMemorySpanExporter(), {})
    made.add_span_processor(SimpleSpanProcessor(spans))
    yield SdkTracer(made, subscription="workers")
    made.shutdown()


def work(
    tracer: tracing.Tracer, tmp_path: Path, record: Record, handler: Callable[[Any], Verdict], *taken: Message
) -> Work:
    made = Work(
        SETTINGS.__class__(**{**vars(SETTINGS), "output_topic": "done", "dead_letter_topic": "dead"}),
        handler,
        record,
        subscription="workers",
        send=record.send,
        lane_of=lanes("Shared"),
        failing=Failing(tmp_path / "marker"),
        unfinished=Unfinished(tmp_path / "calls", slots=4, termination_log=tmp_path / "log"),
        recent=Recent(),
        metrics=Metrics(),
        tracer=tracer,
    )
    for message in taken:
        made.take(message)
    return made


def parent_of(properties: Mapping[str, str]) -> tuple[str, str]:
    """The trace and the span that a message or a request was caused by."""
    _, of_trace, of_span, _ = properties["traceparent"].split("-")
    return of_trace, of_span


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def test_each_call_is_a_span_below_the_one_that_sent_the_message(
    tracer: SdkTracer, spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    verdicts: list[Verdict] = [
        Failed("ValueError: s3cret", "ValueError"),
        Delayed(0.01, "s3cret"),
        Handled(b"out"),
    ]
    record, message = Record(), Message(payload=b"s3cret", key="s3cret", sent=CAME, entry=4, redelivered=2)
    handled = work(tracer, tmp_path, record, lambda message: verdicts.pop(0), message)
    within(5, lambda: len(spans.get_finished_spans()) == 3)
    handled.stop()
    found = spans.get_finished_spans()
    for number, span in enumerate(found, start=1):
        said = dict(span.attributes or {})
        assert (span.name, span.kind) == ("process persistent://public/default/t", SpanKind.CONSUMER)
        assert span.parent is not None
        assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
        assert [f"{link.context.span_id:016x}" for link in span.links] == [SPAN]
        common = {
            "messaging.system": "pulsar",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": "persistent://public/default/t",
            "messaging.destination.subscription.name": "workers",
            "messaging.message.id": "7:4:-1",
            "kindling.message.delivery": number,
            "kindling.message.redeliveries": 2,
        }
        assert common.items() <= said.items()
        assert set(said) - set(common) <= {
            "error.type",
            "kindling.handler.result",
            "kindling.message.outcome",
            "kindling.message.retry_seconds",
        }
    attributes = [dict(span.attributes or {}) for span in found]
    assert [each.get("error.type") for each in attributes] == ["ValueError", None, None]
    assert [span.status.is_ok for span in found] == [False, True, True]
    assert [span.status.description for span in found] == [None] * 3
    assert [each["kindling.handler.result"] for each in attributes] == ["failed", "delayed", "handled"]
    assert [each["kindling.message.outcome"] for each in attributes] == ["retried", "retried", "acknowledged"]
    assert [each.get("kindling.message.retry_seconds") for each in attributes] == [0.01, 0.01, None]
    [(_, arguments)] = record.sent("done")
    assert parent_of(arguments["properties"]) == ids(found[-1])
    assert (arguments["properties"]["tracestate"], arguments["properties"]["a"]) == ("vendor=1", "1")
    assert not any(span.events for span in found)
    assert "s3cret" not in "".join(span.to_json() for span in found)


@pytest.mark.parametrize(
    ("verdict", "error", "reason"),
    [
        (Rejected("never", "Reject"), "Reject", "Rejected"),
        (Mismatched("field 'id' is missing"), "SchemaMismatch", "SchemaMismatch"),
        (Failed("without a class"), "_OTHER", "MaxDeliveries"),
    ],
)
def test_a_dead_letter_says_by_which_span_it_is_one(
    tracer: SdkTracer, spans: InMemorySpanExporter, tmp_path: Path, verdict: Verdict, error: str, reason: str
) -> None:
    record = Record()
    handled = work(tracer, tmp_path, record, lambda message: verdict, Message(sent={"tracestate": "stale=1"}))
    within(5, lambda: record.acknowledged() != [])
    handled.stop()
    within(
        5,
        lambda: (
            "dead_letter"
            in [
                (span.attributes or {}).get("kindling.message.outcome") for span in spans.get_finished_spans()
            ]
        ),
    )
    last = spans.get_finished_spans()[-1]
    said = dict(last.attributes or {})
    assert (said["error.type"], said["kindling.message.dead_letter_reason"]) == (error, reason)
    assert (last.parent, last.links, last.status.is_ok) == (None, (), False)
    [(_, arguments)] = record.sent("dead")
    assert parent_of(arguments["properties"]) == ids(last)
    assert "tracestate" not in arguments["properties"], "it belongs to a trace that is not this one"


def test_what_the_broker_did_not_take_is_the_spans_error(
    tracer: SdkTracer, spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    for failure, error, outcome in (
        (pulsar.ConnectError(), "ConnectError", None),
        (pulsar.MessageTooBig(), "MessageTooBig", "retried"),
    ):
        spans.clear()
        handled = work(tracer, tmp_path, Record(failure=failure), lambda message: Handled(b"out"), Message())
        within(5, lambda: spans.get_finished_spans() != ())
        handled.stop()
        said = dict(spans.get_finished_spans()[0].attributes or {})
        assert (said["error.type"], said.get("kindling.message.outcome")) == (error, outcome)


def test_of_a_partition_the_topic_is_named() -> None:
    said = attributes_of(
        Message(topic="persistent://public/default/t-partition-3"), subscription="s", delivery=1
    )
    assert said["messaging.destination.name"] == "persistent://public/default/t"
    assert said["messaging.destination.partition.id"] == "3"


@pytest.mark.parametrize("given", ["", "00-1-2-01", f"00-{'0' * 32}-{SPAN}-01", "s3cret"])
def test_what_is_no_traceparent_begins_a_trace(
    tracer: SdkTracer, spans: InMemorySpanExporter, given: str
) -> None:
    with tracer.processing(Message(sent={"traceparent": given}), delivery=1) as span:
        carried = span.carried({"traceparent": given})
    [found] = spans.get_finished_spans()
    assert (found.parent, found.links) == (None, ())
    assert parent_of(carried) == ids(found)


def test_a_trace_that_its_producer_does_not_keep_is_not_kept_here(
    tracer: SdkTracer, spans: InMemorySpanExporter
) -> None:
    with tracer.processing(Message(sent={"traceparent": f"00-{TRACE}-{SPAN}-00"}), delivery=1) as span:
        carried = span.carried({})
    assert spans.get_finished_spans() == ()
    assert carried["traceparent"].startswith(f"00-{TRACE}-")
    assert carried["traceparent"].endswith("-00")


def test_users_own_traceparent_stays_in_what_they_publish(tracer: SdkTracer) -> None:
    record, own = Record(), f"00-{TRACE}-{'1' * 16}-01"
    publish = tracer.publishing(record.send)
    with tracer.processing(Message(sent=CAME), delivery=1):
        for properties in ({"traceparent": own}, dict(CAME), {"b": "2"}):
            publish("t", b"", {"properties": properties, "partition_key": "k"})
        publish("t", b"", {})
        current = f"{trace.get_current_span().get_span_context().span_id:016x}"
    publish("t", b"", {})
    sent = [arguments for _, arguments in record.sent("t")]
    assert sent[0] == {"properties": {"traceparent": own}, "partition_key": "k"}
    assert [parent_of(each["properties"])[1] for each in sent[1:4]] == [current] * 3
    assert (sent[1]["properties"]["a"], sent[2]["properties"]["b"]) == ("1", "2")
    assert sent[4] == {}, "outside of a message there is nothing to carry"


def test_a_status_is_the_type_of_its_error() -> None:
    for status in (404, 500):
        verdict = verdict_of(status, "words", retry_after=None, body=b"", now=NOW)
        assert isinstance(verdict, Failed | Rejected)
        assert verdict.error_type == str(status)


def test_variables_are_read_as_the_operator_reads_them() -> None:
    """A user who knows one knows both."""
    mark = "from __future__"
    ours = REPOSITORY / "operator/images/pulsar-consumer/pulsar_consumer/trace_settings.py"
    theirs = REPOSITORY / "operator/src/kindling/telemetry/settings.py"
    assert ours.read_text().partition(mark)[2] == theirs.read_text().partition(mark)[2]


@pytest.mark.parametrize("name", ["_Reason", "_without_value", "without_headers"])
def test_what_keeps_headers_out_of_the_log_is_as_the_operator_has_it(name: str) -> None:
    ours, theirs = getattr(trace_export, name), getattr(operators_export, name)
    assert inspect.getsource(ours) == inspect.getsource(theirs)


@dataclass
class Process:
    """The consumer's, with what it says."""

    popen: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(json.loads(line) if line.startswith("{") else {"printed": line.strip()})

    def acknowledged(self) -> list[int]:
        return [line["acknowledged"] for line in list(self.lines) if "acknowledged" in line]

    def sent(self, topic: str) -> list[dict[str, str]]:
        """The properties of each."""
        return [line["properties"] for line in list(self.lines) if line.get("topic") == topic]

    def end(self) -> tuple[float, str]:
        """The seconds that it took, and the log."""
        began = time.monotonic()
        self.popen.send_signal(signal.SIGTERM)
        assert self.popen.stderr is not None
        error = self.popen.stderr.read()
        assert self.popen.wait(SECONDS) == 0, error
        return time.monotonic() - began, error


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """The process with these messages, and variables beside its own."""
    made: list[Process] = []

    def start(messages: list[dict[str, Any]], *, code: str = "", **env: str) -> Process:
        if code:
            (tmp_path / "files").mkdir(exist_ok=True)
            (tmp_path / "files" / "orders.py").write_text(code)
            env |= {
                "PULSAR_HANDLER_PYTHON": env.get("PULSAR_HANDLER_PYTHON", "orders:handle"),
                "PULSAR_HANDLER_HASH": digest({"orders.py": code.encode()}),
                "PULSAR_HANDLER_FILES": str(tmp_path / "files"),
            }
        own = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "MESSAGES": json.dumps(messages),
            "PULSAR_SERVER": "pulsar://localhost:6650",
            "PULSAR_TOPIC": "t",
            "PULSAR_SUBSCRIPTION_NAME": "workers",
            "PULSAR_HEALTH_PORT": str(free_port()),
            "PULSAR_TERMINATION_LOG": str(tmp_path / "termination-log"),
            "PULSAR_REPORTED_MARKER": str(tmp_path / "reported"),
            "PULSAR_HANDLER_COPIES": str(tmp_path / "copies"),
            "PULSAR_HANDLER_MARKER": str(tmp_path / "marker"),
            "PULSAR_HANDLER_CALLS": str(tmp_path / "calls"),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.consumer.traced_process"],
            cwd=REPOSITORY,
            env={**own, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        made.append(Process(process))
        return made[-1]

    yield start
    for each in made:
        each.popen.kill()
        each.popen.wait(10)


def spans_of(running: Collector, count: int) -> dict[str, Received]:
    """By name; each is of the trace of the message."""
    within(SECONDS, lambda: len(running.spans()) >= count)
    found = {each.name: each for each in running.spans()}
    assert len(found) == len(running.spans()) == count
    assert {each.trace for each in found.values()} == {TRACE}
    return found


PROCESS = "process persistent://public/default/t"
CODE = """
import asyncio
from opentelemetry import trace

tracer = trace.get_tracer("shop")

def handle(message):
    with tracer.start_as_current_span("look up"):
        return "out"

async def handle_async(message):
    await asyncio.sleep(0.01)
    with tracer.start_as_current_span("look up"):
        await asyncio.sleep(0.01)
    return "out"

class Enricher:
    def process(self, input, context):
        with tracer.start_as_current_span("look up"):
            context.publish("elsewhere", "x", properties={"b": "2"})
        return "out"
"""


@pytest.mark.parametrize("name", ["handle", "handle_async", "Enricher"])
def test_spans_of_users_code_are_below_the_messages_and_are_exported_with_them(
    start: Start, name: str
) -> None:
    with collector() as running:
        process = start(
            [{"payload": "s3cret", "properties": CAME}],
            code=CODE,
            PULSAR_HANDLER_PYTHON=f"orders:{name}",
            PULSAR_OUTPUT_TOPIC="done",
            OTEL_EXPORTER_OTLP_ENDPOINT=running.endpoint,
            OTEL_BSP_SCHEDULE_DELAY="20",
            OTEL_RESOURCE_ATTRIBUTES="team=shop",
            PULSAR_CONSUMER_NAME="orders",
            PULSAR_CONSUMER_NAMESPACE="shop",
        )
        found = spans_of(running, 2)
        assert process.end()[0] < 10
    of_message, own = found[PROCESS], found["look up"]
    assert of_message.span.parent_span_id.hex() == SPAN
    assert own.span.parent_span_id == of_message.span.span_id
    assert of_message.span.kind == of_message.span.SPAN_KIND_CONSUMER
    assert of_message.attributes["kindling.message.outcome"] == "acknowledged"
    assert process.acknowledged() == [0]
    [out] = process.sent("done")
    assert parent_of(out) == (TRACE, of_message.span.span_id.hex())
    for published in process.sent("elsewhere"):
        assert published["b"] == "2"
        assert parent_of(published) == (TRACE, own.span.span_id.hex())
    assert len(process.sent("elsewhere")) == (name == "Enricher")
    wanted = {
        "service.name": "orders",
        "service.namespace": "shop",
        "k8s.namespace.name": "shop",
        "team": "shop",
    }
    assert wanted.items() <= of_message.resource.items()
    assert of_message.resource["k8s.pod.name"] == of_message.resource["service.instance.id"] != ""
    assert not any(b"s3cret" in body for _, body in running.requests)


class _Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def service(path: Path | None) -> Iterator[tuple[dict[str, str], list[dict[str, str]]]]:
    """The consumer's variables for it, and the headers of each request."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "somebody"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(418)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler) if path is None else _Unix(str(path), Handler)
    with made as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if path is None:
            env = {"PULSAR_HANDLER_URL": f"http://127.0.0.1:{server.server_address[1]}/"}
        else:
            env = {
                "PULSAR_HANDLER_URL": "http://localhost/",
                "PULSAR_HANDLER_SOCKET": str(path),
                "PULSAR_HANDLER_BESIDE": "true",
            }
        yield env, asked
        server.shutdown()


@pytest.mark.parametrize("by_socket", [False, True])
def test_a_service_gets_the_span_as_a_header_and_the_producers_as_an_extension(
    start: Start, tmp_path: Path, by_socket: bool
) -> None:
    """As CloudEvents has it: the extension is where the event's way began, the header its last step."""
    with collector() as running, service(tmp_path / "s" if by_socket else None) as (env, asked):
        process = start(
            [{"payload": "x", "properties": CAME}],
            **env,
            PULSAR_DEAD_LETTER_TOPIC="dead",
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_EXPORTER_OTLP_ENDPOINT=running.endpoint,
            OTEL_BSP_SCHEDULE_DELAY="20",
        )
        found = spans_of(running, 1)[PROCESS]
        process.end()
    [headers] = asked
    assert parent_of(headers) == (TRACE, found.span.span_id.hex())
    assert headers["tracestate"] == "vendor=1"
    assert headers["ce-traceparent"] == CAME["traceparent"]
    assert headers["ce-tracestate"] == "vendor%3D1" or headers["ce-tracestate"] == "vendor=1"
    assert found.failed
    assert found.attributes["error.type"] == "418"
    [dead] = process.sent("dead")
    assert parent_of(dead) == (TRACE, found.span.span_id.hex())


def test_what_is_printed_is_traced_too(start: Start) -> None:
    with collector() as running:
        process = start(
            [{"payload": "x", "properties": CAME}],
            OTEL_EXPORTER_OTLP_ENDPOINT=running.endpoint,
        )
        within(SECONDS, lambda: process.acknowledged() == [0])
        process.end()  # what was not sent yet is sent now
        found = spans_of(running, 1)[PROCESS]
    assert found.attributes["kindling.message.outcome"] == "acknowledged"


def test_a_collector_that_hangs_keeps_no_message_and_not_the_end(start: Start) -> None:
    """Far more spans than the queue takes, while the one request that is under way gets no answer."""
    with collector() as running:
        running.hangs.set()
        process = start(
            [{"payload": "x"}] * 500,
            code="def handle(message): ...",
            OTEL_EXPORTER_OTLP_ENDPOINT=running.endpoint,
            OTEL_BSP_MAX_QUEUE_SIZE="64",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="16",
            OTEL_BSP_SCHEDULE_DELAY="20",
        )
        assert running.held.wait(SECONDS)
        within(SECONDS, lambda: len(process.acknowledged()) == 500)
        seconds, log = process.end()
        assert running.requests == []
    assert 2.5 < seconds < 8
    assert "traces: what was not sent after 3 s is lost" in log
    assert "Queue full" not in log


def test_a_collector_that_is_away_takes_one_line_and_counts(start: Start) -> None:
    port, secret = free_port(), "canary-93b1"
    process = start(
        [{"payload": "x"}] * 20,
        code="import time\ndef handle(message): time.sleep(0.02)",
        PULSAR_METRICS_PORT=str(port),
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OTEL_EXPORTER_OTLP_HEADERS=f"{secret},authorization={secret}",
        OTEL_BSP_SCHEDULE_DELAY="20",
    )
    within(SECONDS, lambda: len(process.acknowledged()) == 20)
    within(SECONDS, lambda: lost(port) > 0)
    _, log = process.end()
    assert log.count("traces are not exported: ") == 1, log
    assert "has a header that is not name=value" in log
    assert secret not in log


def lost(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        page = answer.read().decode()
    [line] = [
        each for each in page.splitlines() if each.startswith("kindling_consumer_trace_spans_lost_total")
    ]
    return float(line.split()[-1])


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "no traces: OTEL_EXPORTER_OTLP_PROTOCOL='grpc': set it to http/protobuf, which alone is spoken",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "no traces: OTEL_TRACES_EXPORTER='zipkin': set it to one of otlp, console, none",
        ),
    ],
)
def test_a_wrong_variable_is_a_line_and_messages_are_handled(
    start: Start, env: dict[str, str], line: str
) -> None:
    """It may be meant for users' code, which knows more of them than the consumer."""
    process = start([{"payload": "x"}], code="def handle(message): ...", **env)
    within(SECONDS, lambda: process.acknowledged() == [0])
    assert line in process.end()[1]


def test_an_image_without_the_library_handles_messages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pulsar_consumer.sdk_tracer", None)
    monkeypatch.delattr("pulsar_consumer.sdk_tracer", raising=False)
    found = tracing.started({"OTEL_TRACES_EXPORTER": "otlp"}, lost=print)
    assert type(found) is tracing.Tracer
    assert caplog.messages[0].startswith("no traces: ")


def test_without_a_variable_nothing_is_traced_and_nothing_imported() -> None:
    words = (
        "import sys, pulsar_consumer.__main__\n"
        "from pulsar_consumer import tracing\n"
        "found = tracing.started({'OTEL_SERVICE_NAME': 'x'}, lost=print)\n"
        "send = lambda topic, content, arguments: None\n"
        "assert type(found) is tracing.Tracer and found.publishing(send) is send\n"
        "names = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'opentelemetry', 'requests'}))"
    )
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", words], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr

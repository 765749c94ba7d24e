"""What a reconciliation leaves in its trace, what never gets in there; nobody waits for a collector."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from kindling import logs
from kindling.engine.flight_recorder import FlightRecorder
from kindling.engine.metrics import Metrics
from kindling.engine.queue import Queue, Waited
from kindling.engine.store import Key
from kindling.engine.worker import work
from kindling.kinds.base import Done, ExternalResult, RequeueAfter
from kindling.kinds.memcached.stats import StatsRequest
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.kube.client import Client
from kindling.kube.credentials import Credentials
from kindling.kube.errors import NotFound, Rejected, ServerError
from kindling.kube.resources import SECRET, STATEFUL_SET, Ref, ResourceType
from kindling.telemetry import Telemetry, export, settings, started
from kindling.telemetry.opentelemetry import SdkTelemetry, provider
from kindling.telemetry.requests import Target, target
from kopf import ConnectionInfo
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.otlp import Collector, collector
from tests.ports import free_port

TYPE = ResourceType("example.com", "v1", "Toy", "toys")
KEY = Key("toy.example.com", "ns", "x")
CR = {"metadata": {"uid": "u-1", "generation": 3, "resourceVersion": "17", "namespace": "ns", "name": "x"}}
SECONDS = 30.0
ON = {"OTEL_TRACES_EXPORTER": "otlp"}


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(spans: InMemorySpanExporter) -> Iterator[Telemetry]:
    made = provider(InMemorySpanExporter(), namespace="kindling-system", pod="one")
    made.add_span_processor(SimpleSpanProcessor(spans))
    yield SdkTelemetry(made.get_tracer("kindling"))
    made.shutdown()


class Reconciler:
    """In place of the engine's: `course` is all that happens."""

    def __init__(self, telemetry: Telemetry, course: Any) -> None:
        self.kinds = {KEY.group_kind: SimpleNamespace(type=TYPE)}
        self.dependencies = SimpleNamespace(recorder=FlightRecorder(), tracer=telemetry.tracer)
        self._course = course

    async def reconcile(self, key: Key) -> Any:
        self.dependencies.tracer.resource(CR)
        return await self._course()


def reconcile(telemetry: Telemetry, course: Any) -> None:
    """One reconciliation by a worker, of a key that waited for a moment."""

    async def run() -> None:
        queue: Queue[Key] = Queue()
        queue.add(KEY, cause="StatefulSet")
        await asyncio.sleep(0.02)
        working = asyncio.create_task(work(Reconciler(telemetry, course), queue, Metrics()))  # type: ignore[arg-type]
        while not queue.idle:
            await asyncio.sleep(0.005)
        working.cancel()
        queue.shut_down()

    asyncio.run(run())


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = {span.name: span for span in spans.get_finished_spans()}
    assert len(found) == len(spans.get_finished_spans())
    return found


def parent(span: ReadableSpan, of: Mapping[str, ReadableSpan]) -> str | None:
    names = {each.context.span_id: name for name, each in of.items()}
    return names[span.parent.span_id] if span.parent is not None else None


def test_a_reconciliation_is_one_trace_that_begins_with_the_event(
    telemetry: Telemetry, spans: InMemorySpanExporter
) -> None:
    async def course() -> RequeueAfter:
        with telemetry.tracer.step("decide children"):
            pass
        return RequeueAfter(5.0)

    reconcile(telemetry, course)
    found = by_name(spans)
    root, queue, decide = (
        found[name] for name in ("reconcile toy.example.com", "wait in queue", "decide children")
    )
    assert len({span.context.trace_id for span in found.values()}) == 1
    assert dict(root.attributes or {}) == {
        "k8s.namespace.name": "ns",
        "kindling.resource.kind": "toy.example.com",
        "kindling.resource.name": "x",
        "kindling.resource.uid": "u-1",
        "kindling.resource.generation": 3,
        "kindling.resource.version": "17",
        "kindling.reconciliation.result": "requeue_after",
        "kindling.reconciliation.requeue_seconds": 5.0,
    }
    assert dict(queue.attributes or {}) == {"kindling.queue.cause": "StatefulSet"}
    assert parent(queue, found) == parent(decide, found) == root.name
    assert root.parent is None
    first, then = (root.start_time, queue.start_time, queue.end_time), (decide.start_time, decide.end_time)
    times = [at or 0 for at in (*first, *then, root.end_time)]
    assert times == sorted(times)
    assert (queue.end_time or 0) - (queue.start_time or 0) >= 15_000_000
    assert root.resource.attributes["service.name"] == "kindling-operator"
    assert (
        root.resource.attributes["k8s.pod.name"] == root.resource.attributes["service.instance.id"] == "one"
    )


@pytest.mark.parametrize(
    ("error", "type"),
    [
        (Rejected(status=422, reason="Invalid", message="spec.x: Invalid value: 's3cret'"), "Rejected"),
        (KeyError("s3cret"), "KeyError"),
    ],
)
def test_a_failure_has_the_type_of_its_error_and_not_its_message(
    telemetry: Telemetry, spans: InMemorySpanExporter, error: Exception, type: str
) -> None:
    """The API server repeats in its message what it does not like of a spec."""

    async def course() -> None:
        with telemetry.tracer.step("probe"):
            raise error

    reconcile(telemetry, course)
    found = by_name(spans)
    root = found["reconcile toy.example.com"]
    assert not root.status.is_ok
    assert (root.attributes or {})["error.type"] == type
    assert (root.attributes or {})["kindling.reconciliation.result"] == "error"
    assert 0 < (root.attributes or {})["kindling.reconciliation.requeue_seconds"] < 1  # type: ignore[operator]
    assert "s3cret" not in "".join(span.to_json() for span in found.values())


@asynccontextmanager
async def api_server(*statuses: int) -> Any:
    """Answers with these, one after the other; yields a client's credentials and the headers that came."""
    left, came = list(statuses), list[Mapping[str, str]]()

    async def answer(request: web.Request) -> web.Response:
        came.append(request.headers)
        headers = {"Retry-After": "0"} if left[0] == 429 else {}
        return web.json_response({"message": "Invalid value: 's3cret'"}, status=left.pop(0), headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield Credentials(info=ConnectionInfo(server=f"http://127.0.0.1:{port}", token="t0ken")), came
    finally:
        await runner.cleanup()


def test_each_request_to_the_api_server_is_a_span_with_its_answer(
    telemetry: Telemetry, spans: InMemorySpanExporter
) -> None:
    body = {"metadata": {"namespace": "ns", "name": "x"}, "spec": {"password": "s3cret"}}
    came: list[Mapping[str, str]] = []

    async def course() -> Done:
        async with api_server(429, 200, 200, 422, 404, 500) as (credentials, headers):
            async with Client(credentials, middleware=telemetry.middleware) as client:
                await client.apply(STATEFUL_SET, body)
                await client.merge(Ref(TYPE, "ns", "x"), {"status": {"x": "s3cret"}}, subresource="status")
                with pytest.raises(Rejected):
                    await client.create(SECRET, body)
                for error in (NotFound, ServerError):
                    with pytest.raises(error):
                        await client.get(Ref(SECRET, "ns", "x"))
            came.extend(headers)
        return Done()

    reconcile(telemetry, course)
    found = [span for span in spans.get_finished_spans() if span.kind.name == "CLIENT"]
    assert [span.name for span in found] == [
        "apply statefulsets.apps",
        "apply statefulsets.apps",
        "patch toys.example.com/status",
        "create secrets",
        "get secrets",
        "get secrets",
    ]
    said = [dict(span.attributes or {}) for span in found]
    assert [each["http.response.status_code"] for each in said] == [429, 200, 200, 422, 404, 500]
    assert [each.get("error.type") for each in said] == ["429", None, None, "422", None, "500"]
    port = said[1].pop("server.port")
    assert said[1] == {
        "http.request.method": "PATCH",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
        "url.full": f"http://127.0.0.1:{port}/apis/apps/v1/namespaces/ns/statefulsets/x",
        "k8s.namespace.name": "ns",
        "k8s.statefulset.name": "x",
        "kindling.object.name": "x",
        "kindling.object.type": "statefulsets.apps",
        "kindling.request.verb": "apply",
    }
    assert said[2]["kindling.object.subresource"] == "status"
    assert {each["kindling.object.name"] for each in said} == {"x"}
    # What the API server traces of it belongs to the same trace.
    for headers, span in zip(came, found, strict=True):
        ids = f"{span.context.trace_id:032x}-{span.context.span_id:016x}"
        assert headers["traceparent"].startswith(f"00-{ids}-")
    text = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "s3cret" not in text
    assert "t0ken" not in text


def test_a_request_outside_of_a_reconciliation_has_no_span(
    telemetry: Telemetry, spans: InMemorySpanExporter
) -> None:
    async def run() -> None:
        async with (
            api_server(200) as (credentials, headers),
            Client(credentials, middleware=telemetry.middleware) as client,
        ):
            await client.get(Ref(SECRET, "ns", "x"))
            assert "traceparent" not in headers[0]

    asyncio.run(run())
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/api/v1/namespaces/ns/secrets/s", Target("ns", "secrets", "s", "")),
        ("/api/v1/namespaces/ns/secrets", Target("ns", "secrets", "", "")),
        ("/apis/apps/v1/namespaces/ns/deployments/d/scale", Target("ns", "deployments.apps", "d", "scale")),
        ("/apis/apps/v1/deployments", Target("", "deployments.apps", "", "")),
        ("/k8s/clusters/c-1/api/v1/namespaces/ns/pods/p", Target("ns", "pods", "p", "")),
        ("/api/v1/namespaces/ns", Target("", "namespaces", "ns", "")),
        ("/version", Target("", "", "", "")),
        ("/", Target("", "", "", "")),
    ],
)
def test_the_object_of_a_path(path: str, wanted: Target) -> None:
    assert target(path) == wanted


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (ExternalResult(ok=True), None, None),
        (ExternalResult(ok=False, reason="LoginFailed", message="s3cret"), "LoginFailed", "LoginFailed"),
        (None, "no_answer", None),
    ],
)
def test_a_probe_has_its_server_and_its_outcome_and_no_message(
    telemetry: Telemetry,
    spans: InMemorySpanExporter,
    answer: ExternalResult | None,
    error: str | None,
    reason: str | None,
) -> None:
    async def send(request: Any) -> ExternalResult | None:
        return answer

    ask = telemetry.probes(send)
    request = StatsRequest(namespace="ns", host="x.ns.svc", port=11211)

    async def course() -> Done:
        with telemetry.tracer.step("probe"):
            assert await ask(request) is answer
        return Done()

    reconcile(telemetry, course)
    found = by_name(spans)
    span = found["probe memcached"]
    assert parent(span, found) == "probe"
    wanted = {
        "k8s.namespace.name": "ns",
        "kindling.probe.protocol": "memcached",
        "db.system.name": "memcached",
        "server.address": "x.ns.svc",
        "server.port": 11211,
        "kindling.probe.reason": reason,
        "error.type": error,
    }
    assert dict(span.attributes or {}) == {name: value for name, value in wanted.items() if value is not None}
    assert span.status.is_ok == (error is None)
    assert "s3cret" not in span.to_json()


def test_the_address_of_a_broker_is_a_value_of_the_spec(
    telemetry: Telemetry, spans: InMemorySpanExporter
) -> None:
    request = BacklogRequest(namespace="ns", host="s3cret.example", port=8080, topic="t", subscription="s")

    async def run(request: Any) -> ExternalResult:
        return ExternalResult(ok=True)

    async def course() -> Done:
        await telemetry.actions(run)(request)
        return Done()

    reconcile(telemetry, course)
    span = by_name(spans)["act on backlog"]
    assert (span.attributes or {})["messaging.system"] == "pulsar"
    assert "s3cret" not in span.to_json()


def test_lines_of_a_reconciliation_have_its_trace_and_others_have_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")

    async def run(running: Collector) -> None:
        async with started("otlp", namespace="ns", pod="one", lost=list[int]().append) as telemetry:

            async def course() -> Done:
                logging.getLogger("kindling").info("within")
                return Done()

            await asyncio.to_thread(reconcile, telemetry, course)
            logging.getLogger("kindling").info("outside")
        logging.getLogger("kindling").info("after")

    try:
        with collector() as running:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
            logs.set_up(logging.INFO)
            asyncio.run(run(running))
            root_span = running.trace(lambda span: True, seconds=SECONDS)[0]
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = {line["message"]: line for line in map(json.loads, capsys.readouterr().err.splitlines())}
    within = lines["within"]
    assert (within["trace_id"], within["span_id"]) == (root_span.trace, root_span.span.span_id.hex())
    assert lines["outside"].keys() & logs.TRACE_FIELDS == lines["after"].keys() & logs.TRACE_FIELDS == set()


class Flaky(SpanExporter):
    """Fails as often as is said; says why as the library's exporter does, many times."""

    def __init__(self, *results: bool) -> None:
        self._results = list(results)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._results.pop(0):
            return SpanExportResult.SUCCESS
        log = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        for _ in range(3):
            log.warning("Transient error %s encountered, with t%%6Fken", "Connection refused")
        log.error("Failed to export")
        return SpanExportResult.FAILURE


def test_a_collector_that_is_away_takes_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=t%6Fken")
    span, lost = ReadableSpan("x"), list[int]()
    with caplog.at_level(logging.INFO), export.Export.quiet():
        exporting = export.Export(Flaky(True, False, False, False, True, True, False), lost.append)
        for _ in range(7):
            exporting.export([span])
    assert caplog.messages == [
        "traces are not exported: Transient error Connection refused encountered, with (redacted)",
        "traces are exported again; at least 3 spans were lost",
        "traces are not exported: Transient error Connection refused encountered, with (redacted)",
    ]
    assert lost == [1] * 4


def test_a_header_without_a_name_is_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "s3cret-token")

    async def run() -> None:
        async with started("otlp", namespace="ns", pod="one", lost=list[int]().append):
            pass

    asyncio.run(run())
    assert "has a header that is not name=value" in caplog.text
    assert "s3cret-token" not in caplog.text


def test_a_collector_that_hangs_keeps_no_reconciliation_and_not_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more spans than the queue takes, while the one request that is under way gets no answer."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr(export, "CLOSE_SECONDS", 0.2)
    done, lost, before = 0, list[int](), {*threading.enumerate()}

    async def run() -> float:
        nonlocal done
        async with started("otlp", namespace="ns", pod="one", lost=lost.append) as telemetry:
            for _ in range(500):
                with telemetry.tracer.reconciliation(KEY, Waited(0.0, "timer")):
                    done += 1
                await asyncio.sleep(0)
            ended = time.monotonic()
        return time.monotonic() - ended

    with collector() as running:
        running.hangs.set()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
        with caplog.at_level(logging.INFO):
            asyncio.run(run())
        assert done == 500
        assert running.requests == []
    assert "traces: what was not sent after 0.2 s is lost" in caplog.messages
    assert not [message for message in caplog.messages if "Queue full" in message]
    # The process leaves the threads that send to themselves. Here they would log and print in later tests.
    sending = [thread for thread in {*threading.enumerate()} - before if thread.name != "collector"]
    assert sending
    for thread in sending:
        thread.join(SECONDS)
        assert not thread.is_alive(), thread.name
    assert set(lost) == {16}


@pytest.mark.parametrize(
    ("env", "exporter"),
    [
        ({}, "none"),
        ({"OTEL_SERVICE_NAME": "x"}, "none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}, "otlp"),
        (ON, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "none"),
        ({**ON, "OTEL_SDK_DISABLED": "true"}, "none"),
        ({**ON, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}, "otlp"),
    ],
)
def test_traces_are_on_where_a_variable_asks_for_them(env: dict[str, str], exporter: str) -> None:
    assert settings.exporter(env) == exporter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:port"),
        ("OTEL_TRACES_SAMPLER", "often"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value_and_a_remedy(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}='?{value}'?: set it to "):
        settings.exporter({**ON, name: value})


@pytest.mark.parametrize("value", ["", "2", "-0.1", "nan", "much"])
def test_a_ratio_is_from_nothing_to_all(value: str) -> None:
    with pytest.raises(ValueError, match="OTEL_TRACES_SAMPLER_ARG="):
        settings.exporter({**ON, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": value})


def test_a_process_without_traces_imports_nothing_of_opentelemetry() -> None:
    code = (
        "import asyncio, sys, kindling.__main__\n"
        "from kindling import telemetry\n"
        "async def run():\n"
        "    async with telemetry.started('none', namespace='n', pod='p', lost=print) as off:\n"
        "        assert off.middleware is None and off.probes(run) is run and off.actions(run) is run\n"
        "asyncio.run(run())\n"
        "roots = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(roots & {'opentelemetry', 'requests', 'google'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"

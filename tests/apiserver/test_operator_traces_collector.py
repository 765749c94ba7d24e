"""The real OpenTelemetry Collector takes the operator's traces, and passes them on as they are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import build
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import Tool
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import POSTGRESQL
from tests.apiserver.support.traces import SECONDS, of_creation, traced
from tests.otlp import collector
from tests.ports import free_port, wait_listening

FOLDER = Path(__file__).parent / "otelcol"
KIND = KINDS_BY_NAME[POSTGRESQL.id]


@contextmanager
def otelcol(folder: Path, *, behind: str) -> Iterator[str]:
    """Its endpoint, once it listens; it sends all that it gets to the endpoint `behind`."""
    port = free_port()
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"otlp_http": {"endpoint": behind, "compression": "none"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
        },
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    program = build.build(
        Tool(name="otelcol", version="1", folder=str(FOLDER), package=".", seconds=130), Go.ensure()
    )
    with subprocess.Popen([program, "--config", f"file:{folder / 'config.yaml'}"]) as process:
        try:
            wait_listening(port, process, seconds=SECONDS)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=SECONDS)


@pytest.mark.thorough
def test_the_real_collector_passes_on_what_the_operator_sends(
    running_cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    ref = ref_to(KIND, namespace, "collected")
    with (
        collector() as behind,
        otelcol(tmp_path, behind=behind.endpoint) as endpoint,
        traced(running_cluster, endpoint, {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}) as process,
    ):
        running_cluster.create(KIND, namespace, ref.name, {})
        running_cluster.wait_settled(ref, seconds=SECONDS)
        root, *spans = of_creation(behind, ref)
        assert "traces are not exported" not in process.log()
    assert root.resource["service.name"] == "kindling-operator"
    assert root.attributes["kindling.resource.kind"] == KIND.type.group_kind
    assert {"wait in queue", "decide children", "create services"} <= {span.name for span in spans}

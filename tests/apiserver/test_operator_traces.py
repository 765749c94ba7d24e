"""The traces of the operator's process, as a collector gets them: from an event to the last write."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import pytest
from kindling.kube.resources import SECRET, Ref

from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import POSTGRESQL, REPOSITORY
from tests.apiserver.support.operator_process import OperatorProcess
from tests.apiserver.support.traces import SECONDS, of_creation, traced, with_span
from tests.otlp import Collector, collector, tree

KIND = KINDS_BY_NAME[POSTGRESQL.id]
PLURAL = f"{KIND.type.plural}.{KIND.type.group}"
SECRET_NAMES = ("password", "uri", "tls.key")
PASSWORD, TOKEN, USER = "canary/pass-7Yk2", "canary.token.5Jd8", "canary_user_3mq"
ROOT = f"reconcile {KIND.type.group_kind}"


@pytest.fixture(scope="module")
def running() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture(scope="module")
def process(running_cluster: Cluster, running: Collector) -> Iterator[OperatorProcess]:
    variables = {
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN}",
        "OTEL_SERVICE_NAME": "databases",
    }
    with traced(running_cluster, running.endpoint, variables) as found:
        yield found


@pytest.fixture(scope="module")
def database(running_cluster: Cluster, namespace: str, process: OperatorProcess) -> Ref:
    """A new one, of which nothing changes any more."""
    ref = ref_to(KIND, namespace, "mydb")
    running_cluster.create(KIND, namespace, ref.name, {"password": PASSWORD, "defaultUser": USER})
    running_cluster.wait_settled(ref, seconds=SECONDS)
    return ref


def test_the_course_of_a_new_database(running: Collector, database: Ref, running_cluster: Cluster) -> None:
    root, *spans = of_creation(running, database)
    metadata = (running_cluster.get(database) or {})["metadata"]
    assert root.name == ROOT
    assert root.resource["service.name"] == "databases"
    assert root.resource["k8s.namespace.name"] == "kindling-system"
    attributes = root.attributes
    assert attributes["k8s.namespace.name"] == database.namespace
    assert attributes["kindling.resource.uid"] == metadata["uid"]
    assert attributes["kindling.resource.generation"] == metadata["generation"] == 1
    assert int(attributes["kindling.resource.version"]) <= int(metadata["resourceVersion"])
    assert attributes["kindling.reconciliation.result"] == "requeue_after"
    names = [span.name for span in spans]
    assert {"wait in queue", "read", "get secrets", "probe", "validate", "decide children"} <= set(names)
    (queue,) = [span for span in spans if span.name == "wait in queue"]
    # The resync that follows the start may see it before the watch does.
    assert queue.attributes["kindling.queue.cause"] in ("Postgresql", "resync")
    assert queue.span.start_time_unix_nano == root.span.start_time_unix_nano
    writes = [span for span in spans if span.attributes.get("http.request.method") not in (None, "GET")]
    assert {span.attributes["http.response.status_code"] for span in writes} == {201}
    assert {span.attributes["k8s.namespace.name"] for span in writes} == {database.namespace}
    assert all(span.attributes["kindling.object.name"].startswith(database.name) for span in writes)
    (workload,) = [span for span in writes if span.attributes["kindling.object.type"] == "statefulsets.apps"]
    assert workload.attributes["k8s.statefulset.name"] == database.name
    # Whatever is part of the reconciliation is over before it is.
    last = max(span.span.end_time_unix_nano for span in writes)
    assert root.span.end_time_unix_nano >= last
    assert {span.span.parent_span_id for span in writes} == {root.span.span_id}


def test_the_example_in_the_documents_is_such_a_trace(running: Collector, database: Ref) -> None:
    """Its spans are those of this one, as deep; what is read at once has no order. A failure prints the trace
    for the page.
    """
    found = tree(of_creation(running, database))
    print(found)
    page = (REPOSITORY / "docs/monitoring.md").read_text()
    (example,) = re.findall(r"^```\n(reconcile .*?)\n```$", page, re.MULTILINE | re.DOTALL)
    assert _names(example) == _names(found)


def _names(tree: str) -> list[str]:
    """Each span's line up to its name."""
    return sorted(set(re.findall(r"^ *[a-z]+ ?\S+(?: \S+)*(?=  )", tree, re.MULTILINE)))


def test_the_write_of_a_status_comes_last(running: Collector, database: Ref) -> None:
    written, spans = with_span(running, database, f"patch {PLURAL}/status")
    assert written.attributes["http.response.status_code"] == 200
    assert written.attributes["kindling.object.name"] == database.name
    (decided,) = [span for span in spans if span.name == "decide status"]
    assert decided.span.end_time_unix_nano <= written.span.start_time_unix_nano


def test_what_a_server_was_asked_for_is_in_the_trace(running: Collector, database: Ref) -> None:
    """No server runs here, which its client says at once."""
    asked, spans = with_span(running, database, "act on postgres")
    assert asked.failed
    assert asked.attributes["db.system.name"] == "postgresql"
    assert asked.attributes["kindling.probe.reason"] == asked.attributes["error.type"]
    assert asked.attributes["server.port"] == 5432
    (step, *_) = [span for span in spans if span.span.span_id == asked.span.parent_span_id]
    assert step.name == "act outside"


def test_nothing_secret_is_sent_and_no_user_of_the_spec(
    running: Collector, database: Ref, running_cluster: Cluster
) -> None:
    of_creation(running, database)
    secrets = running_cluster.list(SECRET, database.namespace, selector={})
    data = [item for secret in secrets for item in secret.get("data", {}).items()]
    found = [base64.b64decode(value).decode() for name, value in data if name in SECRET_NAMES]
    assert len(found) > 3
    sent = b"".join(body for _, body in running.requests)
    assert database.name.encode() in sent
    for canary in (PASSWORD, TOKEN, USER, *found):
        assert canary.encode() not in sent, canary
    assert {headers["authorization"] for headers, _ in running.requests} == {f"Bearer {TOKEN}"}


def test_lines_of_the_log_lead_to_the_trace(
    running: Collector, database: Ref, process: OperatorProcess
) -> None:
    root, *_ = of_creation(running, database)
    lines = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    mine = [line["message"] for line in lines if line.get("trace_id") == root.trace]
    assert f"create StatefulSet {database.name}" in mine
    assert [line for line in lines if line["message"] == "became leader" and "trace_id" not in line]


def test_a_collector_that_refuses_is_reported_once_and_gets_what_comes_later(
    running: Collector, database: Ref, process: OperatorProcess, running_cluster: Cluster, namespace: str
) -> None:
    refused, again = "traces are not exported: ", "traces are exported again"
    lost = "kindling_trace_spans_lost_total"
    before = process.value(lost)
    running.answer = 400
    try:
        for number in range(3):
            ref = ref_to(KIND, namespace, f"refused-{number}")
            running_cluster.create(KIND, namespace, ref.name, {})
            running_cluster.wait_settled(ref, seconds=SECONDS)
        wait_until(lambda: refused in process.log(), seconds=SECONDS, what=lambda: process.log()[-2000:])
    finally:
        running.answer = 200
    running_cluster.merge(database, {"metadata": {"labels": {"looked": "at"}}})
    wait_until(lambda: again in process.log(), seconds=SECONDS, what=lambda: process.log()[-2000:])
    assert process.log().count(refused) == 1
    assert f"{refused}Failed to export spans batch code: 400" in process.log()
    (said,) = re.findall(rf"{again}; at least (\d+) spans were lost", process.log())
    assert process.value(lost) - before == int(said) > 0


def test_a_collector_that_hangs_keeps_neither_a_reconciliation_nor_the_end(
    running: Collector, database: Ref, process: OperatorProcess, running_cluster: Cluster, namespace: str
) -> None:
    """It comes last: the request that is under way is given far longer than all that follows takes."""
    running.hangs.set()
    refs = [ref_to(KIND, namespace, f"untraced-{number}") for number in range(5)]
    for ref in refs:
        running_cluster.create(KIND, namespace, ref.name, {})
    running_cluster.wait_settled(*refs, seconds=SECONDS)
    running.held.wait(SECONDS)
    assert process.stop() == 0
    assert "traces: what was not sent after 3 s is lost" in process.log()
    assert TOKEN not in process.log()

"""Prometheus on this machine, as the distribution has it: it scrapes one address each second.

It listens on the loopback alone, and its data ends with the test.
"""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.support.controlplane import background
from tests.ports import free_port

START_SECONDS = 60.0
SCRAPES = 5


@dataclass(frozen=True)
class Prometheus:
    """Its HTTP API."""

    port: int

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer; AssertionError with its words for a query that it rejects."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=30
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The samples of an instant vector, each with its labels."""
        result = self.get("query", query=expression)["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def labels(self, metric: str) -> set[str]:
        """The labels of all series of this metric that it knows."""
        found: list[dict[str, str]] = self.get("series", **{"match[]": metric})
        return {label for series in found for label in series}

    def described(self) -> set[str]:
        """The metrics that the target describes, also those that have no series yet."""
        return {entry["metric"] for entry in self.get("targets/metadata")}


@contextmanager
def prometheus(
    target: str,
    *,
    folder: Path,
    rules: Mapping[str, Any],
    labels: Mapping[str, str],
    honor_labels: bool,
    pods: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Prometheus]:
    """Start it, wait until it has scraped each target (HOST:PORT) a few times, and end it on leaving.

    `labels` are those of the target, as service discovery would set them; `pods` are further targets with
    theirs.
    """
    program = shutil.which("prometheus")
    if program is None:
        pytest.fail("prometheus is missing: `python3 -m infra test` installs it")
    (folder / "rules.json").write_text(json.dumps(rules))
    job = {
        "job_name": "kindling-operator",
        "honor_labels": honor_labels,
        "static_configs": [{"targets": [target], "labels": dict(labels)}],
    }
    others = [{"targets": [each], "labels": dict(theirs)} for each, theirs in (pods or {}).items()]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.json"],
        "scrape_configs": [job, {"job_name": "kindling-exporters", "static_configs": others}],
    }
    (folder / "prometheus.json").write_text(json.dumps(config))
    port = free_port()
    words = [
        program,
        f"--config.file={folder / 'prometheus.json'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with background(words, log=folder / "prometheus.log") as running:
        server, deadline = Prometheus(port), time.monotonic() + START_SECONDS
        while not _has_scraped(server, 1 + len(others)):
            log = (folder / "prometheus.log").read_text()
            assert running.process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.2)
        yield server


def _has_scraped(server: Prometheus, targets: int) -> bool:
    try:
        return len(server.query(f"count_over_time((up == 1)[1m:1s]) >= {SCRAPES}")) == targets
    except OSError:
        return False  # It does not listen yet.
    except AssertionError:
        return False  # It is not ready yet.

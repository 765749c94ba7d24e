"""An S3 server on the loopback, with one bucket: VersityGW over a folder, built like every other tool."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import Toolchain
from infra.errors import KindlingError
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import background
from tests.ports import free_port

USER, PASSWORD = "kindling", "canary-s3-key"
BUCKET = "state"
START_SECONDS = 30.0


@dataclass(frozen=True)
class ObjectStore:
    """`folder` has the bucket's objects as files, `marks` what the server notes of each in a folder."""

    host: str
    folder: Path
    marks: Path

    @property
    def variables(self) -> dict[str, str]:
        """What a client by the AWS SDK needs in its environment."""
        return {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": "us-east-1"}

    @property
    def pulumi_backend(self) -> str:
        return f"s3://{BUCKET}?endpoint={self.host}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    try:
        program = Toolchain().ensure("versitygw")
    except KindlingError as error:
        pytest.fail(f"{error}; `python3 -m infra test` sets it up")
    data, marks = folder / "data", folder / "marks"
    for made in (data / BUCKET, marks):
        made.mkdir(parents=True)
    host = f"127.0.0.1:{free_port()}"
    words: list[str | Path] = [program, "--port", host, "--access", USER, "--secret", PASSWORD, "--quiet"]
    # Not every file system has the attributes that it would keep its marks in.
    with background([*words, "posix", "--sidecar", marks, data], log=folder / "log") as running:

        def answers() -> bool:
            assert running.process.poll() is None, (folder / "log").read_text()
            try:
                connection = http.client.HTTPConnection(host, timeout=5)
                connection.request("GET", "/")
                return connection.getresponse().status == 403  # it knows nobody without a key
            except OSError:
                return False

        wait_until(answers, seconds=START_SECONDS, what=(folder / "log").read_text)
        yield ObjectStore(host, data / BUCKET, marks / BUCKET)

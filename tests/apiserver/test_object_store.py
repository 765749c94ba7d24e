"""The object store for trials, run as its Pod runs it: its words, its keys, its certificate, its bucket.

What the kubelet does, the test does: the folders of the volume, the files of the Secret, the probes.
"""

from __future__ import annotations

import os
import ssl
import struct
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import get_session

from infra.bootstrap.toolchain import Toolchain
from infra.components import object_store
from infra.components.object_store import ObjectStore
from infra.drivers import image_tools
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.resources.store_credentials import StoreCredentialsProvider
from tests.apiserver.support.audit import wait_until
from tests.ports import free_port
from tests.unit.infra.fakes import declare

FOLDER = REPOSITORY / "infra/images/object-store"
MIB = 2**20
PT_LOAD, PT_INTERP = 1, 3
BODY = os.urandom(3 * MIB)


@dataclass(frozen=True)
class Running:
    """A store that answers; `made` is what the state has of it."""

    url: str
    made: dict[str, Any]
    authority: Path
    volume: Path
    probe: dict[str, Any]
    process: subprocess.Popen[bytes]

    def client(self, *, secret: str = "") -> Any:
        """An S3 client that trusts the authority alone, as a run of a Backup does."""
        return get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id=self.made["accessKeyId"],
            aws_secret_access_key=secret or self.made["secretAccessKey"],
            verify=str(self.authority),
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )


def container() -> dict[str, Any]:
    """The Pod's one container, as the program declares it."""

    def program() -> None:
        ObjectStore("object-store", image="image:1", users="default")

    graph = declare(program, stack="dev", preview=False)
    spec = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    (only,) = spec["containers"]
    return dict(only)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("object-store")
    try:
        program = image_tools.program(FOLDER)
    except KindlingError as error:
        pytest.fail(f"{error}; `python3 -m infra test` sets it up")
    assert program is not None
    assert program == Toolchain().survey(["versitygw"])[0].path
    made = StoreCredentialsProvider().create({"hosts": object_store.HOSTS}).outs
    assert made is not None
    declared = container()
    places = {}
    for mount in declared["volumeMounts"]:
        place = root / mount.get("subPath", "tls")
        place.mkdir(parents=True, exist_ok=True)
        places[mount["mountPath"]] = str(place)
    (root / "tls/tls.crt").write_text(made["certificate"])
    (root / "tls/tls.key").write_text(made["privateKey"])
    (root / "ca.crt").write_text(made["authority"])
    port = free_port()
    words = [f"127.0.0.1:{port}" if word == f":{object_store.PORT}" else word for word in declared["args"]]
    for inside in ("/tls", "/marks", "/data"):
        words = [
            word.replace(inside, places[inside], 1) if word.startswith(inside) else word for word in words
        ]
    variables = {item["name"]: made[item["valueFrom"]["secretKeyRef"]["key"]] for item in declared["env"]}
    with (root / "log").open("wb") as log:
        process = subprocess.Popen([program, *words], env=variables, stdout=log, stderr=log, cwd="/")
    try:
        started = Running(
            f"https://localhost:{port}", made, root / "ca.crt", root, declared["startupProbe"], process
        )
        wait_until(lambda: _answers(started), seconds=30, what=(root / "log").read_text)
        yield started
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(running: Running) -> bool:
    assert running.process.poll() is None
    trusting = ssl.create_default_context(cafile=running.authority)
    address = running.url + running.probe["httpGet"]["path"]
    try:
        with urllib.request.urlopen(address, context=trusting, timeout=5) as answer:
            return bool(answer.status == 200)
    except ConnectionError:
        return False
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionError):
            return False
        raise


def test_the_bucket_is_there_and_keeps_what_is_put_into_it(running: Running) -> None:
    client = running.client()
    client.head_bucket(Bucket=object_store.BUCKET)
    client.put_object(Bucket=object_store.BUCKET, Key="a/b", Body=BODY)
    assert client.get_object(Bucket=object_store.BUCKET, Key="a/b")["Body"].read() == BODY
    # On the volume, where the next Pod finds it.
    assert (running.volume / "data" / object_store.BUCKET / "a/b").read_bytes() == BODY
    assert [item["Key"] for item in client.list_objects_v2(Bucket=object_store.BUCKET)["Contents"]] == ["a/b"]
    client.delete_object(Bucket=object_store.BUCKET, Key="a/b")
    assert "Contents" not in client.list_objects_v2(Bucket=object_store.BUCKET)


def test_parts_become_one_object(running: Running) -> None:
    client, place = running.client(), {"Bucket": object_store.BUCKET, "Key": "large"}
    upload = client.create_multipart_upload(**place)["UploadId"]
    parts = []
    for number, body in ((1, BODY * 2), (2, BODY)):
        tag = client.upload_part(**place, UploadId=upload, PartNumber=number, Body=body)["ETag"]
        parts.append({"ETag": tag, "PartNumber": number})
    client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
    assert client.head_object(**place)["ContentLength"] == 3 * len(BODY)


def test_it_stays_below_its_limit_while_large_objects_come(running: Running) -> None:
    client = running.client()
    for number in range(8):
        client.put_object(Bucket=object_store.BUCKET, Key=f"n/{number}", Body=BODY * 8)
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    (peak,) = (int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    print(f"at most {peak} MiB")
    limit = container()["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert peak < int(limit.removesuffix("Mi")) / 2


def test_it_opens_to_its_keys_alone(running: Running) -> None:
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        running.client(secret="wrong").list_objects_v2(Bucket=object_store.BUCKET)


def test_it_speaks_tls_alone(running: Running) -> None:
    plain = running.url.replace("https:", "http:") + running.probe["httpGet"]["path"]
    with pytest.raises((urllib.error.URLError, ConnectionError, OSError)):
        urllib.request.urlopen(plain, timeout=5)
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(running.url, context=ssl.create_default_context(), timeout=5)


def test_it_says_no_key(running: Running) -> None:
    log = (running.volume / "log").read_text()
    assert running.made["secretAccessKey"] not in log


def test_its_program_needs_nothing_beside_it_in_the_image() -> None:
    """No loader: a program header of type PT_INTERP names one."""
    program = image_tools.program(FOLDER)
    assert program is not None
    head = program.read_bytes()[:4096]
    assert head[:5] == b"\x7fELF\x02"
    (start,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    types = [struct.unpack_from("<I", head, start + size * number)[0] for number in range(count)]
    assert PT_LOAD in types
    assert PT_INTERP not in types


def test_it_ends_when_it_is_asked_to(running: Running) -> None:
    """Last: within the time that its Pod gives it."""
    running.process.terminate()
    assert running.process.wait(timeout=30) == 0

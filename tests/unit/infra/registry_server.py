"""A registry of images on the loopback: Debian's `docker-registry`, as a process with a folder of its own.

Apart from the tests because those of the driver and those with a cluster both push to one.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port

PROGRAM = "docker-registry"
START_SECONDS = 30.0
# `canary-pw` by bcrypt, the one hash that the registry knows.
USER, PASSWORD = "kindling", "canary-pw"
HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuyWhLMbgXIm8rlrkAAgEaJMps19wkcnW"


@contextmanager
def registry(
    folder: Path,
    *,
    address: str = "127.0.0.1",
    htpasswd: str = "",
    tls: bool = False,
    auth: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Start one; yields its HOST:PORT. `auth` is as its configuration has it.

    What is pushed lies under `folder`, and the certificate that it signed itself, if `tls`, as `server.crt`.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.fail(f"missing: {PROGRAM}; `python3 -m infra test` installs it")
    folder.mkdir(parents=True, exist_ok=True)
    host = f"{address}:{free_port(address)}"
    config: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": host},
    }
    if tls:
        files = {"certificate": folder / "server.crt", "key": folder / "server.key"}
        _certificate(address, **files)
        config["http"] = {"addr": host, "tls": {name: str(file) for name, file in files.items()}}
    if htpasswd:
        (folder / "htpasswd").write_text(htpasswd + "\n")
        config["auth"] = {"htpasswd": {"realm": "kindling", "path": str(folder / "htpasswd")}}
    if auth:
        config["auth"] = auth
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", folder / "config.json"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # It takes such variables for settings of its own, and one of Podman's is called so too.
            env={name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")},
        )
        try:
            _wait(process, host, folder / "log", scheme="https" if tls else "http")
            yield host
        finally:
            process.terminate()
            process.wait(timeout=30)


def _certificate(address: str, *, certificate: Path, key: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=registry", "-addext", f"subjectAltName=IP:{address}",
         "-keyout", key, "-out", certificate],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip


def _wait(process: subprocess.Popen[bytes], host: str, log: Path, *, scheme: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            # Whose certificate it is, is the tests' own question.
            anybody = ssl._create_unverified_context()
            with urllib.request.urlopen(f"{scheme}://{host}/v2/", timeout=1, context=anybody):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 401:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{PROGRAM} did not start on {host}: {log.read_text()[-2000:]}")

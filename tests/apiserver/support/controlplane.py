"""A Kubernetes API of our own: etcd and kube-apiserver as two processes on the loopback.

It stands apart from `conftest.py` because it is plain Python that needs no pytest: what is tested
against it, the CRDs here and whole programs elsewhere, only sees a `ControlPlane`. There is no
controller manager, scheduler or kubelet: nothing but the API and its admission happens, so owned
objects are not garbage collected and namespaces do not finish deleting. (`controllers` and `kubelet`
add to it where a test needs them.)
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.bootstrap.toolchain import Toolchain
from tests.ports import free_ports

START_SECONDS = 120.0  # The usual is 5; a machine that compiles beside it takes its time.
STOP_SECONDS = 10.0
LOG_CHARACTERS = 4000
RARELY_COLLECTED = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
"""For programs in Go: a fifth of what kube-apiserver computes is the search for memory to use again."""
ACCOUNTS = "--enable-admission-plugins=ServiceAccount"
"""The option with which the ServiceAccount of a Pod must exist, for a cluster with controllers."""


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """Where the API answers and what it takes to be let in, as an administrator.

    `url` is https://127.0.0.1:PORT; `token` a bearer token of the group system:masters; `ca` the PEM
    file that its certificate is checked against; `kubeconfig` holds all three, for programs that
    read one. RBAC is on: a program that should have fewer rights asks for a token of its own
    ServiceAccount (POST .../serviceaccounts/NAME/token).
    """

    url: str
    token: str = field(repr=False)
    ca: Path
    kubeconfig: Path
    programs: Mapping[str, Program] = field(default_factory=dict, repr=False)

    @property
    def directory(self) -> Path:
        """Where the processes' files are, their logs among them."""
        return self.ca.parent.parent

    def restart_api(self) -> None:
        """Lose the API server, and have it again at the same address; its data are etcd's, and stay."""
        server = self.programs["kube-apiserver"]
        server.kill()
        server.start()
        _wait_until_ready(self, processes=self.programs, directory=self.directory)


def tool(name: str) -> Path:
    """The program of that name, as the toolchain finds or builds it.

    Raises KindlingError with the program's name when it can be neither.
    """
    return Toolchain().ensure(name)


@contextmanager
def control_plane(*, directory: Path, options: Sequence[str] = ()) -> Iterator[ControlPlane]:
    """Start both processes, wait until the API is ready, and end them on leaving.

    `options` are given to kube-apiserver beside its own.
    Everything they write goes under `directory`, their logs too (`etcd.log`, `kube-apiserver.log`).
    Raises FileNotFoundError for a missing program and RuntimeError, with the end of the log, for one
    that stops or is not ready within START_SECONDS.
    """
    etcd, apiserver = tool("etcd"), tool("kube-apiserver")
    client_port, peer_port, secure_port = free_ports(3)
    plane = _write_credentials(directory, port=secure_port)
    store, peers = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    with ExitStack() as stack:
        processes = {
            "etcd": stack.enter_context(
                background(
                    [
                        etcd,
                        f"--data-dir={directory / 'etcd'}",
                        f"--listen-client-urls={store}",
                        f"--advertise-client-urls={store}",
                        f"--listen-peer-urls={peers}",
                        f"--initial-advertise-peer-urls={peers}",
                        f"--initial-cluster=default={peers}",
                        "--unsafe-no-fsync",  # The data ends with the tests.
                        "--log-level=warn",
                    ],
                    log=directory / "etcd.log",
                )
            ),
            "kube-apiserver": stack.enter_context(
                background(
                    [
                        apiserver,
                        f"--etcd-servers={store}",
                        "--bind-address=127.0.0.1",
                        "--advertise-address=127.0.0.1",
                        f"--secure-port={secure_port}",
                        f"--cert-dir={plane.ca.parent}",
                        f"--token-auth-file={directory / 'tokens.csv'}",
                        f"--service-account-key-file={directory / 'service-account.pem'}",
                        f"--service-account-signing-key-file={directory / 'service-account.pem'}",
                        "--service-account-issuer=https://kubernetes.default.svc",
                        "--service-cluster-ip-range=10.0.0.0/16",
                        "--authorization-mode=RBAC",
                        # Pods would wait for ServiceAccounts that no controller makes here.
                        *(() if ACCOUNTS in options else ("--disable-admission-plugins=ServiceAccount",)),
                        # A loopback address is no endpoint for the Service `kubernetes`.
                        "--endpoint-reconciler-type=none",
                        *options,
                    ],
                    log=directory / "kube-apiserver.log",
                )
            ),
        }
        _wait_until_ready(plane, processes=processes, directory=directory)
        yield replace(plane, programs=processes)


def _write_credentials(directory: Path, *, port: int) -> ControlPlane:
    certificates = directory / "certificates"
    certificates.mkdir(parents=True)
    token = secrets.token_urlsafe(24)
    (directory / "tokens.csv").write_text(f'{token},administrator,administrator,"system:masters"\n')
    (directory / "service-account.pem").write_text(_signing_key())
    plane = ControlPlane(
        url=f"https://127.0.0.1:{port}",
        token=token,
        ca=certificates / "apiserver.crt",  # Written by kube-apiserver, the signing certificate included.
        kubeconfig=directory / "kubeconfig",
    )
    write_kubeconfig(plane)
    return plane


def write_kubeconfig(plane: ControlPlane) -> None:
    """Put the address and token of `plane` where its `kubeconfig` says."""
    plane.kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "test", "cluster": {"server": plane.url, "certificate-authority": str(plane.ca)}}
                ],
                "users": [{"name": "user", "user": {"token": plane.token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
                "current-context": "test",
            }
        )
    )


def _signing_key() -> str:
    """A new P-256 private key as PEM, without a cryptography package.

    RFC 5915 lets the public half be left out, and what remains around the 32 random bytes is fixed.
    The first bit is cleared to stay below the order of the curve.
    """
    number = bytearray(secrets.token_bytes(32))
    number[0] &= 0x7F
    encoded = bytes.fromhex("30310201010420") + number + bytes.fromhex("a00a06082a8648ce3d030107")
    text = base64.encodebytes(encoded).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"


class Program:
    """A program that runs beside the tests, from its making on; what it says goes to `log`."""

    process: subprocess.Popen[bytes]

    def __init__(self, words: Sequence[str | Path], *, log: Path) -> None:
        self._words = [str(word) for word in words]
        self._log = log
        log.write_bytes(b"")
        self.start()

    def start(self) -> None:
        """Start it; once it has ended, start it again with the same arguments."""
        with self._log.open("ab") as output:
            # A session of its own: Ctrl-C ends the tests first, and they end the process.
            self.process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | RARELY_COLLECTED,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it as a lost machine would."""
        self.process.kill()
        self.process.wait(timeout=STOP_SECONDS)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def background(words: Sequence[str | Path], *, log: Path) -> Iterator[Program]:
    """Run it, and end it on leaving."""
    program = Program(words, log=log)
    try:
        yield program
    finally:
        program.stop()


def _wait_until_ready(plane: ControlPlane, *, processes: Mapping[str, Program], directory: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (_answers(plane, "/readyz") and _answers(plane, "/api/v1/namespaces/default")):
        for name, program in processes.items():
            if (status := program.process.poll()) is not None:
                raise RuntimeError(
                    f"{name} stopped with status {status}:\n{_tail(directory / f'{name}.log')}"
                )
        if time.monotonic() > deadline:
            words = _tail(directory / "kube-apiserver.log")
            raise RuntimeError(f"no API at {plane.url} within {START_SECONDS:.0f} s:\n{words}")
        time.sleep(0.1)


def _answers(plane: ControlPlane, path: str) -> bool:
    request = urllib.request.Request(plane.url + path, headers={"Authorization": f"Bearer {plane.token}"})
    try:
        context = ssl.create_default_context(cafile=plane.ca)
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return int(answer.status) == 200
    except (OSError, urllib.error.URLError):  # Not listening yet, not certified yet, not ready yet.
        return False


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-LOG_CHARACTERS:]

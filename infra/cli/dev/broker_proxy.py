"""A way from this machine to a stack's broker: Pulsar's own proxy in a Pod, and a port forwarded to it.

A broker gives each client its own address, a name within the cluster. The proxy is what Pulsar has for
clients that cannot reach that: they have one address, and it speaks for them.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from infra import processes
from infra.cli.stacks import kubectl
from infra.errors import KindlingError

NAMESPACE, BROKER = "pulsar", "pulsar"
PORT, WEB_PORT = 6650, 8081
CONFIG = "kindling.dev/proxy.conf"
"""The annotation of the Pod that is mounted as the proxy's configuration: so it needs no other object."""
LONGEST_SECONDS = 12 * 3600
"""After that the Pod ends by itself, where whoever made it was killed."""
READY_SECONDS = 120
FORWARD_SECONDS = 30.0
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:([0-9]+) ->")


class BrokerProxy:
    """The way to the broker of a stack."""

    def __init__(self, stack: str, *, program: Path) -> None:
        self._stack, self._program = stack, program

    @contextmanager
    def reachable(self, *, image: str) -> Iterator[str]:
        """The broker's address for clients on this machine, while it lasts; `image` is the broker's.

        Raises `KindlingError` where the proxy does not start.
        """
        name = f"proxy-{os.urandom(3).hex()}"
        try:
            self._kubectl("create", "--filename=-", stdin=json.dumps(pod(name, image=image)))
            self._wait(name)
            words = ("port-forward", f"--namespace={NAMESPACE}", f"pod/{name}", f":{PORT}")
            argv: list[str | Path] = [self._program, *kubectl.arguments(self._stack, words)]
            with processes.running(argv, env=kubectl.environment(self._stack)) as forwarding:
                yield f"pulsar://127.0.0.1:{_port(forwarding.stdout)}"
        finally:
            with suppress(processes.ProgramError):
                self._kubectl("delete", "pod", name, "--ignore-not-found", "--wait=false")

    def image(self) -> str:
        """The broker's, which has the proxy too. Raises `KindlingError` where the stack has no broker."""
        path = "jsonpath={.spec.template.spec.containers[0].image}"
        try:
            return self._kubectl("get", "deployment", BROKER, "--output", path)
        except processes.ProgramError as error:
            raise KindlingError(
                f"stack `{self._stack}` has no broker",
                why=error.why or error.what,
                remedy=f"set `kindling:broker` in Pulumi.{self._stack}.yaml, and run "
                f"`python3 -m infra up {self._stack}`; a broker that this machine reaches needs --server",
            ) from None

    def _wait(self, name: str) -> None:
        words = ("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={READY_SECONDS}s")
        try:
            self._kubectl(*words, timeout=READY_SECONDS + kubectl.CALL_SECONDS)
        except processes.ProgramError as error:
            said = error.why or error.what
            with suppress(processes.ProgramError):
                said = f"{said}\n{self._kubectl('logs', name, '--tail=5')}".strip()
            raise KindlingError(
                f"the proxy to the broker of stack `{self._stack}` does not start",
                why=said,
                remedy=f"python3 -m infra exec --stack {self._stack} kubectl get events -n {NAMESPACE}",
            ) from None

    def _kubectl(self, *words: str, **options: Any) -> str:
        return kubectl.call(self._stack, self._program, *words, f"--namespace={NAMESPACE}", **options)


def pod(name: str, *, image: str) -> dict[str, Any]:
    """The proxy, in a Pod as restricted as the broker's own; the broker's Service does not lead to it."""
    host = f"{BROKER}.{NAMESPACE}.svc"
    config = {
        "brokerServiceURL": f"pulsar://{host}:{PORT}",
        "brokerWebServiceURL": f"http://{host}:8080",
        "clusterName": "standalone",
        "servicePort": PORT,
        "webServicePort": WEB_PORT,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "pulsar", "app.kubernetes.io/component": "proxy"},
            "annotations": {CONFIG: "".join(f"{key}={value}\n" for key, value in config.items())},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "proxy",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": [
                        "java",
                        "@conf/java.options",
                        "org.apache.pulsar.proxy.server.ProxyServiceStarter",
                    ],
                    "args": ["--config", "/etc/kindling/proxy.conf"],
                    "readinessProbe": {
                        "tcpSocket": {"port": PORT},
                        "periodSeconds": 1,
                        "failureThreshold": 120,
                    },
                    "resources": {
                        "requests": {"cpu": "50m", "memory": "192Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "config", "mountPath": "/etc/kindling", "readOnly": True},
                        {"name": "tmp", "mountPath": "/tmp"},
                    ],
                }
            ],
            "volumes": [
                {
                    "name": "config",
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "proxy.conf",
                                "fieldRef": {"fieldPath": f"metadata.annotations['{CONFIG}']"},
                            }
                        ]
                    },
                },
                {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
            ],
        },
    }


def _port(output: Any) -> int:
    """What kubectl says it forwards. The rest of what it says is read too, or it would wait for us."""
    found: list[int] = []
    answered = threading.Event()

    def read() -> None:
        for line in output:
            if (match := _FORWARDING.search(line)) is not None:
                found.append(int(match[1]))
                answered.set()
        answered.set()

    threading.Thread(target=read, daemon=True).start()
    answered.wait(FORWARD_SECONDS)
    if not found:
        raise KindlingError(
            "no port of this machine leads to the proxy",
            why="`kubectl port-forward` named none",
            remedy="run the command again; if that does not help, see whether `kubectl port-forward` works",
        )
    return found[0]

"""What a PulsarConsumer does with its messages besides printing: `spec.handler`, and what a Pod needs for it.

A handler in a container of its own runs in the consumer's Pod: it starts before it, and ends after it.

The consumer's image has the other half: `pulsar_consumer/settings.py` reads the variables, and
`pulsar_consumer/python_handler.py` computes the same hash of the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kindling.kinds import pod_security, reasons
from kindling.kinds.base import Observed, Problem
from kindling.kube.resources import CONFIG_MAP, Object, Ref

FILES = "/etc/kindling/handler"
VOLUME = "handler"
DEFAULT_PATH = "/"
CONTAINER = "handler"
TMP = "handler-tmp"
SOCKETS = "handler-socket"
SOCKET_FOLDER = "/run/kindling"
SOCKET = f"{SOCKET_FOLDER}/handler.sock"


class Code(NamedTuple):
    """Where users' Python is: a ConfigMap of the resource's namespace, and the key of its module.

    `key` empty: every key is a file of that name, and the module's is `file`.
    """

    config_map: str
    key: str
    file: str


def handler_of(cr: Object) -> Object:
    found: Object = (cr.get("spec") or {}).get("handler") or {}
    return found


def code_of(cr: Object) -> Code | None:
    """None for a handler that is not Python, or for none."""
    python = handler_of(cr).get("python") or {}
    reference = python.get("configMapRef") or {}
    if not reference.get("name"):
        return None
    module = str(python.get("handler", "")).partition(":")[0]
    return Code(str(reference["name"]), str(reference.get("key") or ""), f"{module}.py")


def files_of(code: Code, observed: Observed, *, namespace: str) -> dict[str, bytes]:
    """The files as the Pods have them, by name; empty where a ConfigMap or its key is missing."""
    found = observed.config_map(namespace=namespace, name=code.config_map)
    if not code.key:
        return found
    return {code.file: found[code.key]} if code.key in found else {}


def digest(files: Mapping[str, bytes]) -> str:
    """A hash of files by their names; a consumer computes the same of what it has."""
    found = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:32]


def validate(cr: Object, observed: Observed) -> Problem | None:
    """Without its code a consumer could not start; those that run have theirs and go on."""
    code, namespace = code_of(cr), cr["metadata"]["namespace"]
    if code is None or code.file in files_of(code, observed, namespace=namespace):
        return None
    config_map = f"ConfigMap {code.config_map!r} of spec.handler.python.configMapRef"
    if Ref(CONFIG_MAP, namespace, code.config_map) not in observed.objects:
        wrong = f"{config_map} is not in namespace {namespace!r}: create it"
    else:
        wrong = f"{config_map} has no key {code.key or code.file!r}: put the code there"
    return Problem(reason=reasons.CONFIG_MAP_NOT_FOUND, message=f"{wrong}, or refer to another one.")


def variables(cr: Object, observed: Observed) -> dict[str, str]:
    """The consumers' settings for it; none where they print."""
    spec, handler = cr.get("spec") or {}, handler_of(cr)
    python, http = handler.get("python") or {}, handler.get("http") or {}
    container = container_of(cr)
    found: dict[str, str] = {}
    if (code := code_of(cr)) is not None:
        files = files_of(code, observed, namespace=cr["metadata"]["namespace"])
        found["PULSAR_HANDLER_PYTHON"] = str(python.get("handler", ""))
        found["PULSAR_HANDLER_HASH"] = digest(files)
    elif http:
        found["PULSAR_HANDLER_URL"] = _url(http, cr) + str(http.get("path") or DEFAULT_PATH)
    elif container:
        path = str(container.get("path") or DEFAULT_PATH)
        found["PULSAR_HANDLER_BESIDE"] = "true"
        if container.get("port"):
            found["PULSAR_HANDLER_URL"] = f"http://127.0.0.1:{container['port']}{path}"
        else:
            found["PULSAR_HANDLER_URL"] = f"http://localhost{path}"
            found["PULSAR_HANDLER_SOCKET"] = SOCKET
    else:
        return {}
    given = python or http or container
    retry, dead_letter = spec.get("retry") or {}, spec.get("deadLetter") or {}
    backoff, schema = retry.get("backoff") or {}, spec.get("schema") or {}
    asked = {
        "PULSAR_HANDLER_TIMEOUT_SECONDS": given.get("timeoutSeconds"),
        "PULSAR_HANDLER_CONCURRENCY": given.get("concurrency"),
        "PULSAR_OUTPUT_TOPIC": (spec.get("output") or {}).get("topic"),
        "PULSAR_DEAD_LETTER_TOPIC": dead_letter.get("topic"),
        "PULSAR_DEAD_LETTER_KEEP": "false" if dead_letter.get("keep") is False else None,
        "PULSAR_RETRY_MAX_DELIVERIES": retry.get("maxDeliveries"),
        "PULSAR_RETRY_INITIAL_SECONDS": backoff.get("initialSeconds"),
        "PULSAR_RETRY_FACTOR": backoff.get("factor"),
        "PULSAR_RETRY_MAX_SECONDS": backoff.get("maxSeconds"),
        "PULSAR_SCHEMA_TYPE": schema.get("type"),
        "PULSAR_SCHEMA_DEFINITION": schema.get("definition"),
    }
    return {**found, **{name: str(value) for name, value in asked.items() if value is not None}}


def _url(http: Object, cr: Object) -> str:
    if http.get("url"):
        return str(http["url"]).rstrip("/")
    service = http.get("serviceRef") or {}
    return f"http://{service.get('name')}.{cr['metadata']['namespace']}.svc:{service.get('port')}"


def container_of(cr: Object) -> Object:
    """`spec.handler.container`; empty where there is none."""
    found: Object = handler_of(cr).get("container") or {}
    return found


def containers(cr: Object, *, env: Sequence[Object], resources: Object) -> list[Object]:
    """The users' own container, whose variables and resources are the spec's.

    A sidecar: it is there before the consumer starts, and until the consumer has ended its last message.
    """
    given = container_of(cr)
    if not given:
        return []
    listens = {"name": "PULSAR_HANDLER_SOCKET", "value": SOCKET}
    if port := given.get("port"):
        listens = {"name": "PULSAR_HANDLER_PORT", "value": str(port)}
    return [
        {
            "name": CONTAINER,
            **pod_security.image(str(given["image"])),
            **{name: list(given[name]) for name in ("command", "args") if given.get(name)},
            "restartPolicy": "Always",
            "env": [listens, *env],
            "resources": resources,
            "securityContext": pod_security.CONTAINER,
            # Not the end of the log where it says nothing: that may be other people's messages.
            "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": TMP, "mountPath": "/tmp"}, *_sockets(given)],
        }
    ]


def _sockets(container: Object) -> list[Object]:
    return [] if container.get("port") else [{"name": SOCKETS, "mountPath": SOCKET_FOLDER}]


def mounts(cr: Object) -> list[Object]:
    if container := container_of(cr):
        return _sockets(container)
    if code_of(cr) is None:
        return []
    return [{"name": VOLUME, "mountPath": FILES, "readOnly": True}]


def volumes(cr: Object) -> list[Object]:
    if container := container_of(cr):
        names = [TMP, *(mount["name"] for mount in _sockets(container))]
        return [{"name": name, "emptyDir": {}} for name in names]
    code = code_of(cr)
    if code is None:
        return []
    source: Object = {"name": code.config_map, "defaultMode": 0o440}
    if code.key:
        source["items"] = [{"key": code.key, "path": code.file}]
    return [{"name": VOLUME, "configMap": source}]

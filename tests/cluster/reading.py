"""Objects and logs of the stack's cluster over one kept connection, for words that kubectl is called with.

A test that waits asks some hundred times, and starting kubectl for each question took a fifth of a core. What
kubectl does beyond plain reads is left to kubectl: its words are none of ours, and None is returned.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import yaml

Json = dict[str, Any]
TIMEOUT_SECONDS = 60.0


class Served(NamedTuple):
    """A resource type as the API server serves it."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def root(self) -> str:
        return f"/{'api' if '/' not in self.group_version else 'apis'}/{self.group_version}"


def _said(code: int, text: str) -> str:
    """As kubectl has it; what is behind a proxy answers in its own way."""
    try:
        status = json.loads(text)
    except ValueError:
        status = {}
    if isinstance(status, dict) and status.get("kind") == "Status":
        return f"({status.get('reason', code)}): {status.get('message', '')}"
    return f"({'NotFound' if code == http.client.NOT_FOUND else code}): {text}"


@dataclass
class Question:
    """The words after `kubectl get` or `kubectl logs`, taken apart."""

    names: list[str] = field(default_factory=list)
    namespace: str = "default"
    everywhere: bool = False
    query: dict[str, str] = field(default_factory=dict)


WITH_VALUE = {
    "-n": "namespace",
    "--namespace": "namespace",
    "-l": "labelSelector",
    "--selector": "labelSelector",
}
WITH_VALUE |= {"--field-selector": "fieldSelector", "-c": "container", "--tail": "tailLines"}


def parse(words: Sequence[str]) -> Question | None:
    """None where a word is not one of the plain ones."""
    found, rest = Question(), list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            found.names.append(word)
            continue
        if word in ("-A", "--all-namespaces"):
            found.everywhere = True
            continue
        name, separate, value = word.partition("=")
        meaning = WITH_VALUE.get(name)
        if meaning is None or (not separate and not rest):
            return None
        value = value if separate else rest.pop(0)
        if meaning == "namespace":
            found.namespace = value
        elif (meaning, value) != ("tailLines", "-1"):
            found.query[meaning] = value
    return found


class Reader:
    """One cluster's, by a context of a kubeconfig with a client's certificate, as kind writes it."""

    def __init__(self, kubeconfig: Path, *, context: str) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._text = ""
        self._connection: http.client.HTTPSConnection | None = None
        self._types: dict[str, Served | None] = {}
        self._lock = threading.Lock()

    def get(self, *words: str) -> Json | None:
        """As `kubectl get WORDS… -o json`; AssertionError with the server's words when it refuses."""
        question = parse(words)
        if question is None or not question.names or {"container", "tailLines"} & set(question.query):
            return None
        with self._lock:
            found = self._targets(question.names)
            if found is None or any(name and question.everywhere for _, name in found):
                return None
            objects = [self._object(type, name, question) for type, name in found]
        if len(objects) == 1 and found[0][1]:
            return objects[0]
        items = [item for each in objects for item in each.get("items", [each])]
        return {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}

    def raw(self, path: str) -> str:
        """As `kubectl get --raw PATH`."""
        with self._lock:
            return self._read(path)

    def logs(self, *words: str) -> str | None:
        """As `kubectl logs WORDS…`, of one Pod that is named."""
        question = parse(words)
        if question is None or question.everywhere or len(question.names) != 1:
            return None
        name = question.names[0].removeprefix("pod/")
        if "/" in name or "container" not in question.query or "labelSelector" in question.query:
            return None
        path = f"/api/v1/namespaces/{question.namespace}/pods/{name}/log?{urlencode(question.query)}"
        with self._lock:
            return self._read(path)

    def _targets(self, names: Sequence[str]) -> list[tuple[Served, str]] | None:
        """Types and names; an empty name is all of the type."""
        if any("/" in name for name in names):
            pairs = [name.partition("/")[::2] for name in names]
        else:
            types = names[0].split(",")
            pairs = [(type, name) for type in types for name in (names[1:] or [""])]
        found = [(self._type(type), name) for type, name in pairs]
        return None if any(type is None for type, _ in found) else found  # type: ignore[return-value]

    def _object(self, type: Served, name: str, question: Question) -> Json:
        path = type.root
        if type.namespaced and not question.everywhere:
            path += f"/namespaces/{question.namespace}"
        path += f"/{type.plural}" + (f"/{quote(name)}" if name else "")
        if not name and question.query:
            path += f"?{urlencode(question.query)}"
        found: Json = json.loads(self._read(path))
        for item in found.get("items") or ():
            item.setdefault("apiVersion", type.group_version)
            item.setdefault("kind", type.kind)
        return found

    def _type(self, word: str) -> Served | None:
        """None for a word that nothing is called, and for one of several groups: kubectl chooses there."""
        if word not in self._types:
            self._types = self._discover()
        return self._types.get(word)

    def _discover(self) -> dict[str, Served | None]:
        groups = json.loads(self._read("/apis"))["groups"]
        versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
        found: dict[str, Served | None] = {}
        for version in versions:
            group, separate, _ = version.partition("/")
            root = "/apis/" if separate else "/api/"
            for each in json.loads(self._read(root + version))["resources"]:
                if "/" in each["name"]:
                    continue
                served = Served(version, each["name"], each["kind"], each["namespaced"])
                plain = {
                    each["name"],
                    each["singularName"],
                    each["kind"].lower(),
                    *each.get("shortNames", ()),
                }
                for name in plain - {""}:
                    found[name] = None if name in found else served
                    if separate:
                        found[f"{name}.{group}"] = served
        return found

    def _read(self, path: str) -> str:
        for last in (False, True):
            try:
                connection = self._connected()
                connection.request("GET", path, headers={"Accept": "application/json, */*"})
                response = connection.getresponse()
                text = response.read().decode()
                break
            except (OSError, http.client.HTTPException) as error:
                # A kept connection may have ended since; a second one that fails is the server's answer.
                self._close()
                if last:
                    raise AssertionError(f"GET {path}: {error!r}") from error
        if response.status >= 300:
            raise AssertionError(f"Error from server {_said(response.status, text)} (GET {path})")
        return text

    def _connected(self) -> http.client.HTTPSConnection:
        text = self._kubeconfig.read_text()
        if self._connection is not None and text == self._text:
            return self._connection
        self._close()
        self._text, self._types = text, {}
        config = yaml.safe_load(text)

        def named(section: str, name: str) -> Json:
            (found,) = (each for each in config[section] if each["name"] == name)
            return found  # type: ignore[no-any-return]

        context = named("contexts", self._context)["context"]
        cluster = named("clusters", context["cluster"])["cluster"]
        user = named("users", context["user"])["user"]
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=trusted)
        pair = self._kubeconfig.with_name("reader.pem")
        pair.touch(mode=0o600)
        keys = ("client-certificate-data", "client-key-data")
        pair.write_bytes(b"".join(base64.b64decode(user[key]) for key in keys))
        tls.load_cert_chain(pair)
        pair.unlink()
        address = urlsplit(cluster["server"])
        assert address.hostname is not None
        self._connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=TIMEOUT_SECONDS, context=tls
        )
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

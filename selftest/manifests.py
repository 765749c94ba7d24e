"""What the user's files contain: resources of our kinds, the Secrets and ConfigMaps that these name. Pure but
for the reading.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from kindling.kinds.base import Kind
from kindling.kube.resources import ResourceType

from selftest.references import Named, companions, named
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
CONTENT = ("Secret", "ConfigMap")
KEPT = ("name", "labels", "annotations")
"""Of the metadata: the rest is a cluster's, such as a version or an owner."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Loader(yaml.SafeLoader):
    """Times stay texts, as they do for kubectl."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(":timestamp")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class BadInput(Exception):
    """What is wrong with the files, one sentence for each finding."""

    def __init__(self, *findings: str) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


@dataclass(frozen=True, kw_only=True)
class Document:
    """One object of a file; `body` has no namespace, status or version. `where`: its file and place there."""

    where: str
    namespace: str
    body: Json = field(repr=False)

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def group(self) -> str:
        group, _, version = str(self.body["apiVersion"]).rpartition("/")
        return group if version else ""

    @property
    def id(self) -> tuple[str, str, str, str]:
        return self.namespace, self.group, self.kind, self.name

    def __str__(self) -> str:
        return "/".join((*((self.namespace,) if self.namespace else ()), self.kind, self.name))


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource to try. `content`: the Secrets and ConfigMaps of its namespace. `beside`: the resources that
    it names, each after those that it names itself.
    """

    document: Document
    kind: Kind
    content: Sequence[Document]
    beside: Sequence[tuple[Kind, Document]] = ()

    def __str__(self) -> str:
        return str(self.document)


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """`skipped` says what of the files has no part in this."""

    resources: Sequence[Resource]
    skipped: Sequence[str]

    def find(self, document: Document) -> Resource | None:
        """The resource of the same namespace, kind and name."""
        return next((one for one in self.resources if one.document.id == document.id), None)


def read(paths: Sequence[str]) -> Manifests:
    """:raises BadInput: with all that is wrong."""
    findings: list[str] = []
    known: dict[tuple[str, str, str, str], Document] = {}
    skipped = []
    for where, found in _documents(paths, findings):
        if _is_foreign(found):
            skipped.append(f"{where}: {found['kind']}, which is no kind of this operator")
        elif (document := _document(where, found, findings)) is None:
            continue
        elif (before := known.setdefault(document.id, document)) is not document:
            findings.append(
                f"{where}: {document} is in {before.where} too: leave one out, or name the files of one "
                "environment alone"
            )
    resources = [one for document in known.values() if (one := _resource(document, known, findings))]
    if findings:
        raise BadInput(*findings)
    if not resources:
        kinds = ", ".join(sorted({kind.type.kind for kind in KINDS_BY_NAME.values()}))
        raise BadInput(f"{', '.join(paths)}: no resource to try: name files with at least one of {kinds}")
    return Manifests(resources=resources, skipped=skipped)


def kind_of(document: Document) -> Kind | None:
    for kind in KINDS_BY_NAME.values():
        if (kind.type.group, kind.type.kind) == (document.group, document.kind):
            return kind
    return None


def served_type(kind: Kind, document: Document) -> ResourceType:
    """The kind's type in the document's own version: the API server takes it under that path alone."""
    return replace(kind.type, version=document.body["apiVersion"].rpartition("/")[2])


def _is_foreign(found: Any) -> bool:
    """Whether it has the head of an object of others."""
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key), str) for key in ("apiVersion", "kind")
    ):
        return False
    group, _, version = found["apiVersion"].rpartition("/")
    ours = {(one.type.group, one.type.kind) for one in KINDS_BY_NAME.values()}
    content = version == "v1" and not group and found["kind"] in CONTENT
    return not content and (group, found["kind"]) not in ours


def _has_content(document: Document) -> bool:
    return document.group == "" and document.kind in CONTENT


def _resource(
    document: Document, known: Mapping[tuple[str, str, str, str], Document], findings: list[str]
) -> Resource | None:
    kind = kind_of(document)
    if kind is None:
        return None
    ours = [other for other in known.values() if other.namespace == document.namespace]
    content = [other for other in ours if _has_content(other)]
    for reference in named(kind, document.body, namespace=document.namespace):
        findings += _missing(document, reference, content)
    beside: list[tuple[Kind, Document]] = []
    for group, wanted, name, path in companions(document.body):
        found = known.get((document.namespace, group, wanted, name))
        if found is None:
            what = f"{document.where}: {document}: {path} names the {wanted} {name}"
            findings.append(f"{what}, which is in no file: add it")
        elif (other := _resource(found, known, [])) is not None:
            beside += [item for item in (*other.beside, (other.kind, found)) if item not in beside]
    return Resource(document=document, kind=kind, content=content, beside=beside)


def _missing(document: Document, named: Named, content: Sequence[Document]) -> list[str]:
    head = f"{document.where}: {document}: {named.path} names"
    found = next((one for one in content if (one.kind, one.name) == (named.kind, named.name)), None)
    if found is None:
        made_up = ", with any value of the same form" if named.kind == "Secret" else ""
        return [f"{head} the {named.kind} {named.name}, which is in no file: add it{made_up}"]
    keys = {key for part in ("data", "stringData", "binaryData") for key in found.body.get(part) or {}}
    if named.key and named.key not in keys:
        return [
            f"{head} the key {named.key} of the {named.kind} {named.name}, which {found.where} does not have"
        ]
    return []


def _document(where: str, found: Any, findings: list[str]) -> Document | None:
    """None for what is no object, which is a finding."""
    meta = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(meta, dict):
        findings.append(f"{where}: this is no object of Kubernetes: it has no metadata")
        return None
    for name, holder in (("apiVersion", found), ("kind", found), ("metadata.name", meta)):
        value = holder.get(name.rpartition(".")[2])
        if not isinstance(value, str) or not value:
            findings.append(
                f"{where}: this is no object of Kubernetes: {name} is {value!r}, and must be a text"
            )
            return None
    body = {key: value for key, value in found.items() if key not in ("metadata", "status")}
    kept = {key: meta[key] for key in KEPT if meta.get(key)}
    if isinstance(notes := kept.get("annotations"), dict):
        # It has the whole object once more, secrets as well.
        kept["annotations"] = {key: text for key, text in notes.items() if key != LAST_APPLIED}
    return Document(where=where, namespace=str(meta.get("namespace") or ""), body={**body, "metadata": kept})


def _documents(paths: Sequence[str], findings: list[str]) -> Iterator[tuple[str, Any]]:
    """Each with its place: the file, and which document of it where there are several."""
    for path in paths:
        for name, text in _texts(path, findings):
            try:
                loaded = [one for one in yaml.load_all(text, Loader=_Loader) if one is not None]
            except yaml.YAMLError as error:
                findings.append(f"{name}: this is no YAML: {' '.join(_without_text(error).split())}")
                continue
            for number, found in enumerate(loaded, start=1):
                where = name if len(loaded) == 1 else f"{name}, document {number}"
                if isinstance(found, dict) and isinstance(found.get("items"), list):
                    for position, item in enumerate(found["items"], start=1):
                        yield f"{where}, item {position}", item
                else:
                    yield where, found


def _without_text(error: yaml.YAMLError) -> str:
    """Where and what, without the lines of the file, which may have a secret."""
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "it cannot be read"
    return f"{what} in line {mark.line + 1}" if mark is not None else str(what)


def _texts(path: str, findings: list[str]) -> Iterator[tuple[str, str]]:
    if path == STDIN:
        yield "standard input", sys.stdin.read()
        return
    place = Path(path)
    if place.is_dir():
        files = sorted(one for one in place.rglob("*") if one.suffix in SUFFIXES and one.is_file())
        if not files:
            findings.append(f"{path}: this folder has no file that ends in {', '.join(SUFFIXES)}")
    else:
        files = [place]
    for file in files:
        try:
            yield str(file), file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            findings.append(f"{file}: {getattr(error, 'strerror', None) or 'this is no text'}")

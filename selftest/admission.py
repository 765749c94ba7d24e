"""What the API server says of the files, by the CRDs of this checkout: asked before anything is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from secrets import token_hex

from kindling.kube.resources import Ref

from selftest.manifests import BadInput, Document, Resource, served_type
from selftest.scenarios import change, create, type_of
from tests.apiserver.support.cluster import Cluster


def check(
    cluster: Cluster, resources: Sequence[tuple[Resource, Resource | None]], redact: Callable[[str], str]
) -> None:
    """:raises BadInput: with the API server's words, by file and document."""
    namespace = cluster.namespace(f"selftest-{token_hex(4)}")
    findings: list[str] = []
    seen: set[str] = set()
    for resource, to in resources:
        for document in (*resource.content, *(to.content if to else ())):
            _ask(cluster, document, type_of(document).path(namespace=namespace), findings, seen)
        for kind, document in resource.beside:
            _ask(cluster, document, served_type(kind, document).path(namespace=namespace), findings, seen)
        for one in (resource, *((to,) if to else ())):
            place = served_type(one.kind, one.document).path(namespace=namespace)
            _ask(cluster, one.document, place, findings, seen)
        if to is not None and not findings:
            _ask_change(cluster, namespace, resource, to, findings)
    cluster.api.delete(f"/api/v1/namespaces/{namespace}")
    if findings:
        raise BadInput(*map(redact, findings))


def _ask(cluster: Cluster, document: Document, path: str, findings: list[str], seen: set[str]) -> None:
    if document.where in seen:
        return
    seen.add(document.where)
    answer = cluster.api.create(path, document.body, dry_run=True)
    if answer.status != 201:
        findings.append(f"{document.where}: {document}: the API server rejects it: {answer.message}")


def _ask_change(
    cluster: Cluster, namespace: str, resource: Resource, to: Resource, findings: list[str]
) -> None:
    """Some rules compare the new spec with the one before it."""
    ref = Ref(resource.kind.type, namespace, resource.document.name)
    create(cluster, namespace, resource.kind, resource.document)
    try:
        change(cluster, ref, resource, to, dry_run=True)
    except AssertionError as error:
        findings.append(
            f"{to.document.where}: {to}: the API server rejects this change of it in "
            f"{resource.document.where}: {error}"
        )
    finally:
        cluster.delete(ref)

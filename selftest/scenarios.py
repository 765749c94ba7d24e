"""What is tried with a resource: created, changed to its next spec where there is one, deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kindling.kinds.base import Kind
from kindling.kube.resources import CONFIG_MAP, SECRET, Ref, ResourceType

from selftest.manifests import Document, Resource, served_type
from selftest.references import INTO_WHAT_IS_THERE
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path
from tests.convergence.scenario import Act, Scenario, delete

CREATED, CHANGED, DELETED = "created", "changed", "deleted"
CONFLICT, TRIES = 409, 10
"""The operator writes the status of what is changed meanwhile."""
_CONTENT = {"Secret": SECRET, "ConfigMap": CONFIG_MAP}


def scenarios(resource: Resource, to: Resource | None) -> Iterator[Scenario]:
    def scenario(what: str, act: Act, *, creates: bool) -> Scenario:
        def prepare(cluster: Cluster, ref: Ref) -> None:
            _prepare(cluster, ref.namespace, resource)
            if not creates:
                make(cluster, ref)

        return Scenario(
            name=f"{resource} {what}",
            kind=resource.kind,
            resource=resource.document.name,
            act=act,
            spec=lambda namespace: resource.document.body.get("spec") or {},
            before=prepare,
            # `before` has made it.
            creates=True,
            beside=_beside(resource),
        )

    def make(cluster: Cluster, ref: Ref) -> None:
        create(cluster, ref.namespace, resource.kind, resource.document)

    yield scenario(CREATED, make, creates=True)
    if to is not None and differs(resource, to):
        yield scenario(CHANGED, lambda cluster, ref: change(cluster, ref, resource, to), creates=False)
    yield scenario(DELETED, delete, creates=False)


def differs(one: Resource, other: Resource) -> bool:
    """Whether anything of it is otherwise, its Secrets and ConfigMaps too."""
    return [one.document.body, *(item.body for item in one.content)] != [
        other.document.body,
        *(item.body for item in other.content),
    ]


def change(cluster: Cluster, ref: Ref, resource: Resource, to: Resource, *, dry_run: bool = False) -> None:
    """:raises AssertionError: with the API server's words, for what is not admitted."""
    for item in () if dry_run else _changed(resource.content, to.content):
        place = _CONTENT[item.kind].path(namespace=ref.namespace, name=item.name)
        if cluster.api.get(place).status == 404:
            _create_content(cluster, ref.namespace, item)
        else:
            cluster.api.request("PUT", place, body=item.body).accepted()
    query = {"dryRun": "All"} if dry_run else None
    ref = Ref(served_type(to.kind, to.document), ref.namespace, ref.name)
    for _ in range(TRIES):
        before = cluster.get(ref)
        assert before is not None, f"{resource} is gone"
        metadata = {**before["metadata"], **to.document.body["metadata"]}
        body = {**before, **to.document.body, "metadata": metadata}
        answer = cluster.api.request("PUT", path(ref), body=body, query=query)
        if answer.status != CONFLICT:
            break
    answer.accepted()


def _changed(before: Sequence[Document], after: Sequence[Document]) -> list[Document]:
    known = [one.body for one in before]
    return [one for one in after if one.body not in known]


def _prepare(cluster: Cluster, namespace: str, resource: Resource) -> None:
    for item in resource.content:
        _create_content(cluster, namespace, item)
    for kind, other in resource.beside:
        create(cluster, namespace, kind, other)


def create(cluster: Cluster, namespace: str, kind: Kind, document: Document) -> None:
    cluster.api.create(served_type(kind, document).path(namespace=namespace), document.body).accepted()


def _create_content(cluster: Cluster, namespace: str, document: Document) -> None:
    cluster.api.create(_CONTENT[document.kind].path(namespace=namespace), document.body).accepted()


def _beside(resource: Resource) -> tuple[tuple[ResourceType, str], ...]:
    """The resources to be waited for as well: those that it names, and what a Restore makes."""
    found = [(kind.type, document.name) for kind, document in resource.beside]
    spec: Json = resource.document.body.get("spec") or {}
    if resource.document.kind == "Restore" and spec.get("into") not in INTO_WHAT_IS_THERE:
        wanted = spec.get("databaseRef") or {}
        crd = f"postgresqls.{wanted.get('group') or resource.document.group}"
        found.append((KINDS_BY_NAME[crd].type, str(wanted.get("name"))))
    return tuple(dict.fromkeys(found))


def type_of(document: Document) -> ResourceType:
    return _CONTENT[document.kind]

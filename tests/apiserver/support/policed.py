"""The shipped policies in force, and users who may write our kinds in a namespace and little else.

Apart from the tests, because which user asks for what takes a file to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from infra import admission
from tests.apiserver.support.accounts import PolicyRule, with_rights
from tests.apiserver.support.apiclient import Api, Json, Response
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import (
    BACKUP,
    KINDS,
    MEMCACHED,
    MINIMAL_SPECS,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    PULSAR_CONSUMER,
    RESTORE,
    Kind,
    merged,
)

GROUP = "/apis/admissionregistration.k8s.io/v1"
SECONDS = 30.0
CREATE_PODS: PolicyRule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
CREATE_SERVICES: PolicyRule = {"apiGroups": [""], "resources": ["services"], "verbs": ["create"]}
WRITE: Sequence[PolicyRule] = [
    {
        "apiGroups": [kind.manifest["spec"]["group"]],
        "resources": [kind.manifest["spec"]["names"]["plural"]],
        "verbs": ["get", "create", "update", "patch"],
    }
    for kind in KINDS.values()
]
TELLING: Mapping[str, Json] = {
    POSTGRESQL.id: {"image": "evil:1"},
    PULSAR_CONSUMER.id: {"image": "evil:1"},
    MEMCACHED.id: {"imagePullSecrets": [{"name": "a-registry"}]},
    MY_CUSTOM_RESOURCE.id: {},
    BACKUP.id: {},
    RESTORE.id: {"postgresql": {"passwordSecretRef": {"name": "a-password"}}},
}
"""What nobody without further rights may ask for, by one CRD of each policy."""


def may_get(resource: str, *names: str) -> PolicyRule:
    """In the namespace, or everywhere: all, or these names alone."""
    named: dict[str, Any] = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [""], "resources": [resource], "verbs": ["get"], **named}


@dataclass(frozen=True)
class User:
    """A user of a namespace; `admin` is somebody who may do everything."""

    admin: Api
    api: Api
    namespace: str

    def path(self, kind: Kind, name: str = "") -> str:
        collection = kind.collection.replace("/namespaces/default/", f"/namespaces/{self.namespace}/")
        return f"{collection}/{name}" if name else collection

    def creates(self, kind: Kind, spec: Json, *, name: str = "one", dry_run: bool = False) -> Response:
        body = kind.resource(name, merged(MINIMAL_SPECS[kind.id], spec))
        return self.api.create(self.path(kind), body, dry_run=dry_run)

    def finds(self, kind: Kind, spec: Json, *, name: str = "one") -> None:
        """Somebody who may has made it."""
        self.admin.create(
            self.path(kind), kind.resource(name, merged(MINIMAL_SPECS[kind.id], spec))
        ).accepted()

    def edits(self, kind: Kind, patch: Json, *, name: str = "one") -> Response:
        return self.api.merge(self.path(kind, name), patch)


class Users:
    """Makes users who may write our kinds, each in a namespace of their own, PREFIX-1 and on."""

    def __init__(self, plane: ControlPlane, api: Api, clients: ExitStack, prefix: str) -> None:
        self._plane, self._api, self._clients, self._prefix = plane, api, clients, prefix
        self._numbers = itertools.count(1)

    def new(
        self, *own: PolicyRule, wide: Sequence[PolicyRule] = (), writes: Sequence[PolicyRule] = WRITE
    ) -> User:
        """One with these rights beside: in the namespace, and in all. `writes` are those to our kinds."""
        name = f"{self._prefix}-{next(self._numbers)}"
        way = with_rights(
            self._plane, self._api, namespace=name, account=name, rules=wide, own_rules=[*writes, *own]
        )
        user = User(self._api, self._clients.enter_context(closing(Api(way))), name)
        given = [(writes[0], name), *((rule, "") for rule in wide[:1])]
        for rule, namespace in given:
            wait_until(
                partial(_may, user.api, rule, namespace), seconds=SECONDS, what="the rights being in force"
            )
        return user


def _may(api: Api, rule: PolicyRule, namespace: str) -> bool:
    """The API server takes a moment to hear of a role. All of one role's rules come at once."""
    attributes = {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": rule["resources"][0],
        "name": next(iter(rule.get("resourceNames", ())), ""),
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = api.create(path, {"spec": {"resourceAttributes": attributes}}).accepted()
    return bool(answer["status"]["allowed"])


@contextmanager
def policed(plane: ControlPlane, api: Api, *, prefix: str, served: Sequence[str] = ()) -> Iterator[Users]:
    """The policies in force on entering, and gone on leaving."""
    policies = admission.policies([kind.manifest for kind in KINDS.values()], served=served)
    with ExitStack() as clients:
        users = Users(plane, api, clients, prefix)
        nobody = users.new()
        try:
            with created(api, policies):
                _wait(nobody, 403, "the policies being in force")
                yield users
        finally:
            _wait(nobody, 201, "the policies being gone")


@contextmanager
def created(api: Api, policies: Sequence[admission.Policy]) -> Iterator[None]:
    """They and their bindings; the API server takes a moment to act by them, and to stop."""
    try:
        for policy in policies:
            api.create(f"{GROUP}/validatingadmissionpolicies", _object(policy.name, policy.spec)).accepted()
            api.create(
                f"{GROUP}/validatingadmissionpolicybindings", _object(policy.name, policy.binding)
            ).accepted()
        yield
    finally:
        for policy in policies:
            api.delete(f"{GROUP}/validatingadmissionpolicybindings/{policy.name}")
            api.delete(f"{GROUP}/validatingadmissionpolicies/{policy.name}")


def _wait(nobody: User, status: int, what: str) -> None:
    """The API server takes a moment to hear of them."""

    def all_are() -> bool:
        return all(
            nobody.creates(KINDS[id], spec, dry_run=True).status == status for id, spec in TELLING.items()
        )

    wait_until(all_are, seconds=SECONDS, what=what)


def _object(name: str, spec: Mapping[str, Any]) -> Json:
    return {"metadata": {"name": name}, "spec": dict(spec)}

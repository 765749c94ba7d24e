"""The shipped rights, one verb at a time: which there are, which were used, a cluster without one of them.

Apart from the tests, because what RBAC grants and what the audit log records are worded differently, and
that takes a file to say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from infra import rbac
from tests.apiserver.support.accounts import GROUP
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import Request, wait_until
from tests.apiserver.support.cluster import ACCOUNT, NAMESPACE, USER, Cluster, role_rule
from tests.apiserver.support.kinds import WITH_A_STORE

CREATED = 201
FORBIDDEN = 403
ROLES = (
    (f"/apis/{GROUP}/v1/clusterroles/{ACCOUNT}", rbac.cluster_rules()),
    (f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/roles/{ACCOUNT}", rbac.OWN_NAMESPACE_RULES),
)
SECONDS = 30.0


class Right(NamedTuple):
    """One verb on one resource; `resource` has its subresource, if any."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def granted(kinds: Sequence[str] = ()) -> list[Right]:
    """Every right of the shipped tables, in their order, for these kinds or all of them."""
    return list(
        dict.fromkeys(
            Right(rule.group, resource, verb)
            for rule in (*rbac.cluster_rules(kinds), *rbac.OWN_NAMESPACE_RULES)
            for resource in rule.resources
            for verb in rule.verbs
        )
    )


def of_a_store() -> set[Right]:
    """The rights of WITH_A_STORE alone."""
    return set(granted()) - set(granted(sorted(rbac.NEEDS.keys() - WITH_A_STORE)))


def of_cert_manager() -> set[Right]:
    """The rights that serve clusters with cert-manager: `tests/apiserver/test_cert_manager.py` uses them."""
    return {right for right in granted() if right.group == "cert-manager.io"}


def granted_elsewhere() -> set[Right]:
    """Those that only a cluster with more in it shows to be needed."""
    return of_a_store() | of_cert_manager()


def used(requests: Iterable[Request]) -> set[Right]:
    """What the server let in, found or not. An apply that makes an object needs the right to create, too."""
    found = set()
    for request in requests:
        if request.resource and request.code != FORBIDDEN:
            found.add(Right(request.group, request.resource, request.verb))
            if (request.verb, request.code) == ("patch", CREATED):
                found.add(Right(request.group, request.resource, "create"))
    return found


def denied(requests: Iterable[Request]) -> set[Right]:
    """What the server refused to this user. An apply may be let in, and still not be let make an object."""
    found = set()
    for request in requests:
        if request.code == FORBIDDEN:
            inner = request.verb == "patch" and not request.forbidden
            found.add(Right(request.group, request.resource, "create" if inner else request.verb))
    return found


@contextmanager
def without(cluster: Cluster, right: Right) -> Iterator[None]:
    """The operator without one right, in force on entering; on leaving it has it back, in force again."""
    try:
        _grant(cluster, without=right)
        yield
    finally:
        _grant(cluster, without=None)
        wait_until(lambda: _may(cluster, right), seconds=SECONDS, what=f"{right} being allowed")


@contextmanager
def of_kinds(cluster: Cluster, kinds: Sequence[str]) -> Iterator[None]:
    """The operator with the rights of these kinds alone, in force on entering; on leaving it has all."""
    role, everything = ROLES[0]
    given = [right for right in granted() if right in granted(kinds)]

    def may() -> list[Right]:
        return [right for right in granted() if _may(cluster, right)]

    def give(rules: Sequence[rbac.Rule]) -> None:
        cluster.api.merge(role, {"rules": [role_rule(rule) for rule in rules]}).accepted()

    try:
        give(rbac.cluster_rules(kinds))
        wait_until(lambda: may() == given, seconds=SECONDS, what=f"the rights of {kinds} and no others")
        yield
    finally:
        give(everything)
        wait_until(lambda: may() == granted(), seconds=SECONDS, what="all rights being allowed")


def _grant(cluster: Cluster, *, without: Right | None) -> None:
    for role, rules in ROLES:
        left = [role_rule(part) for rule in rules for part in _parts(rule, without=without)]
        cluster.api.merge(role, {"rules": left}).accepted()
    if without is not None:
        wait_until(lambda: not _may(cluster, without), seconds=SECONDS, what=f"{without} being denied")


def _parts(rule: rbac.Rule, *, without: Right | None) -> Iterator[rbac.Rule]:
    for resource in rule.resources:
        verbs = tuple(verb for verb in rule.verbs if Right(rule.group, resource, verb) != without)
        if verbs:
            yield dataclasses.replace(rule, resources=(resource,), verbs=verbs)


def _may(cluster: Cluster, right: Right) -> bool:
    """The authorizer's own word, which follows a changed Role within a moment."""
    resource, _, below = right.resource.partition("/")
    asked: Json = {
        "namespace": NAMESPACE,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": below,
    }
    if right.resource == "leases":
        asked["name"] = ACCOUNT
    groups = ["system:serviceaccounts", "system:authenticated"]
    body = {"spec": {"user": USER, "groups": groups, "resourceAttributes": asked}}
    review = cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body).accepted()
    return bool(review["status"]["allowed"])

"""What a scenario is: a resource in a first state, and what then happens to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kindling.kinds.base import Kind
from kindling.kube.resources import SECRET, Ref, ResourceType

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import Cluster, ref_to

NAME, WORD = "it", "word"
FIRST, SECOND = "the first", "the second"

Act = Callable[[Cluster, Ref], None]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`spec` by the namespace, which is also the user's name where there is one; then `act`.

    `before` makes what the resource needs to be there; where `creates`, nothing was there before the act.
    `beside` has other resources that are there, or come to be, by type and name: they are waited for as well.
    """

    name: str
    kind: Kind
    act: Act
    spec: Callable[[str], Json]
    before: Act = lambda cluster, ref: None
    creates: bool = False
    password: str = ""
    """With which one can log in in the end, where that is to be tried."""
    beside: tuple[tuple[ResourceType, str], ...] = ()
    resource: str = NAME
    """Its name."""
    once: bool = False
    """Whether no Job and no key pair may be made a second time, not even undisturbed."""
    apart: bool = False
    """Whether its server is no other namespace's: what is made there has the same name in each."""

    @property
    def weight(self) -> int:
        """How much there is to do, a scenario of one resource being 1. Most of those beside are databases."""
        return 1 + 2 * len(self.beside)

    def prepare(self, cluster: Cluster, namespace: str) -> Ref:
        """The state before the act, to be waited for."""
        ref = ref_to(self.kind, namespace, self.resource)
        self.before(cluster, ref)
        if not self.creates:
            cluster.create(self.kind, namespace, self.resource, self.spec(namespace))
        return ref

    def resources(self, namespace: str) -> tuple[Ref, ...]:
        """Its own first."""
        others = (Ref(type, namespace, name) for type, name in self.beside)
        return (ref_to(self.kind, namespace, self.resource), *others)


def edit(spec: Json) -> Act:
    return lambda cluster, ref: _done(cluster.merge(ref, {"spec": spec}))


def _done(what: object) -> None:
    """For an act is done for its effect."""


def delete(cluster: Cluster, ref: Ref) -> None:
    cluster.delete(ref)


def secret(password: str) -> Act:
    """The Secret WORD with that password."""

    def make(cluster: Cluster, ref: Ref) -> None:
        body = {"metadata": {"name": WORD}, "stringData": {"password": password}}
        cluster.api.create(SECRET.path(namespace=ref.namespace), body).accepted()

    return make

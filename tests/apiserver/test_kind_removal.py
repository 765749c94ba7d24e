"""A kind that a stack leaves out goes with all its resources, so `up` refuses while there are any.

Asked of a real API server by the real kubectl.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import paths
from infra.cli.stacks import removed_kinds
from infra.cli.stacks.file_backend import StackState
from infra.errors import KindlingError
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane, tool
from tests.apiserver.support.kinds import KINDS, MEMCACHED, MINIMAL_SPECS

STACK = "urn:pulumi:staging::kindling::kindling:components:Platform$"
DEFINITIONS = tuple(f"{STACK}{removed_kinds.DEFINITION}::{name}" for name in KINDS)
OTHERS = [name for name in KINDS if name != MEMCACHED.id]
NAMESPACE = "removal"

Check = Callable[..., None]


@pytest.fixture
def check(tmp_path: Path, plane: ControlPlane, api: Api, monkeypatch: pytest.MonkeyPatch) -> Check:
    """`removal.check` in a stack of this cluster, with this record."""
    (tmp_path / "Pulumi.staging.yaml").write_text(
        "config:\n  kindling:cluster: existing\n  kindling:context: test\n"
        f"  kindling:kubeconfig: {plane.kubeconfig}\n"
    )
    (tmp_path / "crds").symlink_to(paths.REPOSITORY / "crds")
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)

    def run(definitions: list[str], state: StackState | None) -> None:
        removed_kinds.check("staging", definitions, state, kubectl=tool("kubectl"))

    return run


@pytest.fixture
def resource(api: Api) -> str:
    """The path of a Memcached in a namespace of its own."""
    if api.get(f"/api/v1/namespaces/{NAMESPACE}").status == 404:
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).accepted()
    collection = MEMCACHED.collection.replace("/default/", f"/{NAMESPACE}/")
    api.create(collection, MEMCACHED.resource("kept", MINIMAL_SPECS[MEMCACHED.id]))
    return f"{collection}/kept"


def test_a_kind_that_has_resources_is_not_removed(check: Check, api: Api, resource: str) -> None:
    with pytest.raises(KindlingError) as raised:
        check(OTHERS, StackState(resources=DEFINITIONS))
    assert MEMCACHED.id in raised.value.what
    assert "kindling:kinds of stack `staging`" in raised.value.what
    # The first few are named: other tests may have left some on this server.
    assert re.search(rf"{NAMESPACE}/kept|and \d+ more", raised.value.why)
    assert f"kubectl delete {MEMCACHED.id}" in raised.value.remedy
    api.get(resource).accepted()


def test_what_the_stack_keeps_or_never_had_is_not_asked_for(check: Check, resource: str) -> None:
    check(list(KINDS), StackState(resources=DEFINITIONS))
    check(OTHERS, StackState(resources=tuple(urn for urn in DEFINITIONS if MEMCACHED.id not in urn)))
    check(OTHERS, None)


def test_an_empty_kind_may_go_and_so_may_the_stacks_own_samples(
    check: Check, api: Api, resource: str
) -> None:
    api.delete(resource).accepted()
    for other in api.get(MEMCACHED.collection.replace("/namespaces/default", "")).accepted()["items"]:
        meta = other["metadata"]
        api.delete(f"{MEMCACHED.collection.replace('default', meta['namespace'])}/{meta['name']}").accepted()
    check(OTHERS, StackState(resources=DEFINITIONS))
    api.create(MEMCACHED.collection, MEMCACHED.resource("memcached-sample", {"size": 1})).accepted()
    with pytest.raises(KindlingError, match=MEMCACHED.id):
        check(OTHERS, StackState(resources=DEFINITIONS))
    own = (
        f"{STACK}kindling:components:Samples$kubernetes:cache.example.com/v1alpha1:Memcached"
        "::memcached.cache.example.com-memcached-sample"
    )
    check(OTHERS, StackState(resources=(*DEFINITIONS, own)))
    api.delete(f"{MEMCACHED.collection}/memcached-sample").accepted()


def test_a_protected_definition_is_refused_in_words(check: Check) -> None:
    with pytest.raises(KindlingError) as raised:
        check(OTHERS, StackState(resources=DEFINITIONS, protected=DEFINITIONS))
    assert "is protected" in raised.value.what
    assert "kindling:protect to false in Pulumi.staging.yaml" in raised.value.remedy


def test_without_an_answer_nothing_is_removed(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.staging.yaml"
    file.write_text(file.read_text().replace("context: test", "context: nowhere"))
    with pytest.raises(KindlingError, match="is unknown"):
        check(OTHERS, StackState(resources=DEFINITIONS))


def test_a_definition_that_was_deleted_by_hand_has_no_resources(check: Check) -> None:
    gone = f"{STACK}{removed_kinds.DEFINITION}::gone.example.com"
    check(list(KINDS), StackState(resources=(*DEFINITIONS, gone)))

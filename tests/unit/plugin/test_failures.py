"""kubectl's words: which right is missing, and where; a cluster that does not answer; all else as it is."""

from __future__ import annotations

import pytest
from kubectl_kindling import failures
from kubectl_kindling.failures import Right

from tests.unit.plugin.recordings import FORBIDDEN

NO_CLUSTER = (
    'E1124 22:08:18.429929     300 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API '
    'group list: Get \\"http://localhost:8080/api?timeout=32s\\": dial tcp 127.0.0.1:8080: connect: '
    'connection refused"\n'
    "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n"
)
WIDE = (
    'Error from server (Forbidden): pods is forbidden: User "x" cannot list resource "pods" in API group "" '
    "at the cluster scope\n"
)
BELOW = (
    'Error from server (Forbidden): pods "a" is forbidden: User "x" cannot create resource "pods/exec" in '
    'API group "" in the namespace "shop"\n'
)


def test_each_missing_right_is_read_once() -> None:
    found = failures.missing_rights(FORBIDDEN + FORBIDDEN)
    assert len(found) == 10
    assert found[0] == Right("list", "statefulsets.apps", "shop")
    assert found[-1] == Right("list", "pods", "shop")
    assert failures.missing_rights(WIDE) == [Right("list", "pods")]
    assert failures.missing_rights(BELOW) == [Right("create", "pods/exec", "shop")]
    assert failures.missing_rights('Error from server (NotFound): pods "a" not found') == []


def test_rights_are_described_by_verb_and_namespace() -> None:
    (sentence,) = failures.described(failures.missing_rights(FORBIDDEN))
    assert sentence.startswith("you lack the right `list` in namespace `shop` on `statefulsets.apps`, ")
    assert failures.described([Right("list", "pods"), Right("get", "secrets", "shop")]) == [
        "you lack the right `list` in all namespaces on `pods`",
        "you lack the right `get` in namespace `shop` on `secrets`",
    ]


def test_a_missing_right_names_verb_resource_namespace_and_who() -> None:
    error = failures.error_of(["get", "pods"], 1, BELOW)
    assert error.what == "you lack the right `create` in namespace `shop` on `pods/exec`"
    assert 'User "x"' in error.why
    assert "`kubectl auth can-i create pods/exec --namespace shop`" in error.remedy
    assert "--all-namespaces" in failures.error_of(["get", "pods"], 1, WIDE).remedy


def test_no_cluster_is_said_without_kubectls_log() -> None:
    error = failures.error_of(["api-resources"], 1, NO_CLUSTER)
    assert error.what == "no cluster answers"
    assert error.why.startswith("The connection to the server localhost:8080 was refused")
    assert "memcache.go" not in error.why
    assert "--context" in error.remedy


def test_a_login_that_is_not_accepted() -> None:
    error = failures.error_of(["get"], 1, "error: You must be logged in to the server (Unauthorized)\n")
    assert error.what == "the cluster does not accept your login"
    assert error.why == "You must be logged in to the server (Unauthorized)"


def test_another_failure_has_the_command_and_its_words() -> None:
    error = failures.error_of(["get", "x"], 7, 'error: context "nope" does not exist\n')
    assert error.what == "`kubectl get x` exited with status 7"
    assert error.why == 'context "nope" does not exist'


@pytest.mark.parametrize("length", [10, 500])
def test_a_command_is_shown_shortened(length: int) -> None:
    assert len(failures.shown(["x" * length])) <= 160

"""What the running server is asked: a login as an application would, and what it takes to make that so."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.postgresql.login import Login
from kindling.kube.resources import SECRET, Object, Ref

from tests.unit.operator.postgresqls import observed, postgresql, request, running, secret


def login(children: dict[Ref, Object] | None = None, **spec: Any) -> Login:
    found = request(postgresql(**spec), observed(running() if children is None else children))
    assert found is not None
    return found


def test_logs_in_through_the_service_as_the_user_with_the_secrets_password() -> None:
    asked = login(defaultUser="ada")
    assert (asked.user, asked.password) == ("ada", "made")
    assert asked.host.split(".")[:2] == ["db", "ns"]
    assert (asked.namespace, asked.pod, asked.port) == ("ns", "db-0", 5432)
    assert login(password="given").password == "given"


@pytest.mark.parametrize(
    ("values", "password"), [({"password": "super"}, "super"), ({"password": ""}, None), ({}, None)]
)
def test_makes_it_so_as_the_superuser_whose_password_is_known(
    values: dict[str, str], password: str | None
) -> None:
    asked = login({**running(), Ref(SECRET, "ns", "db-superuser"): secret(**values)})
    assert (asked.superuser, asked.superuser_password) == ("kindling", password)


def test_paused_it_looks_and_makes_nothing_so() -> None:
    assert login().provision
    assert not login(paused=True).provision


def test_no_password_is_in_its_repr() -> None:
    shown = repr(login())
    assert "made" not in shown
    assert "'super'" not in shown

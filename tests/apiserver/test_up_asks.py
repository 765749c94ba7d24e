"""`up` in an existing cluster, on a terminal: Pulumi shows what it will do and asks, and hears the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.existing import ROWS, new_stack, ok
from tests.unit.infra.cli_machine import Machine
from tests.unit.infra.registry_server import registry
from tests.unit.infra.terminal import CTRL_C, ENTER, UP, Terminal

QUESTION = "Do you want to perform this update?"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def machine(tmp_path: Path, plane: ControlPlane, host: str) -> Machine:
    return new_stack(tmp_path, plane, host=host)


def asked(machine: Machine) -> Terminal:
    terminal = Terminal(machine, "up", "staging")
    terminal.wait(lambda lines: any(QUESTION in line for line in lines))
    return terminal


def test_nothing_is_done_without_a_yes(machine: Machine, api: Api) -> None:
    terminal = asked(machine)
    assert api.get(ROWS).status == 404
    terminal.press(CTRL_C)
    # Pulumi's question has the keys: to it, that one is an answer.
    assert terminal.end() == 1, "\n".join(terminal.shown)
    assert any("confirmation cancelled" in line for line in terminal.shown)
    assert api.get(ROWS).status == 404
    terminal = asked(machine)
    terminal.press(ENTER)  # `no` is what stands there.
    assert terminal.end() == 1, "\n".join(terminal.shown)
    assert api.get(ROWS).status == 404
    terminal = asked(machine)
    terminal.press(UP + ENTER)
    assert terminal.end() == 0, "\n".join(terminal.shown)
    assert api.get(ROWS).status == 200
    assert any("Stack staging is up." in line for line in terminal.shown)
    ok(machine, "destroy", "staging")

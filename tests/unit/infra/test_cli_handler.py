"""`handler`: which file it takes, what the runner is given, and what is said where something is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pulsar_consumer.python_handler import load, stage
from pulsar_consumer.schema import Schema
from pulsar_consumer.settings import Consumer, Python

from infra.cli.arguments import parse
from infra.cli.commands.handler import environment, named
from infra.cli.dev import broker_proxy
from infra.errors import KindlingError
from tests.unit.infra.cli_machine import Machine, new_machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return new_machine(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "my shop" / "laptop_orders.py"
    made.parent.mkdir()
    made.write_text("import laptop_prices\n\ndef handle(message): return laptop_prices.OF\n")
    (made.parent / "laptop_prices.py").write_text("OF = b'7'\n")
    return made


def test_the_runner_has_the_files_where_they_are(file: Path, tmp_path: Path) -> None:
    """So a traceback names them, and what they import beside them is found."""
    command = parse(["handler", str(file), "--topic", "orders", "--subscription", "mine", "--earliest"])
    found, function = named(command.handler)
    assert (found, function) == (file, "handle")
    given = environment(command, found, function, server="pulsar://127.0.0.1:7", scratch=tmp_path)
    settings = Consumer.load(given)
    assert (settings.broker.server, settings.topics.names) == ("pulsar://127.0.0.1:7", ("orders",))
    assert (settings.subscription, settings.initial_position) == ("mine", "Earliest")
    assert settings.handling is not None
    handler = settings.handling.handler
    assert isinstance(handler, Python)
    assert settings.handling.schema is None
    assert stage(handler) == file.parent
    try:
        assert load(stage(handler), handler.name)(None) == b"7"
    finally:
        for name in ("laptop_orders", "laptop_prices"):
            sys.modules.pop(name, None)


def test_payloads_are_read_by_the_schema_if_asked_to(file: Path, tmp_path: Path) -> None:
    command = parse(["handler", str(file), "--topic", "orders", "--schema", "Avro"])
    given = environment(command, file, "handle", server="pulsar://127.0.0.1:7", scratch=tmp_path)
    handling = Consumer.load(given).handling
    assert handling is not None
    assert handling.schema == Schema(type="Avro")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("none.py", "there is no file none.py"),
        ("with-hyphen.py", "with-hyphen.py names no function or class in a Python module"),
        ("orders.txt", "orders.txt names no function"),
        ("orders.py:a b", "orders.py:a b names no function"),
    ],
)
def test_what_is_no_handler_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("with-hyphen.py", "orders.txt", "orders.py"):
        (tmp_path / name).touch()
    with pytest.raises(KindlingError, match=words):
        named(given)


def test_without_a_broker_it_says_so_and_leaves_nothing(machine: Machine, file: Path) -> None:
    kubectl = machine.home / "bin" / "kubectl"
    kubectl.write_text(
        f"#!{sys.executable}\nimport sys\n"
        'if "version" in sys.argv: print("Client Version: v1.34.4\\nKustomize Version: v5")\n'
        'else: sys.exit("Error from server (NotFound): deployments.apps \\"pulsar\\" not found")\n'
    )
    kubectl.chmod(0o755)
    done = machine.cli("handler", str(file), "--topic", "orders")
    assert done.returncode == 1
    assert "stack `dev` has no broker" in done.stderr
    assert 'why: Error from server (NotFound): deployments.apps "pulsar" not found' in done.stderr
    assert "--server" in done.stderr


def test_the_proxy_is_restricted_and_ends_by_itself() -> None:
    made = broker_proxy.pod("proxy-1", image="pulsar:1")
    assert made["spec"]["activeDeadlineSeconds"] > 0
    assert made["spec"]["automountServiceAccountToken"] is False
    config = made["metadata"]["annotations"][broker_proxy.CONFIG]
    assert "brokerServiceURL=pulsar://pulsar.pulsar.svc:6650\n" in config
    # The broker's Service selects by this label.
    assert made["metadata"]["labels"]["app.kubernetes.io/component"] != "broker"

"""The command line: what each command takes, kubectl's options before and after it, usage errors."""

from __future__ import annotations

import pytest
from kubectl_kindling import __main__ as entry
from kubectl_kindling.arguments import Command, parse
from kubectl_kindling.cli import COMMANDS
from kubectl_kindling.errors import FAILED, USAGE

OPTIONS = ("--context=c", "--namespace=n", "--kubeconfig=k")


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("status", Command("status")),
        ("status -A -o json", Command("status", everywhere=True, json=True)),
        ("status pge/mydb", Command("status", "pge/mydb")),
        ("logs mc/x -f --since 5m", Command("logs", "mc/x", follow=True, since="5m")),
        ("logs mc/x --tail -1", Command("logs", "mc/x", tail=-1)),
        ("psql mydb -- -c select", Command("psql", "mydb", rest=("-c", "select"))),
        ("psql mydb -- -n --", Command("psql", "mydb", rest=("-n", "--"))),
        ("restart mydb --yes", Command("restart", "mydb", yes=True)),
        ("hibernate mydb", Command("hibernate", "mydb")),
        ("rotate mydb", Command("rotate", "mydb")),
        ("approve mydb --yes", Command("approve", "mydb", yes=True)),
        ("replay orders --from 2h --yes", Command("replay", "orders", since="2h", yes=True)),
        ("wake mydb", Command("wake", "mydb")),
        ("backup nightly", Command("backup", "nightly")),
        ("drill nightly", Command("drill", "nightly")),
        ("restore nightly --to copy --at T", Command("restore", "nightly", to="copy", at="T")),
        (
            "restore nightly --database shop --database stock=old",
            Command("restore", "nightly", databases=("shop", "stock=old")),
        ),
        ("restore nightly --in-place --yes", Command("restore", "nightly", in_place=True, yes=True)),
        ("undo back", Command("undo", "back")),
        ("report pge/mydb --file x", Command("report", "pge/mydb", output_file="x")),
        ("version --operator-namespace o", Command("version", operator_namespace="o")),
    ],
)
def test_each_command(line: str, command: Command) -> None:
    assert parse(line.split()) == command


def test_each_command_is_carried_out() -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    for name in COMMANDS:
        with pytest.raises(SystemExit) as raised:
            parse([name, "--help"])
        assert raised.value.code == 0


@pytest.mark.parametrize(
    "line",
    [
        "--context c -n n --kubeconfig k status",
        "status --context=c --namespace=n --kubeconfig=k",
        "--context c status -n n --kubeconfig k",
    ],
)
def test_kubectls_options_before_and_after_the_command(line: str) -> None:
    assert parse(line.split()).options == OPTIONS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "frob",
        "status a/b c/d",
        "status -o yaml",
        "logs",
        "psql",
        "psql mydb -c select",
        "restart",
        "wake x --yes",
        "status -- x",
        "logs a/b --tail many",
        "status --all",
    ],
)
def test_usage_errors(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(line.split())
    assert raised.value.code == USAGE
    assert "usage: kubectl kindling" in capsys.readouterr().err


def test_an_older_python_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.version_info", (3, 9, 2))
    assert entry.main() == FAILED
    printed = capsys.readouterr().err
    assert "needs Python 3.11 or later" in printed
    assert "python3 is Python 3.9" in printed

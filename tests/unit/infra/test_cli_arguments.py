"""Arguments to commands, and what a stranger reads when they are wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli.arguments import Command, parse
from infra.cli.commands.exec_tool import tool_args
from infra.cli.stacks.pulumi_stack import settings_file
from infra.paths import REPOSITORY


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "infra", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (["up"], Command("up", stack="dev")),
        (["drift", "test"], Command("drift", stack="test")),
        (["destroy", "test"], Command("destroy", stack="test")),
        (["up", "--plan", "p.json"], Command("up", plan=Path("p.json"))),
        (
            ["preview", "test", "--markdown", "a.md", "--save-plan", "p.json"],
            Command("preview", stack="test", markdown=Path("a.md"), save_plan=Path("p.json")),
        ),
        (
            ["preview", "test", "--live"],
            Command("preview", stack="test", live=True),
        ),
        (["test"], Command("test")),
        (["renew"], Command("renew")),
        (["promote", "staging", "prod"], Command("promote", stack="prod", source="staging")),
        (
            ["promote", "staging", "prod", "--release", "1a2b", "--pull-request"],
            Command("promote", stack="prod", source="staging", release="1a2b", pull_request=True),
        ),
        # As a workflow says it that was given none.
        (["promote", "staging", "prod", "--release="], Command("promote", stack="prod", source="staging")),
        (
            ["release", "--version", "1.2.3", "--images", "a", "b", "--images", "c", "--output", "o"],
            Command("release", version="1.2.3", images=("a", "b", "c"), output=Path("o")),
        ),
        (["checkout", "prod", "../prod"], Command("checkout", stack="prod", folder=Path("../prod"))),
        (["test", "-k", "plan", "--pdb"], Command("test", rest=("-k", "plan", "--pdb"))),
        (
            ["exec", "kubectl", "-n", "x", "exec", "-it", "p", "--", "psql", "-h", "mydb"],
            Command("exec", tool="kubectl", rest=("-n", "x", "exec", "-it", "p", "--", "psql", "-h", "mydb")),
        ),
        (["exec", "kubectl", "--", "get", "pods"], Command("exec", tool="kubectl", rest=("get", "pods"))),
        (
            ["exec", "--stack", "test", "pulumi", "stack", "--help"],
            Command("exec", stack="test", tool="pulumi", rest=("stack", "--help")),
        ),
        (
            ["handler", "orders.py", "--topic", "orders"],
            Command("handler", handler="orders.py", topic="orders", subscription="laptop"),
        ),
        (
            ["selftest", "-", "more/", "--only", "mydb", "--writes", "3", "--to", "b.yaml", "--json"],
            Command("selftest", files=("-", "more/"), only="mydb", writes=3, to="b.yaml", json=True),
        ),
        (
            ["exec", "pulumi", "up", "--stack", "other"],
            Command("exec", tool="pulumi", rest=("up", "--stack", "other")),
        ),
    ],
)
def test_arguments_become_a_command(given: list[str], command: Command) -> None:
    assert parse(given) == command


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], "COMMAND"),
        (["launch"], "launch"),
        (["up", "dev", "more"], "more"),
        (["up", "--fast"], "--fast"),
        (["up", "--markdown", "a.md"], "--markdown"),
        (["preview", "--plan", "p.json"], "--plan"),
        (["preview", "--save-plan"], "--save-plan"),
        (["exec", "helm", "list"], "helm"),
        (["exec"], "TOOL"),
        (["promote", "prod"], "TARGET"),
        (["checkout", "prod"], "FOLDER"),
        (["release", "--version", "1.2.3", "--output", "o"], "--images"),
        (["handler", "orders.py"], "--topic"),
        (["handler", "--topic", "orders"], "FILE[:NAME]"),
    ],
)
def test_usage_errors_are_named_and_end_with_2(given: list[str], named: str) -> None:
    done = cli(*given)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("given", [["--help"], ["up", "--help"], ["exec", "--help"], ["test", "--help"]])
def test_help_goes_to_standard_output(given: list[str]) -> None:
    done = cli(*given)
    assert (done.returncode, done.stderr) == (0, "")
    assert "python3 -m infra" in done.stdout


def test_help_names_every_command() -> None:
    shown = cli("--help").stdout
    names = (
        "up",
        "preview",
        "refresh",
        "destroy",
        "dev",
        "handler",
        "doctor",
        "exec",
        "renew",
        "release",
        "selftest",
        "test",
    )
    assert all(name in shown for name in names)


@pytest.mark.parametrize(
    ("given", "again"),
    [
        (["up"], "python3 -m infra up"),
        (["up", "test", "--plan", "p.json"], "python3 -m infra up test --plan p.json"),
        (
            ["exec", "--stack", "test", "kind", "get", "nodes"],
            "python3 -m infra exec --stack test kind get nodes",
        ),
        (["test", "-k", "a or b"], "python3 -m infra test -k 'a or b'"),
    ],
)
def test_a_command_says_how_to_run_it_again(given: list[str], again: str) -> None:
    assert parse(given).again == again


def test_kubectl_gets_the_stacks_context() -> None:
    assert tool_args("kubectl", ["get", "pods"], stack="test") == [
        "--context=kind-kindling-test",
        "get",
        "pods",
    ]


@pytest.mark.parametrize("rest", [["--context", "mine", "get"], ["get", "--kubeconfig=/x"]])
def test_kubectl_keeps_a_context_it_was_given(rest: list[str]) -> None:
    assert tool_args("kubectl", rest, stack="dev") == rest


def test_the_arguments_of_a_program_in_a_pod_are_not_kubectls() -> None:
    rest = ["exec", "p", "--", "tool", "--context=there"]
    assert tool_args("kubectl", rest, stack="dev")[0] == "--context=kind-kindling-dev"


def test_other_tools_get_their_arguments_unchanged() -> None:
    assert tool_args("kind", ["get", "nodes"], stack="dev") == ["get", "nodes"]


@pytest.mark.parametrize("rest", [["preview", "--diff"], ["--color=never", "up"]])
def test_pulumis_operations_get_the_copy_of_the_settings(rest: list[str]) -> None:
    assert tool_args("pulumi", rest, stack="dev") == [*rest, f"--config-file={settings_file('dev')}"]


@pytest.mark.parametrize(
    "rest", [["up", "--config-file", "mine"], ["stack", "import"], ["config", "set", "a", "b"]]
)
def test_pulumi_keeps_other_arguments_as_they_are(rest: list[str]) -> None:
    assert tool_args("pulumi", rest, stack="dev") == rest

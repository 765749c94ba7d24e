"""The selftest as a process: its way out of this machine, its end, and how one gets there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import kindling.selftest
import pytest

from infra import bootstrap, paths
from infra.bootstrap import Toolchain, virtualenv
from infra.cli import arguments, host_inventory
from infra.cli.commands import selftest as command
from infra.cli.setup_steps import HostReport
from selftest.__main__ import main
from selftest.environment import GUARD
from tests.convergence import admin_api

SOURCES = os.pathsep.join(
    str(paths.REPOSITORY / name) for name in ("", "operator/src", "operator/images/postgres-backup")
)
ASKS = """
import http.client, socket
host = socket.getaddrinfo("broker.example.com", 8080)[0][4][0]
plain = socket.create_connection((host, 8080), timeout=5)
connection = http.client.HTTPConnection("broker.example.com", 8080)
connection.sock = plain
connection.request("DELETE", "/admin/v2/persistent/public/default/orders/subscription/s")
print(connection.getresponse().status)
"""


def ask(site: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site)}
    words = [sys.executable, "-c", ASKS]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_an_address_of_the_files_leads_to_the_stand_in(tmp_path: Path) -> None:
    shutil.copy(GUARD, tmp_path / "sitecustomize.py")
    with admin_api.running():
        (tmp_path / "stand_in").write_text(admin_api.url())
        done = ask(tmp_path)
    assert done.stdout.strip() == "204", done.stderr


def test_without_a_stand_in_nobody_is_asked(tmp_path: Path) -> None:
    shutil.copy(GUARD, tmp_path / "sitecustomize.py")
    done = ask(tmp_path)
    assert "ConnectionRefusedError: there is no stand-in yet" in done.stderr


INTERRUPTED = """
import os, subprocess, sys, time
from pathlib import Path
from selftest.environment import folder
from selftest.interrupts import Interrupted, interruptible
try:
    with interruptible(), folder() as root:
        sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(sleeps, start_new_session=True)
        print(child.pid, root, flush=True)
        time.sleep(600)
except Interrupted as interrupt:
    print(interrupt.status)
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, "130"), (signal.SIGTERM, "143")])
def test_an_interrupt_leaves_no_program_and_no_folder(number: int, status: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid, root = process.stdout.readline().split()
        process.send_signal(number)
        assert process.stdout.readline().strip() == status
        assert process.wait(60) == 0
    assert not Path(root).exists()
    assert not Path(f"/proc/{pid}").exists()


def test_bad_input_ends_with_2_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err.endswith("none.yaml: No such file or directory\n")


def test_only_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    samples = paths.REPOSITORY / "samples"
    files = [str(samples / "memcached.yaml"), str(samples / "mycustomresource.yaml")]
    assert main([*files, "--only", "mine"]) == 2
    assert capsys.readouterr().err == (
        "error: --only mine: there is no such resource: use one of Memcached/memcached-sample, "
        "MyCustomResource/my-custom-resource-01\n"
    )


def test_a_next_spec_needs_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    samples = paths.REPOSITORY / "samples"
    words = [str(samples / "memcached.yaml"), "--to", str(samples / "mycustomresource.yaml")]
    assert main(words) == 2
    assert "is in no FILE, so it has no spec before this one" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["a.yaml", "--writes", "0"], ["a.yaml", "--writes", "few"]])
def test_usage_errors_end_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        arguments.parse(["selftest", *words])
    assert caught.value.code == 2


def test_without_postgresql_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap.apt, "has_postgresql", lambda: False)
    assert main([str(paths.REPOSITORY / "samples" / "memcached.yaml")]) == 1
    assert "on Debian `python3 -m infra selftest` installs them" in capsys.readouterr().err


def test_infra_becomes_it_with_the_same_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Became(Exception):
        pass

    became: list[list[str]] = []

    def execve(program: Path, words: list[str], env: dict[str, str]) -> None:
        became.append(words[1:])
        assert env["PATH"].startswith(f"{tmp_path}{os.pathsep}/tools{os.pathsep}")
        assert str(paths.REPOSITORY / "operator" / "src") in env["PYTHONPATH"].split(os.pathsep)
        raise Became

    monkeypatch.setattr(
        host_inventory, "inspect_host", lambda *_, **__: HostReport("test", (), (), (), "unknown")
    )
    monkeypatch.setattr(virtualenv, "ensure", lambda *_, **__: tmp_path / "python")
    monkeypatch.setattr(bootstrap.apt, "has_postgresql", lambda: True)
    monkeypatch.setattr(Toolchain, "path", lambda *_: "/tools")
    monkeypatch.setattr("infra.cli.exit_status.hold_interrupts", lambda: None)
    monkeypatch.setattr(os, "execve", execve)
    with pytest.raises(Became):
        command.run(arguments.parse(["selftest", "a.yaml", "--only", "x", "--json"]))
    assert became == [["-m", "selftest", "a.yaml", "--only", "x", "--json"]]


def test_the_operators_module_runs_it_in_a_checkout() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kindling.selftest", "/nowhere.yaml"],
        env={**os.environ, "PYTHONPATH": str(paths.REPOSITORY / "operator" / "src")},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "error: /nowhere.yaml: No such file or directory\n")


def test_elsewhere_the_operators_module_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is no checkout of Kindling" in kindling.selftest.why_not(tmp_path)
    monkeypatch.setattr(kindling.selftest, "NEEDED", ("psycopg", "no_such_package"))
    assert "this Python lacks no_such_package: run" in kindling.selftest.why_not(paths.REPOSITORY)

"""What kubectl's completion gets: commands, options, and names that the cluster has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kubectl_kindling import arguments, cli, completion

from infra.distribution import plugin
from infra.paths import REPOSITORY
from tests.unit.plugin.fake_kubectl import FakeKubectl


def candidates(*words: str) -> list[str]:
    found, directive = completion.complete(words)
    assert directive == completion.NO_FILES
    return found


def has_names(kubectl: FakeKubectl) -> None:
    for type, *names in (
        ("postgresqls.database.db.example.com", "mydb", "orders"),
        ("postgresqls.database.technotuesday.io", "other"),
        ("backups.database.technotuesday.io", "nightly"),
        ("memcacheds.cache.example.com", "sessions"),
        ("namespaces", "shop", "default"),
    ):
        kubectl.say("get", type, stdout="".join(f"{type}/{name}\n" for name in names))
    kubectl.say("get", stdout="")


def test_commands_and_options(kubectl: FakeKubectl) -> None:
    assert set(candidates("")) == cli.COMMANDS.keys()
    assert candidates("dr") == ["drill"]
    assert candidates("restore", "nightly", "--i") == ["--in-place"]
    assert "--reason" in candidates("dead-letters", "--")
    assert "--in-place" not in candidates("dead-letters", "--")
    assert candidates("dead-letters", "orders", "--reason", "M") == ["MaxDeliveries"]
    assert candidates("status", "-o", "") == ["json"]
    assert candidates("--kube") == ["--kubeconfig"]
    assert kubectl.asked == [], "none of it needs a cluster"


def test_names_are_those_of_the_kind_that_the_command_takes(kubectl: FakeKubectl) -> None:
    has_names(kubectl)
    assert candidates("psql", "") == ["mydb", "orders", "other"]
    assert candidates("psql", "o") == ["orders", "other"]
    assert candidates("restore", "") == ["nightly"]
    assert candidates("status", "") == [
        "backup/nightly",
        "memcached/sessions",
        "pge/mydb",
        "pge/orders",
        "pgt/other",
    ]
    assert candidates("status", "memcached/sessions", "") == [], "one is enough"
    assert candidates("version", "") == []
    assert candidates("psql", "-n", "sh") == ["shop"]


def test_the_cluster_is_the_one_that_was_named(kubectl: FakeKubectl) -> None:
    has_names(kubectl)
    assert candidates("--context=c", "psql", "-n", "shop", "m") == ["mydb"]
    assert all(words[:2] == ["--context=c", "--namespace=shop"] for words in kubectl.asked)


def test_files_are_the_shells_to_complete(kubectl: FakeKubectl) -> None:
    assert completion.complete(["plan", "-f", "sh"]) == ([], completion.FILES)
    assert completion.complete(["--kubeconfig", "x"]) == ([], completion.FILES)


def test_of_a_cluster_that_does_not_answer_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FakeKubectl(tmp_path)
    found.says.clear()
    found.say(stderr="The connection to the server was refused\n", status=1)
    monkeypatch.setenv("PATH", str(found.bin))
    assert candidates("psql", "") == []
    assert candidates("status", "-n", "") == []


def test_every_command_that_takes_a_name_says_of_what() -> None:
    takes = {
        name
        for name in arguments.commands()
        if any(action.dest == "target" for action in arguments._subparsers()[name]._actions)
    }
    assert takes == completion.TARGETS.keys()


def test_the_one_file_completes_by_its_other_name(tmp_path: Path, kubectl: FakeKubectl) -> None:
    program = tmp_path / plugin.NAME
    program.write_bytes(plugin.zipapp(REPOSITORY / plugin.FOLDER, version="1.2.3", commit="c"))
    program.chmod(0o755)
    other = tmp_path / "kubectl_complete-kindling"
    other.symlink_to(program)
    path = f"{kubectl.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [other, "hib"], env={"PATH": path}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "hibernate\n:4\n"

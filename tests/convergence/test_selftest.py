"""The selftest on the samples: it passes, finds an operator that is broken on purpose, and leaves nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from infra.cli import arguments
from infra.paths import REPOSITORY
from selftest import sweep
from selftest.__main__ import pairs, tried
from selftest.admission import check
from selftest.manifests import BadInput
from selftest.results import Secrets
from tests.apiserver.support.operator_process import SOURCE
from tests.convergence.harness import Harness

SAMPLES = REPOSITORY / "samples"
MEMCACHED = str(SAMPLES / "memcached.yaml")
SOURCES = ("", "operator/src", "operator/images/postgres-backup")
SECONDS = 900.0
# The children say which process wrote them, so a restart changes them.
SOUND = '    return {\n        "namespace": cr["metadata"]["namespace"],\n'
BROKEN = f'    import os\n{SOUND}        "annotations": {{"process": str(os.getpid())}},\n'
DATABASES = """\
apiVersion: v1
kind: Secret
metadata: {name: reporting}
stringData: {password: the-word-of-reporting}
---
apiVersion: database.technotuesday.io/v1
kind: Postgresql
metadata: {name: orders, labels: {team: shop}}
spec:
  defaultUser: orders
  parameters: {work_mem: 8MB, max_connections: "40"}
  hba: [host all all 10.0.0.0/8 scram-sha-256]
  roles: [{name: reporting, login: true, passwordSecretRef: {name: reporting, key: password}}]
  databases: [{name: sales, schemas: [{name: eu}]}]
"""
CACHES = """\
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: sessions}
spec: {size: 2}
"""


def start(*words: str, home: Path) -> subprocess.Popen[str]:
    """Whatever it writes is in `home`."""
    path = os.pathsep.join(str(REPOSITORY / name) for name in SOURCES)
    return subprocess.Popen(
        [sys.executable, "-m", "selftest", *words],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def home() -> Iterator[Path]:
    """Of a short name, for the path of a socket; nothing and nobody is left in it."""
    path = Path("/tmp") / f"selftest-{os.getpid()}"
    path.mkdir()
    path.chmod(0o711)
    try:
        yield path
        assert list(path.iterdir()) == []
        assert users(path) == []
    finally:
        shutil.rmtree(path, ignore_errors=True)


def users(folder: Path) -> list[str]:
    """The programs that have this folder in their arguments or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            output = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in output:
            found.append(f"{process.name}: {(process / 'cmdline').read_text()}")
    return found


def test_a_few_writes_of_a_sample_change_nothing_in_the_end(home: Path) -> None:
    process = start(MEMCACHED, "--writes", "2", "--json", home=home)
    output, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output + said
    report = json.loads(output)
    (resource,) = report["resources"]
    assert report["equal"]
    assert (resource["name"], resource["undisturbed"]) == ("Memcached/memcached-sample", "Ready")
    assert (resource["writes"], resource["different"]) == (2, 0)
    # A busy machine puts two writes into one now and then.
    assert sum(resource["kills"].values()) == 4
    assert resource["kills"]["missed"] <= 2
    assert "Memcached/memcached-sample: write 2 of 2; " in said


def test_ctrl_c_ends_all_that_it_started(home: Path) -> None:
    process = start(MEMCACHED, home=home)
    assert process.stdout is not None
    while line := process.stdout.readline():
        if "undisturbed at first" in line:
            break
    assert len(users(home)) > 3, process.communicate(timeout=SECONDS)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert said.endswith("interrupted: all that it had started has ended, and nothing is left of it\n")


def test_an_operator_that_ends_otherwise_after_a_kill_is_found(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SOURCE, tmp_path / "src")
    metadata = tmp_path / "src" / "kindling" / "kinds" / "metadata.py"
    text = metadata.read_text()
    assert SOUND in text
    metadata.write_text(text.replace(SOUND, BROKEN))
    monkeypatch.setattr(sweep, "DIFFERENT_SECONDS", 6.0)
    command = arguments.parse(["selftest", MEMCACHED, "--writes", "1", "--keep", str(tmp_path / "kept")])
    found, todo = pairs(command)
    harness.restart({"PYTHONPATH": str(tmp_path / "src")})
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            assert tried(harness, command, found, todo, Secrets(())) == 1
    finally:
        harness.restart({})
    lines = said.getvalue()
    assert "DIFFERENT: Memcached/memcached-sample created, killed before write" in lines
    assert "deployments memcached-sample: .metadata.annotations.process: expected" not in lines
    assert "deployments memcached-sample: metadata.annotations.process: expected" in lines
    report = json.loads((tmp_path / "kept" / "report.json").read_text())
    assert not report["equal"]


def test_what_the_crds_reject_is_said_by_file_in_the_servers_words(harness: Harness, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(f"{CACHES}---\n{CACHES.replace('sessions', 'other').replace('size: 2', 'size: 9')}")
    second.write_text(CACHES)
    _, todo = pairs(arguments.parse(["selftest", str(first), "--to", str(second)]))
    with pytest.raises(BadInput) as caught:
        check(harness.cluster, todo, str.upper)
    (finding,) = caught.value.findings
    assert finding.startswith(f"{first}, document 2: Memcached/other: the API server rejects it: ".upper())
    assert "SPEC.SIZE" in finding


def test_a_change_that_the_crds_reject_is_said_too(harness: Harness, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(DATABASES)
    second.write_text(DATABASES.replace("defaultUser: orders", "defaultUser: billing"))
    _, todo = pairs(arguments.parse(["selftest", str(first), "--to", str(second)]))
    with pytest.raises(BadInput) as caught:
        check(harness.cluster, todo, str)
    assert "the API server rejects this change of it in" in str(caught.value)


@pytest.mark.thorough
def test_every_write_of_two_specs_and_of_their_change(home: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(f"{DATABASES}---\n{CACHES}")
    changed = f"{DATABASES}---\n{CACHES}".replace("8MB", "16MB").replace("size: 2", "size: 3")
    second.write_text(changed.replace("the-word-of-reporting", "another-word-of-reporting"))
    process = start(str(first), "--to", str(second), "--json", home=home)
    output, said = process.communicate(timeout=4 * SECONDS)
    assert process.returncode == 0, output + said
    report = json.loads(output)
    assert [one["undisturbed"] for one in report["resources"]] == ["Ready", "Ready"]
    assert all(one["writes"] > 6 for one in report["resources"])
    assert "word-of-reporting" not in output + said

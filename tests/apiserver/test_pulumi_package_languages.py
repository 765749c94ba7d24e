"""The Pulumi package from TypeScript and Go: SDKs of its schema, compiled, and programs of them that run.

`pulumi package gen-sdk` asks Pulumi's host of the language, which a Pulumi that is built here lacks. So a
small program calls what those hosts call, in the version of the engine.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.paths import REPOSITORY
from tests.apiserver.support import pulumi_package
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import Cluster
from tests.guides import blocks

PROGRAMS = REPOSITORY / "tests/apiserver/package_programs"
SCHEMA = REPOSITORY / "infra/package/schema.json"
SECONDS = 1800
WITH_MOCKS = """\
import pulumi

class Mocks(pulumi.runtime.Mocks):
    def new_resource(self, args):
        print(args.typ, sorted(args.inputs))
        return "", {"host": "broker.example", **args.inputs}

    def call(self, args):
        raise AssertionError(args.token)

pulumi.runtime.set_mocks(Mocks(), preview=False)
pulumi.runtime.test(lambda: exec(PROGRAM))()
"""

pytestmark = pytest.mark.thorough


def run(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def in_guide(language: str) -> str:
    """The guide's program in this language."""
    text = (REPOSITORY / "docs/guides/pulumi-package.md").read_text()
    (body,) = [body for found, _, body in blocks(text) if found == language]
    return body


def program(name: str) -> str:
    """The path of what a machine needs for a language."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} on PATH")
    return found


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("generator") / "generate"
    run(program("go"), "build", "-o", str(built), ".", cwd=PROGRAMS / "sdk_generator")
    return built


@pytest.fixture(scope="module")
def typescript(generator: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that start the compiled program."""
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copytree(PROGRAMS / "typescript", folder, dirs_exist_ok=True)
    run(str(generator), "nodejs", str(SCHEMA), str(folder / "sdk"), cwd=folder)
    # Compiled with the rest.
    (folder / "guide.ts").write_text(in_guide("typescript").replace("@pulumi/kindling", "./sdk"))
    run(program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    run("node_modules/.bin/tsc", cwd=folder)
    # Where an SDK's own build puts it: there the version is read.
    shutil.copy(folder / "sdk/package.json", folder / "bin/sdk/package.json")
    return ["node", str(folder / "bin/index.js")]


@pytest.fixture(scope="module")
def golang(generator: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("golang")
    shutil.copytree(PROGRAMS / "golang", folder, dirs_exist_ok=True)
    run(str(generator), "go", str(SCHEMA), str(folder), cwd=folder)
    (folder / "guide").mkdir()
    (folder / "guide/main.go").write_text(in_guide("go"))
    run("go", "build", "-mod=readonly", "-o", "guide/program", "./guide", cwd=folder)
    run("go", "build", "-mod=readonly", "-o", "program", ".", cwd=folder)
    return [str(folder / "program")]


def outputs(words: list[str], *, cluster: Cluster, namespace: str, folder: Path) -> Any:
    """What the program prints, having made everything."""
    source = REPOSITORY / "infra/package"
    pulumi_package.install(folder / "home", source=source, version="0.0.0")
    (folder / "work").mkdir()
    env = pulumi_package.env_vars(folder / "home", cluster.plane)
    env |= {"NAMESPACE": namespace, "WORKDIR": str(folder / "work")}
    return json.loads(run(*words, cwd=folder, env=env))


@pytest.mark.usefixtures("replica")
@pytest.mark.parametrize("language", ["typescript", "golang"])
def test_a_program_gets_host_port_and_secret(
    language: str, request: pytest.FixtureRequest, running_cluster: Cluster, tmp_path: Path
) -> None:
    namespace = running_cluster.namespace(f"package-{language}")
    words = request.getfixturevalue(language)
    found = outputs(words, cluster=running_cluster, namespace=namespace, folder=tmp_path)
    api = running_cluster.api

    listed = api.get(f"/api/v1/namespaces/{namespace}/configmaps/sessions-servers").accepted()["data"]
    assert found["cache"] == {
        "host": listed["host"],
        "port": int(listed["port"]),
        "configMapName": "sessions-servers",
    }
    path = f"/api/v1/namespaces/{namespace}/secrets/{found['database']['secretName']}"
    wait_until(lambda: api.get(path).status == 200, seconds=60, what="no binding")
    data = api.get(path).accepted()["data"]
    login = {key: base64.b64decode(value).decode() for key, value in data.items()}
    assert (found["database"]["host"], found["database"]["port"]) == (login["host"], int(login["port"]))
    assert found["consumer"] == {"host": "broker.example", "port": 6651, "secretName": "token"}

    spec = api.get(f"/apis/database.technotuesday.io/v1/namespaces/{namespace}/postgresqls/orders").accepted()
    assert spec["spec"] == {"storage": {"size": "2Gi"}, "parameters": {"work_mem": "8MB"}}


def test_the_guides_program_in_python_declares_its_component(generator: Path, tmp_path: Path) -> None:
    run(str(generator), "python", str(SCHEMA), str(tmp_path / "sdk"), cwd=tmp_path)
    # What pip would write of it, and the SDK reads its version from.
    info = tmp_path / "sdk/pulumi_kindling-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pulumi_kindling\nVersion: 0.0.0\n")
    script = f"PROGRAM = {in_guide('python')!r}\n{WITH_MOCKS}"
    said = run(sys.executable, "-c", script, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "sdk")})
    inputs = ["namespace", "replicas", "serverAddress", "subscriptionName", "tokenSecretName", "topic"]
    assert f"kindling:index:Consumer {inputs}" in said

"""The Python client of a release: a wheel that pip installs, whose types take what the definitions take."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import manifests
from infra.distribution import python_models, wheel
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from tests.guides import blocks

VERSION = "1.2.3"
DEFINITIONS = manifests.definitions()
SAMPLES = {
    path.relative_to(REPOSITORY / "samples").with_suffix("").as_posix(): yaml.safe_load(path.read_text())
    for path in sorted((REPOSITORY / "samples").rglob("*.yaml"))
}
MODULES = {
    (found["spec"]["group"], found["spec"]["names"]["kind"]): name
    for name, found in {
        "backup": DEFINITIONS[0],
        "bindingimport": DEFINITIONS[1],
        "memcached": DEFINITIONS[2],
        "mycustomresource": DEFINITIONS[3],
        "postgresql_example": DEFINITIONS[4],
        "postgresql_technotuesday": DEFINITIONS[5],
        "pulsarconsumer": DEFINITIONS[6],
        "restore": DEFINITIONS[7],
    }.items()
}


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return wheel.files(REPOSITORY, DEFINITIONS, version=VERSION)


@pytest.fixture(scope="module")
def installed(made: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    ((name, content),) = made.items()
    (folder / name).write_bytes(content)
    words = ["--quiet", "--no-deps", "--no-index", "--target", str(folder / "site"), str(folder / name)]
    subprocess.run([sys.executable, "-m", "pip", "install", *words], check=True, timeout=120)
    return folder / "site"


NUMBERS = itertools.count(1)


def check(installed: Path, folder: Path, text: str = "", *options: str) -> str:
    """What `mypy --strict` says of a program that imports the package, or of the package."""
    # mypy takes a file of the same name, size and second for the one that it knows.
    program = folder / f"program_{next(NUMBERS)}.py"
    program.write_text(text)
    words = [*options, str(program)] if text else ["-p", wheel.PACKAGE]
    cache = f"--cache-dir={installed.parent / 'cache'}"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", cache, *words],
        env={**os.environ, "MYPYPATH": str(installed), "PYTHONPATH": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.stderr, done.stderr
    return done.stdout


def as_model(name: str, found: dict[str, Any]) -> str:
    """A statement that the resource is of its kind's type."""
    module = MODULES[found["apiVersion"].partition("/")[0], found["kind"]]
    return f"import kindling_client.{module}\n{name}: kindling_client.{module}.{found['kind']} = {found!r}\n"


def test_pip_installs_it_and_its_metadata_are_right(made: dict[str, bytes], installed: Path) -> None:
    assert list(made) == ["kindling_client-1.2.3-py3-none-any.whl"]
    info = installed / "kindling_client-1.2.3.dist-info"
    about = email.message_from_string((info / "METADATA").read_text())
    assert (about["Name"], about["Version"], about["Requires-Dist"]) == ("kindling-client", VERSION, None)
    found = {path.stem for path in (installed / "kindling_client").glob("*.py")}
    assert found == {*MODULES.values(), "memcached_v1beta1", "__init__", "client", "meta"}
    assert (installed / "kindling_client/py.typed").exists()


def test_its_record_is_of_its_files(made: dict[str, bytes]) -> None:
    (content,) = made.values()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = [name for name in files if name.endswith("/RECORD")]
    rows = {path: (digest, size) for path, digest, size in csv.reader(files[record].decode().splitlines())}
    assert rows.pop(record) == ("", "")
    del files[record]
    assert rows == {
        path: (
            "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("="),
            str(len(text)),
        )
        for path, text in files.items()
    }


def test_the_same_sources_make_the_same_bytes(made: dict[str, bytes]) -> None:
    assert wheel.files(REPOSITORY, DEFINITIONS[::-1], version=VERSION) == made


def test_importing_it_needs_the_standard_library_alone(installed: Path) -> None:
    imports = "; ".join(f"import kindling_client.{name}" for name in [*MODULES.values(), "client"])
    shown = "m.API_VERSION, m.KIND, m.PLURAL, m.GROUP, m.VERSION"
    text = f"{imports}; import json, kindling_client.memcached as m; print(json.dumps([{shown}]))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(installed)!r}); {text}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [
        "cache.example.com/v1alpha1",
        "Memcached",
        "memcacheds",
        "cache.example.com",
        "v1alpha1",
    ]


def test_every_sample_is_of_its_type_and_the_package_is_strictly_typed(
    installed: Path, tmp_path: Path
) -> None:
    assert len({found["apiVersion"] + found["kind"] for found in SAMPLES.values()}) == len(MODULES)
    programs = [as_model(f"sample_{number}", found) for number, found in enumerate(SAMPLES.values())]
    assert check(installed, tmp_path, "".join(programs)) == ""
    assert check(installed, tmp_path) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sise": 2}, 'Extra key "sise"'),
        ({"size": "two"}, 'expression has type "str"'),
        ({"binding": "Secret"}, "Literal['ConfigMap']"),
        ({"resources": {"limits": {"ephemeral-storage": 1.5}}}, '"int | str"'),
    ],
)
def test_a_wrong_field_is_refused(change: dict[str, Any], said: str, installed: Path, tmp_path: Path) -> None:
    sample = SAMPLES["memcached"]
    wrong = {**sample, "spec": {**sample["spec"], **change}}
    found = check(installed, tmp_path, as_model("sample", wrong))
    assert said in found, found


def test_a_field_that_is_required_cannot_be_left_out(installed: Path, tmp_path: Path) -> None:
    found = check(installed, tmp_path, as_model("sample", {**SAMPLES["mycustomresource"], "spec": {}}))
    assert 'Missing key "name"' in found


def test_the_guides_program_is_typed(installed: Path, tmp_path: Path) -> None:
    """All of it but the `kubernetes` package, which is none of this project's; tests/apiserver runs it."""
    text = (REPOSITORY / "docs/guides/python-client.md").read_text()
    (program,) = [body for language, _, body in blocks(text) if language == "python"]
    assert check(installed, tmp_path, program, "--ignore-missing-imports") == ""
    wrong = program.replace('"size": 2', '"sise": 2')
    assert 'Extra key "sise"' in check(installed, tmp_path, wrong, "--ignore-missing-imports")
    for name in MODULES.values():
        assert f"`kindling_client.{name}`" in text


def test_schemas_that_no_definition_has_yet(installed: Path, tmp_path: Path) -> None:
    spec = {
        "type": "object",
        "description": 'Ends with a \\ and a "quote"',
        "required": ["class"],
        "properties": {
            "class": {"type": "string"},
            "level": {"enum": [1, 2, None], "type": "integer", "nullable": True},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "share": {"type": "number"},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    text = python_models.module("example.com", "Thing", "things", version)
    head = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}}
    good = {"class": "a", "level": None, "free": {"b": [1]}, "any": 3, "counts": {"a": 1}, "share": 0.5}
    right = f"thing: Thing = { ({**head, 'spec': good})!r}\n"
    assert check(installed, tmp_path, text + right) == ""
    for wrong in ({"level": 3}, {"counts": {"a": "b"}}, {"share": "x"}, {"class": 1}):
        assert "error" in check(
            installed, tmp_path, f"{text}thing: Thing = { ({**head, 'spec': {**good, **wrong}})!r}\n"
        )


def test_modules_are_named_apart() -> None:
    other = json.loads(json.dumps(DEFINITIONS[4]))
    other["spec"]["group"], other["metadata"]["name"] = "cache.example.org", "postgresqls.cache.example.org"
    with pytest.raises(KindlingError, match="postgresql_example"):
        python_models.modules([*DEFINITIONS, other])
    second = json.loads(json.dumps(DEFINITIONS[2]))
    version = second["spec"]["versions"][0]
    second["spec"]["versions"] += [
        {**version, "name": "v1", "storage": False},
        {**version, "name": "v0", "served": False, "storage": False},
    ]
    assert list(python_models.modules([second])) == [
        "memcached_v1beta1",
        "memcached",
        "memcached_v1",
    ]


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2.3-rc.1", "1.2.3rc1"),
        ("1.2.3-alpha", "1.2.3a0"),
        ("1.2.3-beta.2+Build.007", "1.2.3b2+build.7"),
        ("1.2.3-next.4", "1.2.3.dev0+next.4"),
        ("1.2.3--x", "1.2.3.dev0+x"),
    ],
)
def test_versions_are_as_python_writes_them(version: str, found: str) -> None:
    assert wheel.python_version(version) == found


CLIENT = textwrap.dedent("""
    from kindling_client import memcached
    from kindling_client.client import Client

    class Refuses:
        def patch_namespaced_custom_object(self, *words, **more):
            raise AssertionError("it was sent")

    try:
        Client(Refuses(), memcached.RESOURCE, "default").apply({"metadata": {"generateName": "a-"}})
    except ValueError as error:
        print(error)
""")


def test_apply_needs_a_name(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "metadata.name is missing" in done.stdout

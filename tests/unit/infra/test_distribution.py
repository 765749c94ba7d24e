"""A release's files: that they are what the program declares, whole, and the same whenever they are made."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from infra import program, settings
from infra.distribution import archives, files, plugin, rendering, sbom, yaml_writer
from infra.drivers import debian_lock
from infra.manifests import Manifest
from infra.paths import REPOSITORY
from infra.settings import ClusterSettings, ImageSettings, Settings, stack_files
from infra.yaml_text import load_all
from tests.unit.infra.fakes import declare
from tests.unit.infra.releases import IMAGES, VERSION, checkout, command, read, source

CHART = f"kindling-{VERSION}.tgz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("release") / "checkout")


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, bytes]:
    """The files of a release of that commit, made in this process."""
    return files.of(source(folder), REPOSITORY)


def packed(archive: bytes) -> dict[str, str]:
    """The texts in an archive, by path."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as found:
        files_of = {member.name: found.extractfile(member) for member in found}
        return {name: file.read().decode() for name, file in files_of.items() if file is not None}


def is_packed(name: str) -> bool:
    return name.endswith((".tgz", ".tar.gz", ".whl")) or name == plugin.NAME


def objects(made: dict[str, bytes], *names: str) -> dict[rendering.Key, Manifest]:
    found = [item for name in names for item in load_all(made[name].decode())]
    assert len({rendering.key(item) for item in found}) == len(found)
    return {rendering.key(item): item for item in found}


def declared(**operator: Any) -> dict[rendering.Key, Manifest]:
    """What `up` would make in an existing cluster, as another recorder of the program sees it."""
    chosen = Settings(
        stack="staging",
        cluster=ClusterSettings(source="existing", name="c", existing_context="c"),
        operator=rendering.default_operator(**operator),
        samples=settings.SamplesSettings(enabled=False),
        broker=settings.BrokerSettings(enabled=False),
        images=ImageSettings("promoted", given=IMAGES),
    )
    graph = declare(lambda: program.build(chosen), stack="staging", preview=False)
    found = [item.inputs for item in graph.resources if item.type.startswith("kubernetes:")]
    return {rendering.key(item): without_pulumis_marks(item) for item in found}


def without_pulumis_marks(found: Manifest) -> Manifest:
    annotations = found["metadata"].get("annotations", {})
    ours = {name: text for name, text in annotations.items() if not name.startswith("pulumi.com/")}
    metadata = {name: value for name, value in found["metadata"].items() if name != "annotations"}
    return {**found, "metadata": {**metadata, **({"annotations": ours} if ours else {})}}


def test_install_yaml_is_what_up_makes_in_an_existing_cluster(made: dict[str, bytes]) -> None:
    found = objects(made, "install.yaml")
    assert found == declared()
    assert len(found) > 20


def test_the_namespaced_one_is_what_up_makes_with_that_scope(made: dict[str, bytes]) -> None:
    found = objects(made, "install-namespaced.yaml")
    assert found == declared(scope="namespaces", watch_namespaces=(files.SERVED,))
    kinds = {kind for _, kind, _, _ in found}
    assert "ClusterRoleBinding" not in kinds
    assert ("rbac.authorization.k8s.io/v1", "RoleBinding", "default", "kindling-operator-served") in found


def test_the_definitions_are_the_files(made: dict[str, bytes]) -> None:
    found = objects(made, "crds.yaml")
    shipped = [item for path in (REPOSITORY / "crds").glob("*.yaml") for item in load_all(path.read_text())]
    assert list(found.values()) == sorted(shipped, key=lambda item: str(item["metadata"]["name"]))


@pytest.mark.parametrize(("base", "whole"), [("base", "install"), ("namespaced", "install-namespaced")])
def test_a_kustomize_base_is_the_manifest(made: dict[str, bytes], base: str, whole: str) -> None:
    assert yaml.safe_load(made["kustomize/crds/kustomization.yaml"])["resources"] == ["crds.yaml"]
    resources = yaml.safe_load(made[f"kustomize/{base}/kustomization.yaml"])["resources"]
    assert resources == ["../crds", "operator.yaml"]
    parts = objects(made, "kustomize/crds/crds.yaml", f"kustomize/{base}/operator.yaml")
    assert parts == objects(made, f"{whole}.yaml")


def test_objects_are_in_an_order_in_which_they_can_be_applied(made: dict[str, bytes]) -> None:
    kinds = [item["kind"] for item in load_all(made["install.yaml"].decode())]
    assert (kinds[0], kinds[-1]) == ("Namespace", "Deployment")
    for first, then in (("ServiceAccount", "ClusterRoleBinding"), ("ClusterRole", "ClusterRoleBinding")):
        assert kinds.index(first) < kinds.index(then)


def test_each_image_is_by_digest(made: dict[str, bytes]) -> None:
    (deployment,) = (item for item in load_all(made["install.yaml"].decode()) if item["kind"] == "Deployment")
    operator, prober = deployment["spec"]["template"]["spec"]["containers"]
    assert operator["image"] == prober["image"] == IMAGES["operator"]
    variables = {item["name"]: item.get("value") for item in operator["env"]}
    assert variables["KINDLING_IMAGE_PULSAR_CONSUMER"] == IMAGES["pulsar-consumer"]
    assert {text for text in variables.values() if text and "@" in text} == {
        reference for name, reference in IMAGES.items() if name != "operator"
    }


def test_no_file_has_what_was_there_for_rendering_alone(made: dict[str, bytes]) -> None:
    texts = {name: content.decode() for name, content in made.items() if not is_packed(name)}
    texts |= packed(made[CHART])
    for name, text in texts.items():
        if name != "RELEASE_NOTES.md":
            assert not re.search(r"(?i)marked-|987654321|pulumi\.com|sha256:0{64}.*\}\}", text), name


def test_the_sums_are_of_all_other_files(made: dict[str, bytes]) -> None:
    lines = made["SHA256SUMS"].decode().splitlines()
    sums = {path: found for found, path in (line.split("  ") for line in lines)}
    assert sums.keys() == made.keys() - {"SHA256SUMS"}
    assert all(hashlib.sha256(made[path]).hexdigest() == found for path, found in sums.items())


def test_rules_dashboards_and_health_checks_are_the_repositorys(made: dict[str, bytes]) -> None:
    found = {name: content for name, content in made.items() if name.startswith("integrations/")}
    assert found == {
        path.relative_to(REPOSITORY).as_posix(): path.read_bytes()
        for path in (REPOSITORY / "integrations").rglob("*")
        if path.is_file()
    }
    assert {path.split("/")[1] for path in found} == {"argocd", "grafana", "prometheus"}


@pytest.mark.thorough
def test_the_command_makes_the_same_bytes_elsewhere(
    folder: Path, made: dict[str, bytes], tmp_path: Path
) -> None:
    """Another process, folder, seed of hashes, time zone and language."""
    words = ("--version", VERSION, "--output", str(tmp_path / "out"), "--images", *IMAGES.values())
    done = command(folder, *words, PYTHONHASHSEED="7", TZ="Asia/Kolkata", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    found = read(tmp_path / "out")
    assert found.keys() == made.keys()
    assert [name for name in found if found[name] != made[name]] == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_it_was_made_of_is_written_down(folder: Path, made: dict[str, bytes]) -> None:
    about = json.loads(made["release.json"])
    assert about == {
        "version": VERSION,
        "commit": source(folder).commit,
        "contents": source(folder).contents,
        "images": dict(sorted(IMAGES.items())),
    }


def test_files_of_no_commit_are_named(folder: Path) -> None:
    about = files._about(replace(source(folder), uncommitted=["infra/rbac.py"]))
    assert json.loads(about)["uncommitted"] == ["infra/rbac.py"]


# Of Debian's packages by folder, of Python's where the image has a lock of them.
LOCKS = {"operator": "operator", **{name: f"operator/images/{name}" for name in IMAGES if name != "operator"}}


def test_the_bill_of_materials_has_each_locked_package_of_each_image(made: dict[str, bytes]) -> None:
    document = json.loads(made["sbom.cdx.json"])
    refs = {item["bom-ref"]: item for item in document["components"]}
    assert len(refs) == len(document["components"]) > 100
    needs = {item["ref"]: item["dependsOn"] for item in document["dependencies"]}
    for name, place in LOCKS.items():
        packages = [refs[ref] for ref in needs[IMAGES[name]]]
        debian = debian_lock.read((REPOSITORY / place / "packages.pref").read_text())
        found = {(item["name"], item["version"]) for item in packages if item["purl"].startswith("pkg:deb/")}
        assert found == {(package, version) for package, pins in debian.items() for version in pins}
        lock = REPOSITORY / place / "requirements.txt"
        lines = lock.read_text().splitlines() if lock.exists() else []
        pinned = [
            line for line in lines if "==" in line and not line.startswith(("#", " ")) and "win32" not in line
        ]
        python = {item["name"]: item for item in packages if item["purl"].startswith("pkg:pypi/")}
        assert {f"{item['name']}=={item['version']}" for item in python.values()} == {
            re.split(r"[ ;]", line)[0] for line in pinned
        }
        assert all(item["hashes"] for item in python.values())
    suites = {
        item["name"]: item["purl"].rpartition("=")[2] for item in refs.values() if "deb/" in item["bom-ref"]
    }
    assert (suites["pgbackrest"], suites["libc6"]) == ("forky", "trixie")
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])
    root = document["metadata"]["component"]
    assert (root["version"], set(needs[root["bom-ref"]])) == (VERSION, set(IMAGES.values()))


def test_a_package_of_python_has_the_hashes_of_its_lock() -> None:
    lock = f"""\
# A comment
Some.Thing==1.0 ; python_version < '3.13' \\
    --hash=sha256:{"b" * 64} \\
    --hash=sha256:{"a" * 64}
tzdata==2 ; sys_platform == 'win32' \\
    --hash=sha256:{"c" * 64}
other==2.0 \\
    --hash=sha256:{"d" * 64}
"""
    first, second = sbom.python(lock)
    assert (first["name"], first["purl"]) == ("Some.Thing", "pkg:pypi/some-thing@1.0")
    assert [item["content"][0] for item in first["hashes"]] == ["a", "b"]
    assert (second["name"], [item["content"][0] for item in second["hashes"]]) == ("other", ["d"])


def test_the_notes_have_changes_upgrade_and_images(made: dict[str, bytes]) -> None:
    text = made["RELEASE_NOTES.md"].decode()
    assert text.startswith(f"# Kindling {VERSION}\n")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Changes", "Before you upgrade", "Images"]
    assert all(reference in text for reference in IMAGES.values())


def test_the_values_are_the_settings_of_a_stack_with_their_defaults(made: dict[str, bytes]) -> None:
    text = packed(made[CHART])["kindling/values.yaml"]
    values = yaml.safe_load(text)
    charts = ("images", "crds", "operatorPod", "monitoring")
    ours = {name: value for name, value in values.items() if name not in charts}
    assert ours == {name: stack_files.declared()[name]["default"] for name in ours}
    assert values["images"] == dict(IMAGES)
    assert values["operatorPod"].keys() == settings.validators.OPERATOR_POD.keys()
    for name in ours:
        assert f"# {stack_files.declared()[name]['description']}." in text


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, min_size=1)
        | st.dictionaries(st.text(st.characters(codec="ascii")), inner, min_size=1)
    ),
    max_leaves=10,
)


@effort(max_examples=50)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), PLAIN, min_size=1))
def test_whatever_is_written_is_read_again(value: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_writer.document(value)) == value


@pytest.mark.parametrize(
    "text", ["true", "No", "~", "1.0", "1e3", "", " x", "x ", "a: b", "- a", "a\nb", "a\n\nb\n"]
)
def test_text_stays_text(text: str) -> None:
    assert yaml.safe_load(yaml_writer.document({"a": [text, {"b": text}]})) == {"a": [text, {"b": text}]}


@given(st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(max_size=99)), st.integers(0, 3))
def test_an_archive_holds_its_files(texts: dict[str, str], large: int) -> None:
    texts = {**texts, "large": "0123456789" * 10_000 * large}
    assert packed(archives.tgz(texts, folder="f")) == {f"f/{name}": text for name, text in texts.items()}

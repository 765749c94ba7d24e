"""What the selftest takes from the user's files, and what it says of files that it cannot use."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from selftest.manifests import BadInput, read

DATABASE = """\
apiVersion: database.technotuesday.io/v1
kind: Postgresql
metadata:
  name: orders
  namespace: shop
  uid: u
  annotations: {kubectl.kubernetes.io/last-applied-configuration: x}
spec: {defaultUser: orders, passwordSecretRef: {name: login, key: password}}
status: {observedGeneration: 3}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: shop}
stringData: {password: never-shown}
"""
KEYS = SECRET.replace("login", "keys")
BACKUP = """\
apiVersion: database.technotuesday.io/v1
kind: Backup
metadata: {name: nightly, namespace: shop}
spec: {databaseRef: {name: orders}, targetURL: "s3://b", credentialsSecretRef: {name: keys}}
"""
RESTORE = """\
apiVersion: database.technotuesday.io/v1
kind: Restore
metadata: {name: clone, namespace: shop}
spec: {source: {backupRef: {name: nightly}}, databaseRef: {name: copy}}
"""


def written(folder: Path, *texts: str) -> str:
    path = folder / "all.yaml"
    path.write_text("---\n".join(texts))
    return str(path)


def bad(*paths: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read(paths)
    return list(caught.value.findings)


def test_a_resource_has_the_secrets_of_its_namespace_and_nothing_of_its_cluster(tmp_path: Path) -> None:
    elsewhere = SECRET.replace("shop", "other")
    (found,) = read([written(tmp_path, DATABASE, SECRET, elsewhere)]).resources
    assert str(found) == "shop/Postgresql/orders"
    assert found.document.where.endswith("all.yaml, document 1")
    assert found.document.body["metadata"] == {"name": "orders", "annotations": {}}
    assert "status" not in found.document.body
    assert [item.where.rpartition(" ")[2] for item in found.content] == ["2"]


def test_what_a_resource_names_is_there_first(tmp_path: Path) -> None:
    found = read([written(tmp_path, RESTORE, BACKUP, KEYS, DATABASE, SECRET)]).resources
    beside = {str(one): [str(document) for _, document in one.beside] for one in found}
    assert beside == {
        "shop/Restore/clone": ["shop/Postgresql/orders", "shop/Backup/nightly"],
        "shop/Backup/nightly": ["shop/Postgresql/orders"],
        "shop/Postgresql/orders": [],
    }


def test_a_list_a_folder_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    item = {"apiVersion": "poc.test.domain/v1", "kind": "MyCustomResource", "metadata": {"name": "one"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [{**item, "spec": {"name": "pod"}}]}
    (tmp_path / "below" / "list.yml").write_text(json.dumps(listed))
    (tmp_path / "README.md").write_text("no YAML: {")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{DATABASE}---\n{SECRET}"))
    found = read([str(tmp_path), "-"]).resources
    assert [one.document.where.removeprefix(str(tmp_path)) for one in found] == [
        "/below/list.yml, item 1",
        "standard input, document 1",
    ]


def test_a_time_stays_a_text(tmp_path: Path) -> None:
    moment = RESTORE.replace("spec: {", "spec: {recoveryTarget: {targetTime: 2026-11-24T06:45:00Z}, ")
    (restore, *_) = read([written(tmp_path, moment, BACKUP, KEYS, DATABASE, SECRET)]).resources
    assert restore.document.body["spec"]["recoveryTarget"] == {"targetTime": "2026-11-24T06:45:00Z"}


@pytest.mark.parametrize(
    "spec", ["words", "[]", "{databaseRef: orders, source: 1}", "{roles: 7, initSQL: x}"]
)
def test_a_spec_that_is_none_is_left_to_the_api_server(tmp_path: Path, spec: str) -> None:
    texts = [text.partition("spec:")[0] + f"spec: {spec}\n" for text in (DATABASE, BACKUP, RESTORE)]
    assert len(read([written(tmp_path, *texts)]).resources) == 3


def test_others_are_left_out_and_named(tmp_path: Path) -> None:
    kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"
    found = read([written(tmp_path, kustomization, DATABASE, SECRET)])
    assert [line.partition(": ")[2] for line in found.skipped] == [
        "Kustomization, which is no kind of this operator"
    ]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (
            (DATABASE,),
            ["names the Secret login, which is in no file: add it, with any value of the same form"],
        ),
        (
            (DATABASE, SECRET.replace("password:", "word:")),
            ["spec.passwordSecretRef names the key password"],
        ),
        ((BACKUP, KEYS), ["spec.databaseRef names the Postgresql orders, which is in no file: add it"]),
        ((SECRET,), ["no resource to try: name files with at least one of Backup, BindingImport"]),
        (
            (DATABASE, SECRET, SECRET),
            ["document 3: shop/Secret/login is in", "document 2 too: leave one out"],
        ),
        (("just words",), ["this is no object of Kubernetes: it has no metadata"]),
        ((DATABASE.replace("  name: orders\n", ""), SECRET), ["metadata.name is None, and must be a text"]),
        (("a: b: never-shown",), ["this is no YAML: mapping values are not allowed here in line 1"]),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, texts: tuple[str, ...], said: list[str]) -> None:
    findings = "\n".join(bad(written(tmp_path, *texts)))
    assert all(words in findings for words in said), findings
    assert "all.yaml" in findings
    assert "never-shown" not in findings


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    assert len(bad(written(tmp_path, DATABASE, BACKUP), str(tmp_path / "none.yaml"))) == 3


def test_a_file_that_is_not_there_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    findings = bad(str(tmp_path / "none.yaml"), str(tmp_path / "empty"))
    assert findings[0].endswith("none.yaml: No such file or directory")
    assert findings[1].endswith("empty: this folder has no file that ends in .yaml, .yml, .json")

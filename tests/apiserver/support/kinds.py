"""The project's own files as these tests need them: each CRD, its paths in the API, its samples.

Read from `crds/` and `samples/` and never repeated here, so that a test can only ever speak of what
a user gets.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra import yaml_text
from tests.apiserver.support.apiclient import Json

REPOSITORY = Path(__file__).resolve().parents[3]
CRD_COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A CRD as its file has it."""

    manifest: Json
    served: str = ""
    """The name of a version; empty for the newest, which the operator watches and which stands first."""

    @property
    def id(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def version(self) -> Json:
        versions: list[Json] = self.manifest["spec"]["versions"]
        return next(each for each in versions if self.served in ("", each["name"]))

    @property
    def schema(self) -> Json:
        schema: Json = self.version["schema"]["openAPIV3Schema"]
        return schema

    @property
    def collection(self) -> str:
        """The path of its resources in the namespace `default`."""
        spec = self.manifest["spec"]
        return f"/apis/{spec['group']}/{self.version['name']}/namespaces/default/{spec['names']['plural']}"

    def resource(self, name: str, spec: Json) -> Json:
        """A resource of this kind, ready to be created."""
        group, names = self.manifest["spec"]["group"], self.manifest["spec"]["names"]
        return {
            "apiVersion": f"{group}/{self.version['name']}",
            "kind": names["kind"],
            "metadata": {"name": name},
            "spec": spec,
        }


def _read(path: Path) -> Json:
    loaded = yaml_text.load(path.read_text())
    assert isinstance(loaded, dict), f"{path.name} is not one YAML object"
    return loaded


WITH_A_STORE = frozenset({"Backup", "Restore"})
"""They run nothing without a database and a store that answer; tests/cluster/test_backup.py has both."""
OF_ANOTHER = frozenset({"BindingImport"})
"""They make nothing by themselves, but of what another resource has: test_operator_binding_imports.py."""
KINDS: Mapping[str, Kind] = {
    path.stem: Kind(manifest=_read(path)) for path in sorted((REPOSITORY / "crds").glob("*.yaml"))
}
SAMPLES: Mapping[str, Json] = {
    path.stem: _read(path) for path in sorted((REPOSITORY / "samples").glob("*.yaml"))
}

POSTGRESQL = KINDS["postgresqls.database.technotuesday.io"]
POSTGRESQL_EXAMPLE = KINDS["postgresqls.database.db.example.com"]
MEMCACHED = KINDS["memcacheds.cache.example.com"]
PULSAR_CONSUMER = KINDS["pulsarconsumers.pulsar.pulsarconsumer.krvarma.com"]
MY_CUSTOM_RESOURCE = KINDS["mycustomresources.poc.test.domain"]
BACKUP = KINDS["backups.database.technotuesday.io"]
RESTORE = KINDS["restores.database.technotuesday.io"]
BINDING_IMPORT = KINDS["bindingimports.database.technotuesday.io"]

# The kinds of the documents, and the least spec that each admits: their rules know more than their schemas.
_DOCUMENTED: Mapping[str, Json] = {
    POSTGRESQL.id: {},
    POSTGRESQL_EXAMPLE.id: {},
    MEMCACHED.id: {},
    PULSAR_CONSUMER.id: {
        "serverAddress": "pulsar://broker:6650",
        "topic": "orders",
        "subscriptionName": "printers",
        "replicas": 1,
    },
    MY_CUSTOM_RESOURCE.id: {"name": "friend"},
}
# The least of those whose schemas do not say it all.
_OTHERS: Mapping[str, Json] = {
    BACKUP.id: {
        "databaseRef": {"name": "db"},
        "targetURL": "s3://bucket",
        "credentialsSecretRef": {"name": "store"},
    },
    BINDING_IMPORT.id: {"databaseRef": {"namespace": "elsewhere", "name": "shop"}},
    RESTORE.id: {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "clone"}},
}
# Of which tests know more than their schemas say.
DOCUMENTED: Mapping[str, Kind] = {id: KINDS[id] for id in _DOCUMENTED}


def least(schema: Json) -> Any:
    """The least value that a schema admits: of an object, what it requires."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: least(schema["properties"][name]) for name in schema.get("required", ())}
    if schema["type"] == "string":
        return "a" * schema.get("minLength", 0)
    if schema["type"] == "array":
        return [least(schema["items"])] * schema.get("minItems", 0)
    return False if schema["type"] == "boolean" else schema.get("minimum", 0)


MINIMAL_SPECS: Mapping[str, Json] = {
    id: _DOCUMENTED.get(id) or _OTHERS.get(id) or least(kind.schema["properties"]["spec"])
    for id, kind in KINDS.items()
}
"""The least spec that each kind admits."""


def kind_of(sample: Json) -> Kind:
    """The kind whose resource a sample is, in the sample's version."""
    group, _, version = sample["apiVersion"].partition("/")
    found = [
        kind
        for kind in KINDS.values()
        if (kind.manifest["spec"]["group"], kind.manifest["spec"]["names"]["kind"]) == (group, sample["kind"])
    ]
    assert len(found) == 1, f"{sample['apiVersion']} {sample['kind']} is served by {len(found)} CRDs"
    return replace(found[0], served=version)


def merged(base: Json, patch: Json) -> Json:
    """RFC 7386: `base` with `patch` laid over it, None removing a field; neither is changed."""
    result: dict[str, Any] = copy.deepcopy(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result

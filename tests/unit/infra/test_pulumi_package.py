"""The Pulumi package without a cluster: its schema, what its components declare, and what they refuse."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pulumi
import pytest
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from kindling.kinds.memcached import auth, servers
from kindling.kinds.memcached import spec as memcached
from kindling.kinds.postgresql import secrets, service
from kindling.kinds.service_template import host_of
from pulumi.runtime import rpc

from infra.distribution import pulumi_package, rendering
from infra.errors import KindlingError
from infra.package import cache, consumer, database, plugin, resource
from infra.package.cache import Cache
from infra.package.consumer import Consumer
from infra.package.database import Database
from infra.package.operator_component import Operator
from infra.package.resource import Kind
from infra.paths import REPOSITORY
from tests.apiserver.support.pulumi_package import FOLDER, IMAGES, process, schema_of
from tests.archives import unpack
from tests.unit.infra.fakes import Graph, declare

BROKER = {"server_address": "pulsar://one:6650", "subscription_name": "s", "topic": "t", "replicas": 1}
OF: dict[Any, dict[str, Any]] = {Cache: {}, Consumer: BROKER, Database: {}, Operator: {"images": IMAGES}}


def made(component: Any, args: dict[str, Any], *, name: str = "rows", preview: bool = False) -> Graph:
    return declare(lambda: component(name, args), stack="any", preview=preview)


def refused(component: Any, args: dict[str, Any], *, name: str = "rows") -> str:
    """What is said of the inputs; nothing is declared but the component."""
    said: list[str] = []

    def program() -> None:
        try:
            component(name, {**OF[component], **args})
        except pulumi.InputPropertyError as error:
            said.append(f"{error.property_path} {error.reason}")
        except pulumi.InputPropertiesError as error:
            said.append(str(error))

    graph = declare(program, stack="any", preview=True)
    assert len(said) == 1, said
    assert {item.type for item in graph.resources} <= {
        f"kindling:index:{component.__name__}",
        "pulumi:pulumi:Stack",
    }
    return said[0]


def test_the_schema_in_the_repository_is_that_of_the_components() -> None:
    again = "python -m tests.unit.schema.pulumi_package"
    assert (FOLDER / "schema.json").read_text() == plugin.schema(), again


def test_every_input_and_output_is_described() -> None:
    for token, found in json.loads(plugin.schema())["resources"].items():
        assert found["isComponent"]
        for name, item in {**found["inputProperties"], **found["properties"]}.items():
            assert item.get("description"), f"{token} {name}"


def test_a_checkout_is_a_plugin() -> None:
    with process(FOLDER) as stub:
        assert schema_of(stub) == json.loads((FOLDER / "schema.json").read_text())
        assert stub.GetPluginInfo(empty_pb2.Empty()).version == "0.0.0"


def test_the_archive_of_a_release_is_a_plugin_of_its_version(tmp_path: Path) -> None:
    found = pulumi_package.files(REPOSITORY, version="1.2.3", images=IMAGES)
    assert found == pulumi_package.files(REPOSITORY, version="1.2.3", images=IMAGES)
    with tarfile.open(fileobj=io.BytesIO(found["kindling-pulumi-1.2.3.tgz"])) as archive:
        unpack(archive, tmp_path / "plugin")
    assert (tmp_path / "plugin/PulumiPlugin.yaml").exists()
    # Locked by hashes, for pip.
    assert "--hash=sha256:" in (tmp_path / "plugin/requirements.txt").read_text()
    assert not (tmp_path / "plugin/infra/bootstrap").exists()
    with process(tmp_path / "plugin") as stub:
        assert schema_of(stub) == json.loads(found["pulumi-schema.json"])
    assert json.loads(found["pulumi-schema.json"])["version"] == "1.2.3"
    assert json.loads((tmp_path / "plugin/infra/package/images.json").read_text()) == IMAGES


@pytest.mark.parametrize("kind", [cache.KIND, consumer.KIND, database.KIND], ids=lambda kind: kind.kind)
def test_every_flat_input_is_a_field(kind: Kind) -> None:
    for path in kind.fields.values():
        found: Any = kind.schema
        for part in path.split("."):
            assert part in found["properties"], path
            found = found["properties"][part]


def test_a_database_is_a_postgresql_that_is_waited_for() -> None:
    args = {
        "namespace": "shop",
        "storage_size": "2Gi",
        "deletion_protection": True,
        "timeout_seconds": 60.0,
        "spec": {"storage": {"storageClassName": "fast"}, "parameters": {"work_mem": "8MB"}},
    }
    graph = made(Database, args)
    found = graph.one("kubernetes:database.technotuesday.io/v1:Postgresql")
    assert found.parent.endswith("kindling:index:Database::rows")
    assert found.inputs["metadata"] == {
        "name": "rows",
        "namespace": "shop",
        "annotations": {"pulumi.com/waitFor": "condition=Ready"},
    }
    assert found.inputs["spec"] == {
        "storage": {"size": "2Gi", "storageClassName": "fast"},
        "parameters": {"work_mem": "8MB"},
        "deletionProtection": True,
    }
    unwaited = made(Database, {"wait_for_ready": False, "labels": {"team": "a"}, "name": "other"})
    metadata = unwaited.one("kubernetes:database.technotuesday.io/v1:Postgresql").inputs["metadata"]
    assert metadata == {"name": "other", "labels": {"team": "a"}}


def test_outputs_are_what_the_operator_writes() -> None:
    known: dict[str, Any] = {}
    cr = {"metadata": {"name": "rows", "namespace": "shop"}, "spec": {}}
    args = {"namespace": "shop"}

    def program() -> None:
        components = {
            "database": Database("rows", args),  # type: ignore[arg-type]
            "cache": Cache("rows", {**args, "binding": "ConfigMap"}),  # type: ignore[typeddict-item]
            "secured": Cache("secured", {"namespace": "shop", "auth": True}),
            "plain": Cache("plain", {"namespace": "shop", "port": 11300}),
            "consumer": Consumer("rows", {**BROKER, "namespace": "shop", "token_secret_name": "t"}),  # type: ignore[typeddict-item]
        }
        for name, component in components.items():
            for field in ("host", "port", "secret_name", "config_map_name"):
                value = getattr(component, field, None)
                pulumi.Output.from_input(value).apply(
                    lambda found, key=f"{name}.{field}": known.update({key: found})  # type: ignore[misc]
                )

    declare(program, stack="any", preview=False)
    assert known["database.host"] == known["cache.host"] == host_of(cr)
    assert known["database.port"] == service.PORT
    assert known["database.secret_name"] == secrets.binding_name(cr)
    assert known["cache.port"] == memcached.DEFAULT_PORT
    assert known["cache.config_map_name"] == servers.name_of(cr)
    secured = {"metadata": {"name": "secured", "namespace": "shop"}}
    assert known["secured.secret_name"] == auth.binding_name(secured)
    assert known["plain.secret_name"] is None
    assert (known["plain.port"], known["plain.config_map_name"]) == (11300, None)
    assert (known["consumer.host"], known["consumer.port"]) == ("one", 6650)
    assert known["consumer.secret_name"] == "t"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("pulsar://one:7000,two:7001", ("one", 7000)),
        ("pulsar://one", ("one", 6650)),
        ("pulsar+ssl://one.two/", ("one.two", 6651)),
        ("pulsar+ssl://[fd00::1]:7000", ("[fd00::1]", 7000)),
    ],
)
def test_the_broker_of_an_address(address: str, expected: tuple[str, int]) -> None:
    assert consumer.broker(address) == expected


@pytest.mark.parametrize(
    ("component", "args", "said"),
    [
        (Cache, {"size": 101.0}, "size cannot be `101`: set it to a number from 1 to 100"),
        (Cache, {"size": 1.5}, "size cannot be `1.5`: set it to a whole number"),
        (Cache, {"binding": "Secret"}, "binding cannot be `Secret`: set it to one of ConfigMap"),
        (Cache, {"spec": {"threads": True}}, "spec.threads cannot be `True`: set it to a whole number"),
        (
            Cache,
            {"size": 1, "spec": {"size": 2}},
            "size cannot be set together with spec.size: set only one of them",
        ),
        (Database, {"storage_size": "much"}, "storageSize cannot be `much`: set it to what matches ^[0-9]+"),
        (
            Database,
            {"spec": {"storag": {}}},
            "spec.storag is no field, and cannot be `{}`: remove it, or use one of",
        ),
        (
            Database,
            {"spec": {"storage": 1}, "storage_size": "1Gi"},
            "storageSize cannot be set together with",
        ),
        (Database, {"spec": {"roles": [{}]}}, "spec.roles[0].name is missing: set it"),
        (Database, {"name": "A_B"}, "name cannot be `A_B`: set it to what matches"),
        (Database, {"namespace": ""}, "namespace cannot be ``: use 1 to 63 characters"),
        (Database, {"labels": {"team": 1}}, "labels.team cannot be `1`: set it to a string"),
        (Database, {"name": ""}, "name cannot be ``: use 1 to 253 characters"),
        (
            Database,
            {"timeout_seconds": 0.0},
            "timeoutSeconds cannot be `0`: set it to a number from 1 to 86400",
        ),
        (Database, {"timeout_seconds": 0.5}, "timeoutSeconds cannot be `0.5`: set it to a whole number"),
        (
            Consumer,
            {"server_address": "http://x"},
            "serverAddress cannot be `http://x`: set it to what matches",
        ),
        (Operator, {"replicas": 9.0}, "replicas cannot be `9`: set it to a whole number from 1 to 5"),
        (Operator, {"kinds": ["Redis"]}, 'kinds cannot be `["Redis"]`: set it to a list of Backup, '),
        (
            Operator,
            {"scope": "namespaces"},
            "watchNamespaces cannot be `[]`: set it to at least one namespace",
        ),
        (Operator, {"images": {}}, "images lacks exporters, memcached, operator, postgres"),
        (
            Operator,
            {"images": {"operator": "x"}},
            'images cannot be `{"operator": "x"}`: set it to references',
        ),
    ],
)
def test_a_wrong_input_is_named_with_its_value_and_a_remedy(
    component: Any, args: dict[str, Any], said: str
) -> None:
    assert refused(component, args).startswith(said)


def test_a_name_that_comes_of_the_program_is_named_as_such() -> None:
    assert refused(Cache, {}, name="my_cache").startswith(
        "name (the name in the program) cannot be `my_cache`"
    )


def test_a_password_is_in_no_message_and_a_secret_of_the_state() -> None:
    said = refused(Database, {"spec": {"password": ["canary"]}})
    assert said == "spec.password cannot be what it is (not shown): set it to a string"
    found = made(Database, {"spec": {"password": "canary"}})
    spec = found.one("kubernetes:database.technotuesday.io/v1:Postgresql").inputs["spec"]
    assert rpc.is_rpc_secret(spec)


def test_what_is_computed_is_checked_once_it_is_known() -> None:

    def program() -> None:
        Database("rows", {"storage_size": pulumi.Output.from_input("much")})

    with pytest.raises(pulumi.InputPropertiesError, match=r"storageSize cannot be what it is \(not shown\)"):
        declare(program, stack="any", preview=False)


def test_a_number_that_is_computed_is_refused_by_name() -> None:
    """Which Pulumi itself would end with a TypeError."""
    said: list[str] = []

    def program() -> None:
        with pytest.raises(pulumi.InputPropertyError) as error:
            plugin.provider().construct("x", "kindling:index:Cache", {"size": pulumi.Output.from_input(1)})
        said.append(f"{error.value.property_path} {error.value.reason}")

    declare(program, stack="any", preview=True)
    assert said == ["size is known too late: set it to a value that is not computed"]


def test_errors_of_components_have_no_stack_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KindlingError("a file is missing", remedy="restore it")

    monkeypatch.setattr("infra.package.cache.declare", fail)
    said: list[str] = []

    def program() -> None:
        with pytest.raises(pulumi.InputPropertiesError) as error:
            plugin.provider().construct("x", "kindling:index:Cache", {})
        said.append(str(error.value))

    declare(program, stack="any", preview=True)
    assert said == ["a file is missing\n  remedy: restore it"]


OPERATORS: list[dict[str, Any]] = [
    {},
    {
        "replicas": 3.0,
        "log_level": "debug",
        "watch_namespaces": ["a", "b"],
        "scope": "namespaces",
        "kinds": ["Memcached"],
        "image_pull_secrets": ["pull"],
    },
]


def test_the_operator_is_what_a_release_installs() -> None:
    requests = []
    for args in OPERATORS:
        settings = {key: value for key, value in args.items() if key != "image_pull_secrets"}
        operator = rendering.default_operator(**settings)
        requests.append(rendering.Request(operator, IMAGES, args.get("image_pull_secrets", ())))
    for args, expected in zip(OPERATORS, rendering.render(requests), strict=True):
        graph = made(Operator, {**args, "images": IMAGES})
        objects = [item.inputs for item in graph.resources if item.type.startswith("kubernetes:")]
        assert rendering.ordered(map(rendering.cleaned, objects)) == expected


def test_what_holds_data_is_protected_unless_protect_is_false() -> None:
    for args, expected in (({}, True), ({"protect": False}, False)):
        graph = made(Operator, {**args, "images": IMAGES})
        crds = graph.of("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")
        assert crds
        assert {item.protect for item in crds} == {expected}


def test_the_longest_wait_is_refused_beyond_a_day() -> None:
    assert refused(Cache, {"timeout_seconds": resource.MOST_SECONDS + 1}).startswith(
        "timeoutSeconds cannot be"
    )

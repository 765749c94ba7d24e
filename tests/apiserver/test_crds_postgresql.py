"""What is Postgresql's own at the door: parameters, the password's Secret, version, ephemeral data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.kinds.postgresql import Postgresql, parameters
from kindling.kinds.postgresql.status import PENDING_MOST

from tests.apiserver.support.apiclient import TABLE, Api, Json, Response
from tests.apiserver.support.kinds import POSTGRESQL
from tests.unit.operator.postgresqls import observed, postgresql, running

GOOD: list[Json] = [
    {"parameters": {}},
    {"parameters": {"work_mem": "8MB", "max_connections": 50, "random_page_cost": "1.1", "jit": "off"}},
    {"parameters": {"pg_stat_statements.max": 500, "log_line_prefix": r"it's \ %m é"}},
    {"parameters": {"search_path": "", "old_snapshot_threshold": -1}},
    {"parameters": {f"p{number}": "x" * 1024 for number in range(64)}},
    {"parameters": {"p" * 63: "x"}},
    {"passwordSecretRef": {"name": "mine"}},
    {"passwordSecretRef": {"name": "db-binding-2", "key": "PASSWORD.txt"}},
    {"version": "17"},
    {"version": "16", "image": "postgres:16"},
    {"storage": {"ephemeral": True, "size": "2Gi"}},
    {"storage": {"ephemeral": False, "storageClassName": "fast"}},
    {"paused": True},
    {"shutdownSeconds": 1},
    {"storage": {"accessMode": "ReadWriteOncePod", "size": "2Gi"}},
    {"shutdownSeconds": 7200},
]

BAD: list[tuple[Json, list[str]]] = [
    ({"parameters": {"port": "5433"}}, ["spec.parameters 'port'", "Kindling", "leave it out"]),
    ({"parameters": {"ssl_cert_file": "x"}}, ["spec.parameters 'ssl_cert_file'"]),
    ({"parameters": {"a": "b", "unix_socket_group": "x"}}, ["spec.parameters 'unix_socket_group'"]),
    ({"parameters": {"Work_Mem": "8MB"}}, ["spec.parameters 'Work_Mem'", "lowercase"]),
    ({"parameters": {"a.b.c": "8MB"}}, ["spec.parameters 'a.b.c'", "one point"]),
    ({"parameters": {"a b": "8MB"}}, ["spec.parameters 'a b'"]),
    ({"parameters": {"a\nport": "8MB"}}, ["cannot be a parameter's"]),
    ({"parameters": {"": "8MB"}}, ["spec.parameters ''"]),
    ({"parameters": {"p" * 64: "x"}}, ["at most 63"]),
    ({"parameters": {"jit": False}}, ["spec.parameters.jit", '"boolean"', "integer,string"]),
    ({"parameters": {"cost": 1.5}}, ["spec.parameters.cost", '"number"', "integer,string"]),
    ({"parameters": {"a": "x\nport = 1"}}, ["spec.parameters.a", r"x\nport"]),
    ({"parameters": {"a": "x" * 1025}}, ["spec.parameters.a", "1024"]),
    ({"parameters": {f"p{number}": "x" for number in range(65)}}, ["spec.parameters", "64"]),
    ({"passwordSecretRef": {}}, ["spec.passwordSecretRef.name", "Required"]),
    ({"passwordSecretRef": {"name": "My_Secret"}}, ["spec.passwordSecretRef.name", '"My_Secret"']),
    ({"passwordSecretRef": {"name": "s", "key": "a/b"}}, ["spec.passwordSecretRef.key", '"a/b"']),
    (
        {"passwordSecretRef": {"name": "bad-binding"}},
        ["spec.passwordSecretRef.name 'bad-binding'", "your own"],
    ),
    ({"passwordSecretRef": {"name": "bad-superuser"}}, ["'bad-superuser'"]),
    (
        {"passwordSecretRef": {"name": "s"}, "password": "canary"},
        ["spec.password (not shown)", "spec.passwordSecretRef 's'", "only one"],
    ),
    (
        {"storage": {"accessMode": "ReadWriteOncePod", "ephemeral": True}},
        ["spec.storage.accessMode 'ReadWriteOncePod'", "takes no volume"],
    ),
    ({"storage": {"accessMode": "ReadWriteMany"}}, ["spec.storage.accessMode", '"ReadWriteMany"']),
    ({"shutdownSeconds": 0}, ["spec.shutdownSeconds", "0", "1"]),
    ({"shutdownSeconds": 7201}, ["spec.shutdownSeconds", "7201", "7200"]),
    ({"version": 17}, ["spec.version", "integer", "of type string"]),
    ({"version": "17.5"}, ["spec.version", '"17.5"', "[1-9][0-9]"]),
    ({"version": "9"}, ["spec.version", '"9"', "[1-9][0-9]"]),
    (
        {"storage": {"ephemeral": True, "storageClassName": "fast"}},
        ["spec.storage.storageClassName 'fast'", "spec.storage.ephemeral 'true'", "only one"],
    ),
    ({"paused": "yes"}, ["spec.paused", "string", "boolean"]),
]


def create(api: Api, spec: Json) -> Response:
    return api.create(POSTGRESQL.collection, POSTGRESQL.resource("bad", spec), dry_run=True)


@pytest.mark.parametrize("spec", GOOD, ids=lambda spec: str(spec)[:50])
def test_good_spec_is_kept_as_it_is(api: Api, spec: Json) -> None:
    assert create(api, spec).accepted()["spec"] == spec


@pytest.mark.parametrize(("spec", "said"), BAD, ids=lambda value: str(value)[:50])
def test_bad_spec_is_refused_by_name(api: Api, spec: Json, said: list[str]) -> None:
    answer = create(api, spec)
    assert answer.status == 422, answer.message or "admitted"
    assert "evaluating rule" not in answer.message
    assert "canary" not in answer.message
    assert [words for words in said if words not in answer.message] == [], answer.message


@pytest.mark.parametrize("name", sorted(parameters.RESERVED))
def test_every_reserved_parameter_is_refused_at_the_door_too(api: Api, name: str) -> None:
    assert f"spec.parameters '{name}'" in create(api, {"parameters": {name: "x"}}).message


NAMES = st.one_of(
    st.sampled_from([*sorted(parameters.RESERVED), *(f"{start}x" for start in parameters.RESERVED_PREFIXES)]),
    st.from_regex(r"[A-Za-z0-9_.]{0,6}", fullmatch=True),
    st.text(st.characters(codec="ascii"), max_size=4),
)


@settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck))
@given(name=NAMES)
def test_door_and_operator_agree_on_names(api: Api, name: str) -> None:
    """Or a name admitted here would be refused there, or reach PostgreSQL though it was meant not to."""
    kind = Postgresql(group="g", image="i")
    refused = kind.validate(postgresql(parameters={name: "x"}), observed(running())) is not None
    assert (create(api, {"parameters": {name: "x"}}).status == 422) is refused


EPHEMERAL: Json = {"storage": {"ephemeral": True}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (EPHEMERAL, {"storage": {"ephemeral": False}}, "'false' cannot replace 'true'"),
        (EPHEMERAL, {"storage": None}, "'false' cannot replace 'true'"),
        ({}, EPHEMERAL, "'true' cannot replace 'false'"),
        ({"storage": {"size": "1Gi"}}, EPHEMERAL, "'true' cannot replace 'false'"),
        ({}, {"storage": {"ephemeral": False}}, None),
        (EPHEMERAL, {"storage": {"size": "2Gi"}}, None),
        ({"password": "old"}, {"password": None, "passwordSecretRef": {"name": "s"}}, None),
        ({"parameters": {"a": "1"}}, {"parameters": {"a": None, "b": "2"}}, None),
        ({"version": "16", "image": "postgres:16"}, {"version": "17"}, None),  # the operator knows the data
    ],
    ids=str,
)
def test_ephemeral_stays_what_it_is_and_the_rest_may_change(
    api: Api, new_name: Callable[[], str], before: Json, after: Json, said: str | None
) -> None:
    name = new_name()
    api.create(POSTGRESQL.collection, POSTGRESQL.resource(name, before)).accepted()
    answer = api.merge(f"{POSTGRESQL.collection}/{name}", {"spec": after})
    assert answer.status == (200 if said is None else 422), answer.message
    if said is not None:
        assert f"spec.storage.ephemeral {said}" in answer.message


def test_status_takes_what_the_operator_writes_and_shows_the_version(
    api: Api, new_name: Callable[[], str]
) -> None:
    path = f"{POSTGRESQL.collection}/{new_name()}"
    api.create(POSTGRESQL.collection, POSTGRESQL.resource(path.rpartition("/")[2], {})).accepted()
    status = {"version": "17.5", "pendingRestart": [f"p{number}" for number in range(PENDING_MOST)]}
    api.merge(f"{path}/status", {"status": status}).accepted()
    assert api.get(path).accepted()["status"] == {"observedGeneration": -1, **status}
    table = api.get(path, accept=TABLE).accepted()
    columns = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert columns == ["Name", "Phase", "Version", "Ready", "Age"]
    assert table["rows"][0]["cells"][2] == "17.5"

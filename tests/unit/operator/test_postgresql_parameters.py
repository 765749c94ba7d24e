"""spec.parameters before any server sees them: read, written as a file, refused where bound to fail."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.postgresql import defaults, parameters
from kindling.kube.resources import CONFIG_MAP, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, volume
from tests.unit.schema import worlds

CRDS = {label: crd for label, crd in worlds.CRDS.items() if label.startswith("postgresql.")}


def test_numbers_are_taken_as_they_are_written() -> None:
    given = {"work_mem": 4096, "jit": "off", "a.b": "x", "gone": None}
    assert parameters.read(postgresql(parameters=given)) == {"a.b": "x", "jit": "off", "work_mem": "4096"}
    assert parameters.read(postgresql(parameters=None)) == {}


def test_empty_list_is_none_where_alter_system_cannot_say_it() -> None:
    given = {"shared_preload_libraries": "", "temp_tablespaces": ' "" ', "search_path": ""}
    assert parameters.read(postgresql(parameters=given)) == {"search_path": ""}


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("work_mem", "a, b", ("a, b",)),
        ("shared_preload_libraries", "a,B ,  $libdir/c", ("a", "B", "$libdir/c")),
        ("session_preload_libraries", "a, B", ("a", "B")),
        ("local_preload_libraries", "a, B", ("a", "B")),
        ("temp_tablespaces", "a, B", ("a", "b")),
        ("search_path", '"$user", Public', ("$user", "public")),
        ("search_path", '"A ""q"", x"', ('A "q", x',)),
        ("search_path", "", ()),
        ("search_path", '"unended', None),
        ("search_path", "a,", None),
        ("search_path", ",a", None),
        ("search_path", "a,,b", None),
    ],
)
def test_lists_are_read_as_postgresql_reads_them(name: str, value: str, found: object) -> None:
    assert parameters.elements(name, value) == found


def test_file_goes_into_the_config_map_and_quotes() -> None:
    cr = postgresql(parameters={"log_line_prefix": r"it's \\ %m", "jit": "off"})
    (body,) = [
        child.body
        for child in KIND.desired(cr, observed(volume()))
        if child.ref == Ref(CONFIG_MAP, "ns", "db-config")
    ]
    lines = body["data"]["parameters.conf"].splitlines()
    assert [line for line in lines[1:] if line.partition(" ")[0] not in defaults.FROM] == [
        "jit = 'off'",
        r"log_line_prefix = 'it''s \\\\ %m'",
    ]


def refused(spec: Object) -> str | None:
    problem = KIND.validate(postgresql(**spec), observed())
    assert problem is None or problem.reason == "InvalidSpec"
    return problem.message if problem else None


LIMITED = {"limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"port": "1"}, ["spec.parameters.port", "Kindling"]),
        ({"unix_socket_group": "x"}, ["spec.parameters.unix_socket_group"]),
        ({"ssl": "on"}, ["spec.parameters.ssl"]),
        ({"include": "/etc/passwd"}, ["spec.parameters.include"]),
        ({"work_mem\nport": "1"}, ["no parameter's name"]),
        ({"Work_Mem": "1"}, ["no parameter's name", "lower case"]),
        ({"work_mem": "1\nport = 1"}, ["spec.parameters.work_mem", "control character"]),
        ({"search_path": "a,"}, ["spec.parameters.search_path 'a,'", "commas"]),
        ({"shared_buffers": "1GB"}, ["shared_buffers '1GB'", "spec.resources.limits.memory '1Gi'"]),
        ({"shared_buffers": 131072}, ["shared_buffers '131072'"]),
        ({"shared_buffers": "0.5TB"}, ["shared_buffers '0.5TB'"]),
        ({"min_wal_size": "31MB"}, ["min_wal_size '31MB'", "32MB"]),
        ({"max_wal_size": 31}, ["max_wal_size '31'"]),
    ],
)
def test_what_is_bound_to_fail_is_refused_by_name(values: Object, words: list[str]) -> None:
    message = refused({"parameters": values, "resources": LIMITED})
    assert message is not None
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("crd", CRDS)
def test_reserved_is_what_the_crd_refuses_at_the_door(crd: str) -> None:
    """What the rule lets in is not refused afterwards; and it all holds where the rule was taken away."""
    schema = CRDS[crd]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules = [
        rule["rule"]
        for rule in schema["properties"]["parameters"]["x-kubernetes-validations"]
        if "name in [" in rule["rule"]
    ]
    (rule,) = rules
    names = re.findall(r"'(\w+)'", rule.partition("[")[2].partition("]")[0])
    prefixes = re.findall(r"name\.startsWith\('(\w+)'\)", rule)
    assert set(names) == parameters.RESERVED
    assert set(parameters.RESERVED_PREFIXES) == set(prefixes)
    for name in [*names, *(f"{prefix}x" for prefix in prefixes)]:
        message = refused({"parameters": {name: "x"}})
        assert message is not None
        assert name in message


@pytest.mark.parametrize(
    "values",
    [
        {"shared_buffers": "1023MB"},
        {"shared_buffers": 131071},
        {"shared_buffers": "much"},  # the server's own words say it better
        {"shared_buffers": "9XB"},
        {"max_wal_size": "32MB"},
        {"max_wal_size": "1GB", "work_mem": "4MB", "a.b": "x"},
        {"superuser_reserved_connections": 5},
    ],
)
def test_what_a_server_may_take_is_left_to_it(values: Object) -> None:
    assert refused({"parameters": values, "resources": LIMITED}) is None


@pytest.mark.parametrize(
    "amount", [f"{2**30}B", f"{2**20}kB", "1024MB", "1GB", "1.GB", " 1 GB ", "0.001TB", str(2**17)]
)
def test_each_unit_is_as_large_as_postgresql_has_it(amount: str) -> None:
    """A value as large as the limit does not fit; it does with a limit that is a tenth larger."""
    fits = {"resources": {"limits": {"memory": str(2**30 * 11 // 10)}}}
    tight = {"resources": {"limits": {"memory": str(2**30)}}}
    assert refused({"parameters": {"shared_buffers": amount}, **fits}) is None
    assert refused({"parameters": {"shared_buffers": amount}, **tight}) is not None


@pytest.mark.parametrize("resources", [{}, {"limits": {"cpu": 1}}])
def test_a_limit_of_memory_that_is_left_out_is_the_default_one(resources: Object) -> None:
    message = refused({"parameters": {"shared_buffers": "512MB"}, "resources": resources})
    assert message is not None
    assert "'512Mi'" in message


@given(st.dictionaries(st.sampled_from(["a", "b.c", "search_path"]), st.text(max_size=8)))
def test_fingerprint_differs_between_sets_of_parameters(values: dict[str, str]) -> None:
    assert parameters.fingerprint(values) == parameters.fingerprint(dict(reversed(values.items())))
    assert parameters.fingerprint(values) != parameters.fingerprint({**values, "d": "x"})

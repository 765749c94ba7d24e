"""What is Postgresql's own at the door: parameters, the password's Secret, version, ephemeral data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.kinds.postgresql import Postgresql, parameters
from kindling.kinds.postgresql.server_restart import PENDING_MOST

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
    {"tls": {}},
    {"tls": {"enabled": True, "required": True, "secretName": "mine.tls"}},
    {"tls": {"enabled": False, "required": False}},
    {"version": "17"},
    {"version": "16", "image": "postgres:16"},
    {"storage": {"ephemeral": True, "size": "2Gi"}},
    {"storage": {"ephemeral": False, "storageClassName": "fast"}},
    {"paused": True},
    {"mode": "Plan"},
    {"mode": "Apply", "paused": False},
    {"mode": "Plan", "planFor": "shop", "paused": True, "parameters": {"work_mem": "8MB"}},
    {"shutdownSeconds": 1},
    {"storage": {"accessMode": "ReadWriteOncePod", "size": "2Gi"}},
    {"storage": {"autoGrow": {"maxSize": "1Gi"}}},
    {"storage": {"size": "2Gi", "autoGrow": {"threshold": 95, "increment": "100%", "maxSize": "1.5Ti"}}},
    {"storage": {"autoGrow": {"threshold": 50, "increment": "10Gi", "maxSize": "100Gi"}}},
    {"shutdownSeconds": 7200},
    {
        "roles": [
            {"name": "a"},
            {"name": "a_1", "login": True, "connectionLimit": 0, "memberOf": ["a", "B-c.d"]},
        ]
    },
    {"roles": [{"name": "r" * 63, "login": True, "passwordSecretRef": {"name": "mine", "key": "k"}}]},
    {"roles": [{"name": "a", "memberOf": ["pg_monitor"], "reclaimPolicy": "Delete"}]},
    {"exporter": {"enabled": False}, "roles": [{"name": "kindling_exporter"}]},
    {"exporter": {"enabled": True, "resources": {"requests": {"memory": "64Mi"}, "limits": {"cpu": 1}}}},
    {"databases": [{"name": "Shop-1.x", "owner": "Ada", "reclaimPolicy": "Retain"}]},
    {"databases": [{"name": "a", "encoding": "LATIN1", "collation": "de_DE.ISO-8859-1@euro"}]},
    {"databases": [{"name": "a", "icuLocale": "de-u-co-phonebk"}]},
    {
        "databases": [
            {
                "name": "postgres",
                "extensions": [{"name": "uuid-ossp", "version": "1.1"}, {"name": "citext"}],
                "schemas": [{"name": "s"}, {"name": "T", "owner": "ada"}],
            }
        ]
    },
    {"roles": [{"name": f"r{number}", "memberOf": ["a" * 63]} for number in range(200)]},
    {
        "defaultUser": "ada",
        "logging": {"format": "JSON"},
        "initSQL": [
            {"configMapRef": {"name": "c", "key": "a.sql"}},
            {"secretRef": {"name": "s", "key": "k"}},
        ],
    },
    {
        "roles": [
            {
                "name": "app",
                "login": True,
                "clientCertificate": {"enabled": True, "passwordRequired": True},
            },
            {"name": "group", "clientCertificate": {"enabled": False}},
        ]
    },
    {"tls": {"enabled": False}, "roles": [{"name": "app", "clientCertificate": {"enabled": False}}]},
    {
        "roles": [
            {"name": f"{'r' * 59}{number}", "login": True, "clientCertificate": {"enabled": True}}
            for number in range(200)
        ]
    },
    {
        "hba": [
            'hostssl shop,"a b" +staff,bob 10.0.0.0/8 scram-sha-256',
            "host\treplication  repl 2001:db8::/32\treject",
            "hostnossl all all samenet reject",
        ]
    },
    {"databases": [{"name": f"{'d' * 59}{number}", "owner": "o" * 63} for number in range(200)]},
]

CERTIFIED: Json = {"name": "app", "login": True, "clientCertificate": {"enabled": True}}
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
    ({"exporter": {}}, ["spec.exporter.enabled", "Required"]),
    (
        {"roles": [CERTIFIED], "tls": {"enabled": False}},
        [
            "spec.roles has a clientCertificate",
            "needs TLS",
            "spec.tls.enabled is 'false'",
            "set that to true",
        ],
    ),
    (
        {"roles": [{"name": "other"}, CERTIFIED], "tls": {"secretName": "mine"}},
        [
            "spec.roles has a clientCertificate",
            "spec.tls.secretName 'mine' replaces",
            "leave one of the two out",
        ],
    ),
    (
        {"roles": [CERTIFIED], "tls": {"issuerRef": {"name": "ours"}}},
        ["spec.tls.issuerRef 'ours' replaces", "leave one of the two out"],
    ),
    (
        {"tls": {"secretName": "mine", "issuerRef": {"name": "ours"}}},
        ["spec.tls.secretName 'mine'", "spec.tls.issuerRef 'ours'", "set only one of them"],
    ),
    (
        {"tls": {"issuerRef": {"name": "ours", "kind": "Isuer"}}},
        ["spec.tls.issuerRef.kind 'Isuer'", "set Issuer or ClusterIssuer"],
    ),
    ({"tls": {"issuerRef": {"kind": "Issuer"}}}, ["spec.tls.issuerRef.name", "Required"]),
    ({"tls": {"enabled": False, "issuerRef": {"name": "a"}}}, ["spec.tls.enabled 'false'", "issuerRef"]),
    (
        {"roles": [{"name": "app", "clientCertificate": {"enabled": True}}]},
        ["spec.roles[app].clientCertificate is of no use", "set login to true"],
    ),
    (
        {
            "roles": [
                {**CERTIFIED, "clientCertificate": {"enabled": False, "passwordRequired": True}},
            ]
        },
        ["passwordRequired 'true' has no effect", "clientCertificate.enabled is 'false'", "leave it out"],
    ),
    ({"roles": [{**CERTIFIED, "clientCertificate": {}}]}, ["clientCertificate.enabled", "Required"]),
    (
        {"roles": [{**CERTIFIED, "clientCertificate": {"enabled": "yes"}}]},
        ["clientCertificate.enabled", "boolean"],
    ),
    (
        {"logging": {"format": "JSON"}, "parameters": {"log_destination": "csvlog"}},
        ["spec.parameters", "says where the log goes", "spec.logging.format 'JSON'", "leave one of them out"],
    ),
    ({"logging": {"format": "json"}}, ["spec.logging.format", '"json"', '"Text", "JSON"']),
    ({"defaultUser": "a", "initSQL": [{}]}, ["spec.initSQL", "both or none", "use one of them"]),
    (
        {"defaultUser": "a", "initSQL": [{"configMapRef": {"name": "c"}}]},
        ["spec.initSQL[0].configMapRef.key", "Required"],
    ),
    (
        {"initSQL": [{"configMapRef": {"name": "c", "key": "k"}}]},
        ["spec.initSQL", "'postgres' is created with the server", "set spec.defaultUser"],
    ),
    (
        {"defaultUser": "a", "initSQL": [{"secretRef": {"name": "C", "key": "k"}}]},
        ["spec.initSQL[0].secretRef.name"],
    ),
    ({"hba": ["local all all trust"]}, ["spec.hba 'local all all trust'", "must begin with host"]),
    ({"hba": ["include /etc/passwd"]}, ["must begin with host, hostssl or hostnossl"]),
    ({"hba": ["# a comment"]}, ["spec.hba '# a comment'", "must begin with host"]),
    ({"hba": ["host all all all trust"]}, ["must end with scram-sha-256 or reject", "without a password"]),
    ({"hba": ["host all all all password"]}, ["must end with scram-sha-256 or reject"]),
    ({"hba": ["host all all all scram-sha-256 map=x"]}, ["must end with scram-sha-256 or reject"]),
    ({"hba": ["host all all all reject\nhost all all all trust"]}, ["spec.hba", "scram-sha-256 or reject"]),
    ({"hba": ["host all all reject"]}, ["must have databases, users, an address and a method"]),
    ({"hba": ["host all @file all reject"]}, ["must have databases, users, an address and a method"]),
    ({"hba": ['host "/[" all all reject']}, ["must have databases, users, an address and a method"]),
    ({"hba": ["host all a, b all reject"]}, ["no spaces between them"]),
    ({"hba": ["host all all 10.0.0.0/33 reject"]}, ["10.0.0.0/33", "use ADDRESS/LENGTH"]),
    ({"hba": ["host all all 10.0.0.1 reject"]}, ["use ADDRESS/LENGTH"]),
    ({"hba": ["host all all db.example.com reject"]}, ["use ADDRESS/LENGTH"]),
    ({"hba": [f"host all {'u' * 520} all reject"]}, ["spec.hba[0]", "512"]),
    ({"hba": ["host all all all reject"] * 65}, ["spec.hba", "64"]),
    (
        {"exporter": {"enabled": True}, "roles": [{"name": "kindling_exporter"}]},
        ["spec.exporter makes the role 'kindling_exporter'", "use another name"],
    ),
    (
        {"exporter": {"enabled": True}, "defaultuser": "kindling_exporter"},
        ["spec.exporter makes the role 'kindling_exporter'", "use another name"],
    ),
    (
        {"exporter": {"enabled": True, "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "500m"}}}},
        ["spec.exporter.resources.requests.cpu '2'", "at most '500m'"],
    ),
    ({"passwordSecretRef": {}}, ["spec.passwordSecretRef.name", "Required"]),
    ({"passwordSecretRef": {"name": "My_Secret"}}, ["spec.passwordSecretRef.name", '"My_Secret"']),
    ({"passwordSecretRef": {"name": "s", "key": "a/b"}}, ["spec.passwordSecretRef.key", '"a/b"']),
    (
        {"passwordSecretRef": {"name": "bad-binding"}},
        ["spec.passwordSecretRef.name 'bad-binding'", "your own"],
    ),
    ({"passwordSecretRef": {"name": "bad-superuser"}}, ["'bad-superuser'"]),
    ({"passwordSecretRef": {"name": "bad-server-tls"}}, ["'bad-server-tls'"]),
    ({"tls": {"secretName": "bad-server-tls"}}, ["spec.tls.secretName 'bad-server-tls'", "your own"]),
    ({"tls": {"secretName": "bad-server-issued"}}, ["spec.tls.secretName 'bad-server-issued'", "your own"]),
    ({"tls": {"secretName": "bad-server-ca"}}, ["spec.tls.secretName 'bad-server-ca'", "your own"]),
    ({"tls": {"secretName": "My_Secret"}}, ["spec.tls.secretName", '"My_Secret"']),
    ({"tls": {"secretName": ""}}, ["spec.tls.secretName"]),
    (
        {"tls": {"enabled": False, "required": True}},
        ["spec.tls.enabled 'false'", "set spec.tls.enabled to true"],
    ),
    ({"tls": {"enabled": False, "secretName": "s"}}, ["spec.tls.enabled 'false'", "spec.tls.secretName"]),
    ({"tls": {"required": "yes"}}, ["spec.tls.required", "boolean"]),
    (
        {"passwordSecretRef": {"name": "s"}, "password": "canary"},
        ["spec.password (not shown)", "spec.passwordSecretRef 's'", "only one"],
    ),
    (
        {"storage": {"accessMode": "ReadWriteOncePod", "ephemeral": True}},
        ["spec.storage.accessMode 'ReadWriteOncePod'", "takes no volume"],
    ),
    (
        {"storage": {"ephemeral": True, "autoGrow": {"maxSize": "2Gi"}}},
        ["spec.storage.autoGrow", "spec.storage.ephemeral 'true'", "takes no volume"],
    ),
    ({"storage": {"autoGrow": {}}}, ["spec.storage.autoGrow.maxSize", "Required"]),
    ({"storage": {"autoGrow": {"maxSize": "much"}}}, ["spec.storage.autoGrow.maxSize", "much"]),
    (
        {"storage": {"autoGrow": {"maxSize": "1000Mi"}}},
        ["spec.storage.autoGrow.maxSize '1000Mi'", "spec.storage.size '1Gi'", "raise it"],
    ),
    (
        {"storage": {"size": "3Gi", "autoGrow": {"maxSize": "2Gi"}}},
        ["spec.storage.autoGrow.maxSize '2Gi'", "spec.storage.size '3Gi'", "lower the size"],
    ),
    (
        {"storage": {"autoGrow": {"maxSize": "2Gi", "threshold": 49}}},
        ["spec.storage.autoGrow.threshold", "49", "50"],
    ),
    (
        {"storage": {"autoGrow": {"maxSize": "2Gi", "increment": "0%"}}},
        ["spec.storage.autoGrow.increment", "0%"],
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
    (
        {"hibernate": True, "storage": {"ephemeral": True}},
        ["spec.hibernate 'true'", "spec.storage.ephemeral 'true'", "leave spec.hibernate out"],
    ),
    ({"hibernate": 1}, ["spec.hibernate", "integer", "boolean"]),
    (
        {"hibernateWindow": {"schedule": "0 1 * * *", "duration": "2h"}, "storage": {"ephemeral": True}},
        ["spec.hibernateWindow", "spec.storage.ephemeral 'true'", "leave it out"],
    ),
    (
        {"hibernateWindow": {"schedule": "0 1 * *", "duration": "2h"}},
        ["spec.hibernateWindow.schedule", "0 1 * *"],
    ),
    (
        {"hibernateAfter": "30m", "storage": {"ephemeral": True}},
        ["spec.hibernateAfter", "spec.storage.ephemeral 'true'", "leave it out"],
    ),
    (
        {"hibernateAfter": "30m", "exporter": {"enabled": True}},
        ["spec.hibernateAfter", "spec.exporter", "default user 'postgres'", "leave one of the two out"],
    ),
    (
        {"wakeOnConnection": True},
        ["spec.wakeOnConnection", "without spec.hibernateAfter", "set that too, or leave it out"],
    ),
    (
        {"hibernateAfter": "30m", "wakeOnConnection": True, "hba": ["host all all 10.0.0.0/8 reject"]},
        ["spec.wakeOnConnection", "spec.hba by address", "use the address all"],
    ),
    ({"hibernateAfter": "30m", "wakeOnConnection": "yes"}, ["spec.wakeOnConnection", "string", "boolean"]),
    ({"hibernateAfter": "1 hour"}, ["spec.hibernateAfter", "1 hour"]),
    ({"hibernateWindow": {"schedule": "0 1 * * *"}}, ["spec.hibernateWindow.duration", "Required"]),
    (
        {"databases": [{"name": "d" * 57, "accessRoles": True}]},
        ["spec.databases[ddd", "accessRoles makes roles", "at most 56"],
    ),
    ({"credentials": {}}, ["spec.credentials.rotation", "Required"]),
    ({"credentials": {"rotation": True}}, ["spec.credentials.rotation", "boolean", "object"]),
    ({"credentials": {"rotation": {"schedule": "daily"}}}, ["spec.credentials.rotation.schedule", "daily"]),
    ({"credentials": {"rotation": {"overlap": "1d"}}}, ["spec.credentials.rotation.overlap", "1d"]),
    (
        {"credentials": {"rotation": {"timeZone": "Europe/Berlin"}}},
        ["spec.credentials.rotation.timeZone", "set spec.credentials.rotation.schedule too"],
    ),
    (
        {"credentials": {"rotation": {}}, "password": "given"},
        ["spec.credentials.rotation makes passwords", "leave out either"],
    ),
    (
        {"credentials": {"rotation": {}}, "passwordSecretRef": {"name": "mine"}},
        ["spec.credentials.rotation makes passwords", "spec.passwordSecretRef"],
    ),
    (
        {"credentials": {"rotation": {}}, "defaultUser": "u" * 62},
        ["spec.defaultUser 'uuu", "at most 61", "leave rotation out"],
    ),
    (
        {"credentials": {"rotation": {}}, "defaultUser": "app", "roles": [{"name": "app_b"}]},
        ["spec.roles has 'app_a' or 'app_b'", "use another name"],
    ),
    ({"deletionProtection": "yes"}, ["spec.deletionProtection", "string", "boolean"]),
    ({"paused": "yes"}, ["spec.paused", "string", "boolean"]),
    ({"mode": "plan"}, ["spec.mode", '"plan"', '"Apply", "Plan"']),
    ({"planFor": "shop"}, ["spec.planFor 'shop' takes spec.mode 'Plan'", "leave planFor out"]),
    ({"planFor": "shop", "mode": "Apply"}, ["spec.planFor 'shop' takes spec.mode 'Plan'"]),
    ({"planFor": "Shop", "mode": "Plan"}, ["spec.planFor", '"Shop"', "[a-z]"]),
    ({"planFor": "s" * 53, "mode": "Plan"}, ["spec.planFor", "52"]),
    ({"roles": [{}]}, ["spec.roles[0].name", "Required"]),
    ({"roles": [{"name": "A"}]}, ["spec.roles[0].name", '"A"', "[a-z0-9_]"]),
    ({"roles": [{"name": "a-b"}]}, ["spec.roles[0].name", '"a-b"']),
    ({"roles": [{"name": 'a"; DROP ROLE b'}]}, ["spec.roles[0].name"]),
    ({"roles": [{"name": "a_"}]}, ["spec.roles[0].name", '"a_"']),
    ({"roles": [{"name": "r" * 64}]}, ["spec.roles[0].name", "63"]),
    ({"roles": [{"name": "a"}, {"name": "a"}]}, ["spec.roles[1]", "Duplicate", '"a"']),
    ({"roles": [{"name": "pg_x"}]}, ["role name 'pg_x' is reserved"]),
    ({"roles": [{"name": "kindling"}]}, ["role name 'kindling' is reserved"]),
    ({"roles": [{"name": "postgres"}]}, ["spec.roles[postgres]", "spec.defaultUser", "leave it out"]),
    ({"roles": [{"name": "ada"}], "defaultuser": "ada"}, ["spec.roles[ada]", "leave it out"]),
    ({"roles": [{"name": "a", "memberOf": ["kindling"]}]}, ["memberOf 'kindling'", "leave it out"]),
    ({"roles": [{"name": "a", "memberOf": ["b", "pg_read_server_files"]}]}, ["'pg_read_server_files'"]),
    ({"roles": [{"name": "a", "memberOf": ["a"]}]}, ["spec.roles[a].memberOf 'a'", "leave it out"]),
    ({"roles": [{"name": "a", "memberOf": ["b", "b"]}]}, ["spec.roles[0].memberOf[1]", "Duplicate"]),
    ({"roles": [{"name": "a", "connectionLimit": -1}]}, ["spec.roles[0].connectionLimit", "-1", "0"]),
    (
        {"roles": [{"name": "a", "reclaimPolicy": "Keep"}]},
        ["spec.roles[0].reclaimPolicy", '"Keep"', "Retain"],
    ),
    (
        {"roles": [{"name": "a", "passwordSecretRef": {"name": "s"}}]},
        ["spec.roles[a].passwordSecretRef 's'", "set login to true"],
    ),
    ({"roles": [{"name": f"r{number}"} for number in range(201)]}, ["spec.roles", "200"]),
    ({"databases": [{"name": "a b"}]}, ["spec.databases[0].name", '"a b"']),
    ({"databases": [{"name": "a'; DROP DATABASE b"}]}, ["spec.databases[0].name"]),
    ({"databases": [{"name": "template1"}]}, ["'template1' is reserved"]),
    ({"databases": [{"name": "a", "owner": "kindling"}]}, ["owner 'kindling' is reserved"]),
    ({"databases": [{"name": "postgres", "owner": "a"}]}, ["spec.databases[postgres]", "leave out owner"]),
    (
        {"databases": [{"name": "ada", "reclaimPolicy": "Delete"}], "defaultUser": "ada"},
        ["spec.databases[ada]", "reclaimPolicy"],
    ),
    (
        {"databases": [{"name": "a", "encoding": "UNICODE"}]},
        ["spec.databases[0].encoding", '"UNICODE"', "UTF8"],
    ),
    ({"databases": [{"name": "a", "collation": "a b"}]}, ["spec.databases[0].collation", '"a b"']),
    ({"databases": [{"name": "a", "icuLocale": "de_DE"}]}, ["spec.databases[0].icuLocale", '"de_DE"']),
    (
        {"databases": [{"name": "a", "extensions": [{"name": "x;y"}]}]},
        ["spec.databases[0].extensions[0].name", '"x;y"'],
    ),
    (
        {"databases": [{"name": "a", "extensions": [{"name": "x"}, {"name": "x"}]}]},
        ["spec.databases[0].extensions[1]", "Duplicate"],
    ),
    (
        {"databases": [{"name": "a", "schemas": [{"name": "s", "owner": "o w"}]}]},
        ["spec.databases[0].schemas[0].owner", '"o w"'],
    ),
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
    kind = Postgresql(group="g", image="i", init_image="i", exporters_image="exporters:1")
    refused = kind.validate(postgresql(parameters={name: "x"}), observed(running())) is not None
    assert (create(api, {"parameters": {name: "x"}}).status == 422) is refused


EPHEMERAL: Json = {"storage": {"ephemeral": True}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            EPHEMERAL,
            {"storage": {"ephemeral": False}},
            "spec.storage.ephemeral 'false' cannot replace 'true'",
        ),
        (EPHEMERAL, {"storage": None}, "spec.storage.ephemeral 'false' cannot replace 'true'"),
        ({}, EPHEMERAL, "spec.storage.ephemeral 'true' cannot replace 'false'"),
        ({"storage": {"size": "1Gi"}}, EPHEMERAL, "spec.storage.ephemeral 'true' cannot replace 'false'"),
        (
            {},
            {"storage": {"accessMode": "ReadWriteOncePod"}},
            "spec.storage.accessMode 'ReadWriteOncePod' cannot replace 'ReadWriteOnce'",
        ),
        ({}, {"storage": {"ephemeral": False}}, None),
        (EPHEMERAL, {"storage": {"size": "2Gi"}}, None),
        ({"password": "old"}, {"password": None, "passwordSecretRef": {"name": "s"}}, None),
        ({"parameters": {"a": "1"}}, {"parameters": {"a": None, "b": "2"}}, None),
        ({"version": "16", "image": "postgres:16"}, {"version": "17"}, None),  # the operator knows the data
    ],
    ids=str,
)
def test_a_volume_stays_what_it_is_and_the_rest_may_change(
    api: Api, new_name: Callable[[], str], before: Json, after: Json, said: str | None
) -> None:
    name = new_name()
    api.create(POSTGRESQL.collection, POSTGRESQL.resource(name, before)).accepted()
    answer = api.merge(f"{POSTGRESQL.collection}/{name}", {"spec": after})
    assert answer.status == (200 if said is None else 422), answer.message
    if said is not None:
        assert said in answer.message


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"mode": "Plan", "planFor": "a"}, "spec.planFor 'a' cannot replace ''"),
        ({"mode": "Plan", "planFor": "a"}, {"planFor": "b"}, "spec.planFor 'b' cannot replace 'a'"),
        ({"mode": "Plan", "planFor": "a"}, {"planFor": None}, "spec.planFor '' cannot replace 'a'"),
        ({"mode": "Plan", "planFor": "a"}, {"mode": "Apply"}, "spec.planFor 'a' takes spec.mode 'Plan'"),
        ({"mode": "Plan", "planFor": "a"}, {"parameters": {"work_mem": "8MB"}}, None),
        ({}, {"mode": "Plan"}, None),
        ({"mode": "Plan"}, {"mode": None}, None),
    ],
    ids=str,
)
def test_what_is_a_plan_stays_one_and_what_has_children_becomes_none(
    api: Api, new_name: Callable[[], str], before: Json, after: Json, said: str | None
) -> None:
    name = new_name()
    api.create(POSTGRESQL.collection, POSTGRESQL.resource(name, before)).accepted()
    answer = api.merge(f"{POSTGRESQL.collection}/{name}", {"spec": after})
    assert answer.status == (200 if said is None else 422), answer.message
    assert said is None or said in answer.message


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


AS_CREATED: Json = {"name": "a", "encoding": "UTF8", "collation": "C"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({**AS_CREATED, "encoding": "LATIN1"}, ["spec.databases[a].encoding 'LATIN1'", "'UTF8'", "dump"]),
        ({"name": "a", "encoding": "UTF8"}, ["spec.databases[a].collation ''", "'C'", "dump"]),
        ({**AS_CREATED, "icuLocale": "de"}, ["spec.databases[a].icuLocale 'de'", "''", "dump"]),
    ],
)
def test_what_only_a_creation_decides_cannot_change(
    api: Api, new_name: Callable[[], str], changed: Json, said: list[str]
) -> None:
    name = new_name()
    made = POSTGRESQL.resource(name, {"databases": [{"name": "b"}, AS_CREATED]})
    api.create(POSTGRESQL.collection, made).accepted()
    path = f"{POSTGRESQL.collection}/{name}"
    answer = api.merge(path, {"spec": {"databases": [{"name": "b"}, changed]}})
    assert answer.status == 422
    assert [words for words in said if words not in answer.message] == [], answer.message
    other = {**AS_CREATED, "owner": "ada", "reclaimPolicy": "Delete", "schemas": [{"name": "s"}]}
    api.merge(path, {"spec": {"databases": [other]}}).accepted()
    api.merge(path, {"spec": {"databases": None}}).accepted()

"""Roles and databases of the spec on a real PostgreSQL: made, changed, dropped, and what is left alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql import databases as spec_databases
from kindling.kinds.postgresql import roles as spec_roles
from kindling.kinds.postgresql.objects import Objects
from kindling.prober import items, objects, sessions
from kindling.prober.client import ChildProber
from kindling.prober.databases import unfinished
from kindling.prober.jobs import Job

from tests.unit.operator import hostile
from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files, files_of_a_pod
from tests.unit.operator.test_postgres_port import as_superuser, login, sql, sync

PASSWORD = "canary-of-the-role"


def role(name: str, **changes: Any) -> dict[str, Any]:
    made = {"name": name, "login": True, "member_of": [], "connection_limit": -1, "password": PASSWORD}
    return {**made, **changes}


def group(name: str, **changes: Any) -> dict[str, Any]:
    return role(name, **{"login": False, "password": None, **changes})


def database(name: str, *, look: bool = False, creators: Sequence[str] = (), **item: Any) -> dict[str, Any]:
    """As the kind asks for an item of spec.databases."""
    (read,) = spec_databases.read({"spec": {"defaultUser": "ada", "databases": [{"name": name, **item}]}})
    values = {
        field: getattr(read, field) for field in ("name", "owner", "encoding", "collation", "icu_locale")
    }
    lists: dict[str, Any] = {
        "extensions": [*map(list, read.extensions)],
        "schemas": [*map(list, read.schemas)],
        "access": [read.reader, read.writer] if read.access_roles else [],
        "creators": [*creators],
    }
    return {**values, **lists, "made": read.made, "contents": read.contents, "look": look}


def request(server: Files, **changes: Any) -> Objects:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.port,
        "namespace": "ns",
        "pod": "db-0",
        "superuser": "kindling",
        "superuser_password": SUPERUSER_PASSWORD,
        "identifier": None,
        "default_user": "ada",
        "cache_key": None,
    }
    return Objects(**{**values, **changes})


def apply(server: Files, **changes: Any) -> ExternalResult:
    wanted = request(server, **changes)
    return objects.sync((wanted.host, wanted.port), wanted)


def said(result: ExternalResult) -> dict[str, str]:
    """Reason of each item that is not as wanted."""
    every = {**result.facts.get("roles", {}), **result.facts.get("databases", {})}
    return {name: reason for name, (reason, _) in every.items()}


def within(server: Files, database: str, query: str) -> Any:
    return sql(server, query, user="kindling", password=SUPERUSER_PASSWORD, database=database)


@contextmanager
def statements(server: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the server executes meanwhile, as its own log has it."""
    monkeypatch.setattr(sessions, "QUIET", {})
    path, found = server.root / "server.log", list[str]()
    before = path.stat().st_size
    yield found
    text = path.read_bytes()[before:].decode()
    # A line each; what goes on in the next line is of the same statement.
    found += re.findall(r"(?:statement|execute <unnamed>): (.*)", text)
    monkeypatch.undo()


@pytest.fixture(scope="module")
def running() -> Iterator[Files]:
    """One server for all, since starting it is what takes the time."""
    with files_of_a_pod() as made, made.running():
        yield made


@pytest.fixture
def ready(running: Files) -> Files:
    """It with its default user and nothing else."""
    databases = "SELECT datname FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')"
    roles = "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'kindling'"
    with psycopg.connect(
        host="127.0.0.1",
        port=running.port,
        user="kindling",
        password=SUPERUSER_PASSWORD,
        dbname="postgres",
        sslmode="disable",
        autocommit=True,
    ) as connection:
        for kind, query in (("DATABASE", databases), ("ROLE", roles)):
            for (name,) in connection.execute(query.encode()).fetchall():
                connection.execute(f"DROP {kind} {sessions.identifier(name)}".encode())
    assert sync(login(running)).ok
    return running


def test_roles_come_change_and_go(ready: Files) -> None:
    server, began = ready, (ready.root / "server.log").stat().st_size
    wanted = (role("app", member_of=["writers"], connection_limit=7), group("writers"))
    assert apply(server, roles=wanted) == ExternalResult(ok=True, facts={"roles": {}, "databases": {}})
    attributes = "SELECT rolcanlogin::text || rolconnlimit || rolsuper FROM pg_roles WHERE rolname = '%s'"
    assert as_superuser(server, attributes % "app") == "true7false"
    assert as_superuser(server, attributes % "writers") == "false-1false"
    member = "SELECT pg_has_role('app', '%s', 'MEMBER')"
    assert as_superuser(server, member % "writers")
    assert sql(server, "SELECT current_user", user="app", password=PASSWORD, database="ada") == "app"

    # Another password, another limit, other groups; a membership by another hand stays.
    as_superuser(server, "CREATE ROLE theirs; GRANT theirs TO app")
    changed = (role("app", password="second", member_of=["readers"]), group("writers"), group("readers"))
    assert apply(server, roles=changed).ok
    assert as_superuser(server, attributes % "app") == "true-1false"
    assert [as_superuser(server, member % name) for name in ("writers", "readers", "theirs")] == [
        False,
        True,
        True,
    ]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        sql(server, "SELECT 1", user="app", password=PASSWORD, database="ada")
    sql(server, "SELECT 1", user="app", password="second", database="ada")

    # By hand: undone, and only that.
    as_superuser(server, "ALTER ROLE app NOLOGIN PASSWORD 'by hand'")
    assert apply(server, roles=changed).ok
    sql(server, "SELECT 1", user="app", password="second", database="ada")

    # It has left the spec: kept, and dropped where that is asked for.
    assert apply(server, roles=()).ok
    exists = "SELECT count(*) FROM pg_roles WHERE rolname IN ('app', 'writers', 'readers')"
    assert as_superuser(server, exists) == 3
    within(server, "ada", "CREATE TABLE kept (); ALTER TABLE kept OWNER TO app")
    result = apply(server, drop_roles=("app", "writers", "theirs", "ada", "kindling", "nobody"))
    assert said(result) == {"app": "DropBlocked"}
    assert "owner of table kept" in result.message or "1 object in database ada" in result.message
    within(server, "ada", "DROP TABLE kept")
    assert apply(server, drop_roles=("app",)).ok
    assert as_superuser(server, exists) == 1
    assert as_superuser(server, "SELECT count(*) FROM pg_roles WHERE rolname IN ('theirs', 'ada')") == 2

    log = (server.root / "server.log").read_bytes()[began:].decode()
    assert [word for word in (PASSWORD, "second", "SCRAM-SHA-256$", "CREATE ROLE app") if word in log] == []


def test_databases_come_change_and_go(ready: Files) -> None:
    server = ready
    shop = database(
        "shop",
        owner="owner",
        encoding="LATIN1",
        collation="C",
        extensions=[{"name": "pg_trgm", "version": "1.3"}, {"name": "citext"}],
        schemas=[{"name": "sales"}, {"name": "other", "owner": "ada"}],
    )
    tags = database("Tags", icuLocale="de-AT")
    result = apply(server, roles=(group("owner"),), databases=(shop, tags))
    assert result.ok, result.message
    assert result.facts["extensions"]["shop"]["pg_trgm"] == "1.3"
    of = "SELECT pg_get_userbyid(datdba) || ' ' || pg_encoding_to_char(encoding) || ' ' || datcollate"
    of += " || ' ' || coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', '-')"
    of += " FROM pg_database d"
    assert as_superuser(server, f"{of} WHERE datname = 'shop'") == "owner LATIN1 C -"
    assert as_superuser(server, f"{of} WHERE datname = 'Tags'").endswith("de-AT")
    version = "SELECT extversion FROM pg_extension WHERE extname = 'pg_trgm'"
    where = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_trgm'"
    assert (within(server, "shop", version), within(server, "shop", where)) == ("1.3", "public")
    owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = '%s'"
    assert [within(server, "shop", owner % name) for name in ("sales", "other")] == ["owner", "ada"]

    # An update, an owner, a schema more; what left the lists stays.
    changed = database(
        "shop",
        owner="ada",
        encoding="LATIN1",
        collation="C",
        extensions=[{"name": "pg_trgm", "version": "1.6"}],
        schemas=[{"name": "more"}, {"name": "other", "owner": "owner"}],
    )
    result = apply(server, databases=(changed, tags))
    assert (result.ok, result.facts["extensions"]) == (True, {"shop": {"pg_trgm": "1.6"}})
    assert as_superuser(server, f"{of} WHERE datname = 'shop'") == "ada LATIN1 C -"
    assert within(server, "shop", version) == "1.6"
    assert [within(server, "shop", owner % name) for name in ("sales", "more", "other")] == [
        "owner",
        "ada",
        "owner",
    ]

    # What only its creation decides: it left the spec and came back with another encoding.
    result = apply(server, databases=(database("shop", encoding="UTF8"),))
    assert said(result) == {"shop": "CannotChange"}
    assert "encoding 'UTF8'" in result.message
    assert "'LATIN1'" in result.message

    # It has left the spec: kept, and dropped where that is asked for, but not while it is in use.
    assert apply(server).ok
    with psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        user="ada",
        password="lovelace-1815",
        dbname="shop",
        sslmode="disable",
    ):
        result = apply(server, drop_databases=("shop", "ada", "postgres"))
        assert said(result) == {"shop": "DropBlocked"}
        assert "other session" in result.message
    assert apply(server, drop_databases=("shop",)).ok
    names = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate"
    assert as_superuser(server, names) == "Tags ada postgres"


def test_the_role_of_the_exporter_may_look_and_is_said_to_be_the_exporters(ready: Files) -> None:
    server = ready
    (own,) = spec_roles.read({"spec": {"exporter": {"enabled": True}}})
    wanted = role(own.name, member_of=list(own.member_of), connection_limit=own.connection_limit)
    assert apply(server, roles=(wanted,)).ok
    sees, database = "SELECT count(*) > 0 FROM pg_ls_waldir()", "postgres"
    assert sql(server, sees, user=own.name, password=PASSWORD, database=database) is True
    for statement in ("SELECT count(*) FROM pg_authid", "SELECT pg_read_file('PG_VERSION')", "CREATE ROLE a"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql(server, statement, user=own.name, password=PASSWORD, database=database)
    assert apply(server, drop_roles=(own.name,)).ok
    as_superuser(server, f"CREATE ROLE {own.name}")
    result = apply(server, roles=(wanted,))
    assert (result.reason, result.message.split(":")[0]) == ("NameConflict", "spec.exporter")
    as_superuser(server, f"DROP ROLE {own.name}")


def test_what_somebody_made_by_hand_is_left_alone(ready: Files) -> None:
    server = ready
    as_superuser(server, "CREATE ROLE theirs LOGIN CONNECTION LIMIT 3")
    as_superuser(server, "CREATE DATABASE mine OWNER theirs")
    wanted: dict[str, Any] = {"roles": (role("theirs"), role("app")), "databases": (database("mine"),)}
    result = apply(server, **wanted)
    assert said(result) == {"theirs": "NameConflict", "mine": "NameConflict"}
    assert result.reason == "NameConflict"
    limit = "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'theirs'"
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'mine'"
    assert (as_superuser(server, limit), as_superuser(server, owner)) == (3, "theirs")
    assert said(apply(server, drop_roles=("theirs",), drop_databases=("mine",))) == {}
    assert as_superuser(server, owner) == "theirs"

    # A note of another server's is none: a dump that was restored here has it.
    as_superuser(server, f'COMMENT ON ROLE theirs IS \'{items.NOTE}{{"server": "7"}}\'')
    assert said(apply(server, **wanted))["theirs"] == "NameConflict"
    # Handed over by the command that the message has.
    for message in (result.facts["roles"]["theirs"][1], result.facts["databases"]["mine"][1]):
        as_superuser(server, message[message.index("COMMENT ON") :])
    assert apply(server, **wanted).ok
    assert (as_superuser(server, limit), as_superuser(server, owner)) == (-1, "ada")

    # A schema of another's keeps its owner, unless the list says none.
    within(server, "mine", "CREATE SCHEMA old AUTHORIZATION theirs")
    result = apply(server, databases=(database("mine", schemas=[{"name": "old", "owner": "ada"}]),))
    assert said(result) == {"mine": "StatementRejected"}
    assert "schema 'old' belongs to 'theirs'" in result.message
    assert apply(server, databases=(database("mine", schemas=[{"name": "old"}]),)).ok


def test_default_users_database_may_have_extensions_and_is_never_dropped(ready: Files) -> None:
    server = ready
    as_superuser(server, "COMMENT ON DATABASE ada IS 'of their own'")
    result = apply(server, databases=(database("ada", extensions=[{"name": "citext"}]),))
    assert result.ok, result.message
    assert within(server, "ada", "SELECT count(*) FROM pg_extension WHERE extname = 'citext'") == 1
    assert apply(server, drop_databases=("ada",), drop_roles=("ada",)).ok
    comment = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'ada'"
    assert as_superuser(server, comment) == "of their own"


def test_two_hundred_cost_what_differs(ready: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ready
    monkeypatch.setattr(items, "BUDGET_SECONDS", 60.0)
    monkeypatch.setattr(items, "BUDGET_CPU_SECONDS", 60.0)
    roles = [role(f"role_{number}", member_of=["all_of_them"]) for number in range(200)]
    every = (*roles, group("all_of_them"))
    some = tuple(database(f"db_{number}", owner=f"role_{number}") for number in range(4))
    with statements(server, monkeypatch) as first:
        assert apply(server, roles=every, databases=some).ok
    # One reads; each is made, becomes a member and its database is made, noted and renamed.
    assert len(first) == 1 + 201 + 200 + 4 * 2
    with statements(server, monkeypatch) as rest:
        assert apply(server, roles=every, databases=some).ok
    assert len(rest) == 1
    roles[7] = role("role_7", member_of=["all_of_them"], connection_limit=1)
    roles[8] = role("role_8", member_of=["all_of_them"], password="another")
    with statements(server, monkeypatch) as changed:
        assert apply(server, roles=(*roles, group("all_of_them")), databases=some).ok
    assert [text.split(" ")[:3] for text in changed[1:]] == [
        ["ALTER", "ROLE", '"role_7"'],
        ["ALTER", "ROLE", '"role_8"'],
    ]
    assert "PASSWORD 'SCRAM-SHA-256$" in changed[2]


def test_the_prober_does_two_hundred_of_each_within_its_limits(ready: Files) -> None:
    """Through the process that has little memory and processor time, in as many jobs as that takes."""
    roles = tuple(role(f"role_{number}", password="é" * 1024) for number in range(200))
    wanted = tuple(database(f"{'d' * 50}_{number}", owner=f"role_{number}") for number in range(20))

    async def scenario() -> tuple[ExternalResult, int]:
        prober = ChildProber()
        try:
            for jobs in range(1, 30):
                result = await prober.run(request(ready, roles=roles, databases=wanted))
                if result.ok:
                    return result, jobs
                assert (result.reason, set(said(result).values())) == ("Reconciling", {"Reconciling"})
            return result, jobs
        finally:
            await prober.close()

    result, jobs = asyncio.run(scenario())
    assert (result.ok, result.facts) == (True, {"roles": {}, "databases": {}})
    assert as_superuser(ready, "SELECT count(*) FROM pg_roles WHERE rolname ~ '^role_'") == 200
    assert jobs < 20


def test_the_longest_lists_are_taken_by_the_prober() -> None:
    """Parsing them is not counted as memory that a server takes. Nobody listens there."""
    roles = tuple(role(f"role_{number}", password="é" * 1024) for number in range(200))
    extensions = [{"name": f"{'e' * 40}{number}", "version": "1" * 10} for number in range(16)]
    schemas = [{"name": f"{'s' * 40}{number}", "owner": "o" * 20} for number in range(32)]
    wanted = tuple(database(f"d{number}", extensions=extensions, schemas=schemas) for number in range(200))
    asked = request(Files(Path(), 1), roles=roles, databases=wanted)
    assert len(Job(request=asked, host="h", port=1).line()) > 2**20

    async def scenario() -> ExternalResult:
        prober = ChildProber()
        try:
            return await prober.run(asked)
        finally:
            await prober.close()

    assert "Connection refused" in asyncio.run(scenario()).message


def test_what_is_said_of_four_hundred_fits_into_an_answer(ready: Files) -> None:
    roles = tuple(role(f"{'r' * 59}{number}", member_of=["n" * 63]) for number in range(200))
    wanted = tuple(database(f"{'d' * 59}{number}", owner="o" * 63) for number in range(200))

    async def scenario() -> ExternalResult:
        prober = ChildProber()
        try:
            while (result := await prober.run(request(ready, roles=roles, databases=wanted))).reason in (
                "Reconciling",
            ) or "Reconciling" in said(result).values():
                pass
            return result
        finally:
            await prober.close()

    result = asyncio.run(scenario())
    assert len(said(result)) == 400
    assert set(said(result).values()) == {"StatementRejected"}
    assert "(399 more in status.roles and status.databases)" in result.message


def test_contents_are_looked_at_only_when_they_change(ready: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    server, wanted = ready, database("shop", schemas=[{"name": "sales"}], extensions=[{"name": "citext"}])
    assert apply(server, databases=(wanted,)).ok
    with statements(server, monkeypatch) as rest:
        assert apply(server, databases=(wanted,)).facts == {"roles": {}, "databases": {}}
    assert len(rest) == 1
    result = apply(server, databases=({**wanted, "look": True},))
    assert result.facts["extensions"]["shop"].keys() == {"citext"}


def test_long_list_goes_on_in_the_next_job(ready: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ready
    monkeypatch.setattr(items, "BUDGET_SECONDS", 0.05)
    wanted = (role("first"), *(database(f"db_{number}") for number in range(5)))
    passes = 0
    while not (result := apply(server, roles=wanted[:1], databases=wanted[1:])).ok:
        assert (result.reason, set(said(result).values())) == ("Reconciling", {"Reconciling"})
        passes += 1
        assert passes < 20
    assert passes > 0
    assert as_superuser(server, "SELECT count(*) FROM pg_database WHERE datname LIKE 'db_%'") == 5


def test_a_creation_that_was_cut_off_is_created_again(ready: Files) -> None:
    server, new = ready, unfinished("shop")
    as_superuser(server, f"CREATE DATABASE {new}")
    assert apply(server, databases=(database("shop"),)).ok
    names = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate"
    assert as_superuser(server, names) == "ada postgres shop"


def test_without_apply_nothing_is_changed(ready: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ready
    wanted: Mapping[str, Any] = {"roles": (role("app"),), "databases": (database("shop", owner="app"),)}
    with statements(server, monkeypatch) as looked:
        result = apply(server, **wanted, apply=False)
    assert (result.reason, said(result)) == ("Paused", {"app": "Paused", "shop": "Paused"})
    assert len(looked) == 1
    assert apply(server, **wanted).ok
    assert apply(server, **wanted, apply=False).ok
    assert said(apply(server, drop_roles=("app",), drop_databases=("shop",), apply=False)) == {
        "app": "Paused",
        "shop": "Paused",
    }


ODD = ['x"; DROP ROLE ada; --', "x'; DROP ROLE ada; --", "a\\b", "é ü", "$$", "%s", "Select"]


def test_names_are_names_whatever_is_in_them(ready: Files) -> None:
    """None of them gets past the CRD, nor is that relied on."""
    server = ready
    for name in ODD:
        item = database(name, owner=name, schemas=[{"name": name, "owner": name}])
        result = apply(server, roles=(role(name, member_of=["ada"]),), databases=(item,))
        assert result.ok, (name, result.message)
        here = within(server, name, "SELECT count(*) FROM pg_namespace WHERE nspowner::regrole::text <> ''")
        assert here > 0
        assert sql(server, "SELECT current_user::text", user=name, password=PASSWORD, database=name) == name
        extension = database(name, owner=name, extensions=[{"name": name, "version": name}])
        assert said(apply(server, databases=(extension,))) == {name: "StatementRejected"}
        assert apply(server, drop_roles=(name,), drop_databases=(name,)).ok
    assert as_superuser(server, "SELECT count(*) FROM pg_roles WHERE rolname !~ '^pg_'") == 2
    assert as_superuser(server, "SELECT count(*) FROM pg_database") == 4


def test_nobody_is_made_a_member_of_the_powerful(ready: Files) -> None:
    server = ready
    as_superuser(server, "CREATE ROLE dba SUPERUSER")
    as_superuser(server, "CREATE ROLE helper; GRANT pg_execute_server_program TO helper")
    for name in ("dba", "helper", "kindling", "pg_read_server_files"):
        result = apply(server, roles=(role("app", member_of=[name]),))
        assert said(result) == {"app": "InvalidSpec"}
        assert f"memberOf {name!r}" in result.message
        assert (
            as_superuser(server, "SELECT count(*) FROM pg_auth_members WHERE member::regrole::text = 'app'")
            == 0
        )
    assert apply(server, roles=(role("app", member_of=["pg_monitor"]),)).ok


def test_one_that_is_refused_keeps_no_other_from_its_turn(ready: Files) -> None:
    server = ready
    result = apply(
        server,
        roles=(role("app", member_of=["nobody_of_that_name"]), role("other")),
        databases=(
            database("a", owner="nobody"),
            database("b", extensions=[{"name": "no_such"}]),
            database("c", extensions=[{"name": "pg_trgm", "version": "0.1"}]),
            database("d", owner="other", collation="xx_YY.nowhere"),
            database("e", owner="other"),
        ),
    )
    assert said(result) == dict.fromkeys(["app", "a", "b", "c", "d"], "StatementRejected")
    assert "nobody_of_that_name" in result.message
    assert result.message.startswith("spec.roles[app]: ")
    assert "no_such" in result.facts["databases"]["b"][1]
    assert as_superuser(server, "SELECT count(*) FROM pg_database WHERE datname IN ('e', 'other')") == 1


def test_other_data_and_a_wrong_superuser_are_said(ready: Files) -> None:
    server = ready
    result = apply(server, identifier="7", roles=(role("app"),))
    assert result.reason == "DataLost"
    result = apply(server, superuser_password="wrong", roles=(role("app"),))
    assert (result.reason, PASSWORD in result.message) == ("SuperuserLoginFailed", False)
    assert as_superuser(server, "SELECT count(*) FROM pg_roles WHERE rolname = 'app'") == 0


@pytest.mark.parametrize("sort", ["cleartext", "md5", "trust"])
def test_nothing_but_scram_is_ever_answered(sort: str) -> None:
    with hostile.hostile(sort) as there:
        result = apply(Files(Path(), there.port), roles=(role("app"),))
    assert (result.ok, result.reason) == (False, "UnsafeAuthentication")


def test_what_a_server_repeats_of_a_verifier_is_not_shown() -> None:
    no_session: Any = None
    state = items.State(identifier="7", roles={}, databases={}, powerful=frozenset())
    found = items.Items(no_session, state, apply=True)
    with found.item(found.roles, "app"):
        raise psycopg.errors.SyntaxError("unexpected SCRAM-SHA-256$4096:abc")
    assert found.roles == {"app": ("StatementRejected", "(not shown)")}

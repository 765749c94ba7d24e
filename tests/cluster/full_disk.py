"""A Postgresql whose volume gets full: to an amount, or to the end of its server."""

from __future__ import annotations

from typing import Any

from tests.cluster.csi_volumes import seen
from tests.cluster.stack import Environment, within

MI = 2**20
DATABASE = ("psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-Atc")
# It goes on when no table has space any more, until there is none for the log of changes either.
FILL = """DO $$ BEGIN
  LOOP
    BEGIN
      INSERT INTO filling SELECT repeat(md5(n::text), 20) FROM generate_series(1, 5000) n;
    EXCEPTION WHEN disk_full THEN
    END;
    PERFORM pg_logical_emit_message(true, 'filling', repeat('x', 1000000));
    COMMIT;
  END LOOP;
END $$"""


def inside(environment: Environment, name: str, statement: str, *, timeout: float = 120) -> str:
    """What the superuser is answered, in the server's container."""
    words = ("exec", f"{name}-0", "-c", "postgres", "--", *DATABASE, statement)
    return environment.kubectl(*words, timeout=timeout).strip()


def container(environment: Environment, name: str) -> dict[str, Any]:
    """The status of the server's."""
    statuses: list[dict[str, Any]] = environment.get("pod", f"{name}-0")["status"]["containerStatuses"]
    [found] = [one for one in statuses if one["name"] == "postgres"]
    return found


def fill(environment: Environment, name: str, *, to: int) -> None:
    """Until the files take that many bytes, or a bit more."""
    # A vacuum would log all pages once more, at a moment of its own.
    table = "create table if not exists filling (text text) with (autovacuum_enabled = false)"
    inside(environment, name, table)
    while (left := to - seen(environment, name).used) > 0:
        rows = max(1, min(left // 2, 8 * MI) // 700)
        statement = f"insert into filling select repeat(md5(n::text), 20) from generate_series(1, {rows}) n"
        inside(environment, name, statement)


def overrun(environment: Environment, name: str) -> None:
    """Fill the disk, until the server's container ends."""
    inside(environment, name, "create table filling (text text)")
    inside(environment, name, "create table kept as select generate_series(1, 10000) as id")
    inside(environment, name, "checkpoint")

    def ended() -> bool:
        session = environment.start("exec", f"{name}-0", "-c", "postgres", "--", *DATABASE, FILL)
        session.communicate(timeout=180)
        return "running" not in container(environment, name)["state"]

    within(300, ended)  # A server may recover from its first end, as long as anything is left.

"""The types of Postgresql, for kinds that name one in a `databaseRef`."""

from __future__ import annotations

from kindling.kube.resources import ResourceType

GROUP = "database.technotuesday.io"
GROUPS = (GROUP, "database.db.example.com")
"""The groups of Postgresql, the default first."""


def database_type(group: str) -> ResourceType:
    return ResourceType(group, "v1", "Postgresql", "postgresqls")


DATABASE_TYPES = tuple(map(database_type, GROUPS))

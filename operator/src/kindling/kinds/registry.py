"""Which kinds there are: one line each. A new kind is a room beside this file and a line here."""

from __future__ import annotations

from kindling.kinds.contract import Kind
from kindling.kinds.postgresql import Postgresql


def kinds(*, image_postgres: str) -> list[Kind]:
    """Every kind, with the image its workload runs by default."""
    return [
        Postgresql(group="database.technotuesday.io", image=image_postgres),
        Postgresql(group="database.db.example.com", image=image_postgres),
    ]

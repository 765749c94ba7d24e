"""What a resource names: Secrets and ConfigMaps that the operator reads, and other resources. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kindling.kinds.base import Kind

from tests.apiserver.support.apiclient import Json

INTO_WHAT_IS_THERE = ("InPlace", "Databases", "Verify")
"""Values of spec.into of a Restore that makes no Postgresql."""

SECRET, CONFIG_MAP = "Secret", "ConfigMap"


class Named(NamedTuple):
    """`key` is empty where the field names none."""

    kind: str
    name: str
    key: str
    path: str


def named(kind: Kind, body: Json, *, namespace: str) -> list[Named]:
    """Those that the operator reads. What a Pod alone mounts or has as variables, nobody starts here.

    None of a spec that is no spec: the API server says what is wrong with it.
    """
    cr = {**body, "metadata": {**body["metadata"], "namespace": namespace or "default", "uid": ""}}
    try:
        read = {SECRET: set(kind.secrets(cr)), CONFIG_MAP: set(kind.config_maps(cr))}
    except (AttributeError, LookupError, TypeError, ValueError):
        return []
    return [found for found in _walk(body.get("spec") or {}, "spec") if found.name in read[found.kind]]


def _walk(found: Any, path: str) -> Iterator[Named]:
    """A field is known by its name, in every kind (docs/adding-a-kind.md)."""
    if isinstance(found, list):
        for number, item in enumerate(found):
            yield from _walk(item, f"{path}[{number}]")
    if not isinstance(found, dict):
        return
    for key, value in found.items():
        below, word = f"{path}.{key}", key.lower()
        if word.endswith("secretref") and isinstance(value, dict):
            yield Named(SECRET, str(value.get("name", "")), str(value.get("key") or ""), below)
        elif word.endswith("configmapref") and isinstance(value, dict):
            yield Named(CONFIG_MAP, str(value.get("name", "")), str(value.get("key") or ""), below)
        elif word == "secretname" and isinstance(value, str):
            yield Named(SECRET, value, "", below)
        else:
            yield from _walk(value, below)


def companions(body: Json) -> Iterator[tuple[str, str, str, str]]:
    """Group, kind and name of each resource that has to be there first, and the field that names it."""
    group = str(body["apiVersion"]).rpartition("/")[0]
    spec = _part(body, "spec")
    database, backup = _part(spec, "databaseRef"), _part(_part(spec, "source"), "backupRef")
    # A Restore makes the Postgresql that it names, unless it is into one that is there.
    if database.get("name") and (body["kind"] == "Backup" or spec.get("into") in INTO_WHAT_IS_THERE):
        yield str(database.get("group") or group), "Postgresql", str(database["name"]), "spec.databaseRef"
    if backup.get("name"):
        yield group, "Backup", str(backup["name"]), "spec.source.backupRef"


def _part(holder: Json, name: str) -> Json:
    """Empty for what is no object, too."""
    found = holder.get(name)
    return found if isinstance(found, dict) else {}

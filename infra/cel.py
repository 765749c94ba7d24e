"""Pieces of CEL for `admission`: what a request changes in a spec, and whether its author may do something.

Each is text of an expression over `variables.spec` and `variables.old`, the new and the old spec; the old
one is empty on creation. Optional selection (`.?`) yields nothing where a field is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

Path: TypeAlias = tuple[tuple[str, str], ...]
"""The way to a field: names, each with the key that identifies a list's entries, empty for no list."""
NO_KEY: Final = "-"
"""Stands for the key of a list that has none."""

NEW, OLD = "variables.spec", "variables.old"


def may(
    verb: str,
    resource: str,
    *,
    group: str = "''",
    name: str = "",
    namespace: str | None = "request.namespace",
) -> str:
    """Whether the author may do it in a namespace (an expression; None: in all), to one name or to all.

    `group` is an expression, as `name` is.
    """
    within = "" if namespace is None else f".namespace({namespace})"
    of_name = f".name({name})" if name else ""
    return f"authorizer.group({group}).resource('{resource}'){within}{of_name}.check('{verb}').allowed()"


def is_list(path: Path) -> bool:
    return any(key for _, key in path)


def is_changed(path: Path) -> str:
    """Whether a field that is in no list is set, and not as it was."""
    return f"({_at(NEW, path)}.hasValue() && {_at(NEW, path)} != {_at(OLD, path)})"


def changed(path: Path) -> str:
    """A list of one text, the field and its value, if it is changed; of none if it is not."""
    assert not is_list(path), "what is within a list is asked for with the whole list"
    shown = f'"{_text(path)} \'" + string({_at(NEW, path)}.value()) + "\'"'
    return f"({is_changed(path)} ? [{shown}] : [])"


def newly_set(path: Path) -> str:
    """A list of one text, the field without its value, if it is changed; of none if it is not."""
    assert not is_list(path), "what is within a list is asked for with the whole list"
    return f"({is_changed(path)} ? ['{_text(path)}'] : [])"


def new_entries(path: Path) -> str:
    """A list of texts, one for each entry of a list that was not in it; values are not shown."""
    (name, key), (new, old) = path[-1], (_entries(NEW, path), _entries(OLD, path))
    text = _text((*path[:-1], (name, "")))
    entry = f"'{text}[' + e.{key} + ']'" if key != NO_KEY else f"'{text}'"
    return f"{new}.filter(e, !(e in {old})).map(e, {entry})"


def new_keys(field: str, keys: Sequence[str]) -> str:
    """A list of texts, one for each of these keys of a map that is set and not as it was."""
    listed = ", ".join(f"'{key}'" for key in keys)
    new, old = f"{NEW}.?{field}[?k]", f"{OLD}.?{field}[?k]"
    return f"[{listed}].filter(k, {new}.hasValue() && {new} != {old}).map(k, 'spec.{field}.' + k)"


def references(path: Path, *, again: str) -> str:
    """A list of `{field, name}` of the objects that a field newly names, or names and `again` is true.

    The field is an object with the `name`, or itself the name where it is called so: `secretName`.
    """
    lists = [number for number, (_, key) in enumerate(path) if key]
    if not lists:
        plain = path[-1][0].endswith("Name")
        field = _text(path if plain else (*path, ("name", "")))
        value = f"{_at(NEW, path)}.value()" + ("" if plain else ".name")
        named = f"{{'field': '{field}', 'name': string({value})}}"
        return f"({_at(NEW, path)}.hasValue() && ({again} || {is_changed(path)}) ? [{named}] : [])"
    assert len(lists) == 1, "a list within a list needs more than this"
    head, tail = path[: lists[0] + 1], path[lists[0] + 1 :]
    name, key = head[-1]
    inner = _at("optional.of(e)", tail)
    before, after = _text((*head[:-1], (name, ""))), "".join(f".{part}" for part, _ in (*tail, ("name", "")))
    entry = f"[' + e.{key} + ']" if key != NO_KEY else "[]"
    return (
        f"{_entries(NEW, head)}.filter(e, {inner}.hasValue() && ({again} || !(e in {_entries(OLD, head)})))"
        f".map(e, {{'field': '{before}{entry}{after}', 'name': string({inner}.value().name)}})"
    )


def _at(root: str, path: Path) -> str:
    return root + "".join(f".?{name}" for name, _ in path)


def _entries(root: str, path: Path) -> str:
    return f"{_at(root, path)}.orValue(dyn([]))"


def _text(path: Path) -> str:
    return ".".join(("spec", *(name for name, _ in path)))

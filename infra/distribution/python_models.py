"""Modules of Python with the types of a kind's resources, of its definition. Pure.

Objects become TypedDicts, those inside first, named by their path: `PostgresqlSpecStorage`.
"""

from __future__ import annotations

import keyword
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.errors import KindlingError
from infra.manifests import Manifest

Schema = Mapping[str, Any]
WIDTH = 100
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_FREE = "dict[str, Any]"


def modules(definitions: Sequence[Manifest]) -> dict[str, str]:
    """The text of each served version's module, by the module's name.

    A module is called by its kind; where several groups have the kind, also by the group's domain; for
    a version that is not the stored one, also by the version.

    :raises KindlingError: where two modules would have one name
    """
    groups = Counter(found["spec"]["names"]["kind"] for found in definitions)
    texts: dict[str, str] = {}
    for found in sorted(definitions, key=lambda item: str(item["metadata"]["name"])):
        spec = found["spec"]
        kind, group = spec["names"]["kind"], spec["group"]
        for version in spec["versions"]:
            if not version["served"]:
                continue
            words = [kind.lower()]
            words += [group.split(".")[-2].replace("-", "_")] if groups[kind] > 1 else []
            words += [] if version["storage"] else [version["name"]]
            name = "_".join(words)
            if name in texts:
                raise KindlingError(
                    f"two definitions make the Python module `{name}`",
                    why=f"kind {kind} is in another group whose domain has the same name as that of {group}",
                    remedy="have infra/distribution/python_models.py name them apart.",
                )
            texts[name] = module(group, kind, spec["names"]["plural"], version)
    return texts


def module(group: str, kind: str, plural: str, version: Mapping[str, Any]) -> str:
    """The module of one version of one kind."""
    name, schema = version["name"], version["schema"]["openAPIV3Schema"]
    api_version = f"{group}/{name}"
    # What the API demands of every object, and the schema leaves to it.
    root = {
        **schema,
        "required": ["apiVersion", "kind", "metadata", *schema.get("required", ())],
        "properties": {
            "metadata": {},
            **schema["properties"],
            "apiVersion": {"type": "string", "enum": [api_version]},
            "kind": {"type": "string", "enum": [kind]},
        },
    }
    classes: list[str] = []
    _define(kind, root, classes, metadata=True)
    body = "\n\n\n".join(classes)
    used = [word for word in ("Any", "Literal", "NotRequired") if f"{word}[" in body or f" {word}]" in body]
    return (
        f'"""Kind {kind} of {api_version}: the types of its resources."""\n\n'
        "from __future__ import annotations\n\n"
        f"from typing import {', '.join([*used, 'TypedDict'])}\n\n"
        "from kindling_client.client import ResourceKind\n"
        "from kindling_client.meta import ObjectMeta\n\n"
        f'GROUP = "{group}"\nVERSION = "{name}"\nAPI_VERSION = "{api_version}"\n'
        f'KIND = "{kind}"\nPLURAL = "{plural}"\n\n\n'
        f"{body}\n\n\n"
        f"RESOURCE: ResourceKind[{kind}] = ResourceKind(GROUP, VERSION, KIND, PLURAL)\n"
    )


def _type(name: str, schema: Schema, classes: list[str]) -> str:
    """The type of a value; classes that it needs are added, and named after `name`."""
    found = _plain_type(name, schema, classes)
    return f"{found} | None" if schema.get("nullable") and found != "Any" else found


def _plain_type(name: str, schema: Schema, classes: list[str]) -> str:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return "int | str"
    values = [value for value in schema.get("enum", ()) if value is not None]
    if values and all(isinstance(value, str | int) for value in values):
        return f"Literal[{', '.join(map(_literal, values))}]"
    if kind == "array":
        return f"list[{_type(f'{name}Item', schema.get('items', {}), classes)}]"
    if kind == "object":
        return _object_type(name, schema, classes)
    return _SCALARS.get(str(kind), "Any")


def _object_type(name: str, schema: Schema, classes: list[str]) -> str:
    # A TypedDict takes no other keys than its own, and these take any.
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource"):
        return _FREE
    if schema.get("properties"):
        _define(name, schema, classes)
        return name
    values = schema.get("additionalProperties")
    return f"dict[str, {_type(f'{name}Value', values, classes)}]" if isinstance(values, Mapping) else _FREE


def _define(name: str, schema: Schema, classes: list[str], *, metadata: bool = False) -> None:
    """Add the class of an object after those of the objects in it; `metadata`: it is a whole resource."""
    required = set(schema.get("required", ()))
    fields: dict[str, tuple[str, str]] = {}
    for key, value in schema["properties"].items():
        path = f"{name}{''.join(part[:1].upper() + part[1:] for part in _parts(key))}"
        found = "ObjectMeta" if metadata and key == "metadata" else _type(path, value, classes)
        fields[key] = (
            found if key in required else f"NotRequired[{found}]",
            str(value.get("description", "")),
        )
    about = str(schema.get("description", ""))
    write = _class if all(map(_is_attribute, fields)) else _call
    classes.append("\n".join(write(name, about, fields)))


def _class(name: str, about: str, fields: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    yield f"class {name}(TypedDict):"
    if about:
        yield from (*_docstring(about), "")
    for key, (found, description) in fields.items():
        yield f"    {key}: {found}"
        if description:
            yield from _docstring(description)


def _call(name: str, about: str, fields: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Keys that are no attributes need this form; it has no docstring but what is assigned."""
    yield f"{name} = TypedDict("
    yield f"    {_literal(name)},"
    yield "    {"
    for key, (found, description) in fields.items():
        yield from (f"        # {line}" for line in textwrap.wrap(description, WIDTH - 10))
        yield f"        {_literal(key)}: {found},"
    yield "    },"
    yield ")"
    if about:
        first, *rest = _docstring(about)
        yield from (f"{name}.__doc__ = {first.strip()}", *rest)


def _docstring(text: str) -> list[str]:
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    lines = textwrap.wrap(safe, WIDTH - 10, break_long_words=False) or [""]
    body = [lines[0], *(f"    {line}" for line in lines[1:])]
    return f'    """{chr(10).join(body)}"""'.split("\n")


def _parts(key: str) -> list[str]:
    """The words of a key that can be in a name."""
    return "".join(char if char.isalnum() else " " for char in key).split()


def _is_attribute(key: str) -> bool:
    return key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")


def _literal(value: str | int) -> str:
    if not isinstance(value, str):
        return repr(value)
    safe = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe}"' if value.isprintable() else repr(value)

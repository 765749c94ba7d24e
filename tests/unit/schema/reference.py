"""The reference of the kinds, as Markdown: each field of the CRDs with type, default, limits and meaning.

`python -m tests.unit.schema.reference` writes it to docs/reference; test_reference.py compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra import yaml_text
from infra.paths import REPOSITORY

FOLDER = REPOSITORY / "docs" / "reference"
GENERATED = "Generated from `crds/`; do not edit."
Schema = dict[str, Any]
# What a limit is called in the table, by its key in the schema.
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches `{}`",
}
# Kubernetes' own types, explained in its reference and not again here.
_OF_KUBERNETES = {
    "resources", "conditions", "podSelector", "namespaceSelector", "labelSelector", "affinity",
}  # fmt: skip


def pages() -> dict[Path, str]:
    """Each page's text by its file. Kinds of one schema in several groups share a page."""
    found: dict[Path, list[Schema]] = {}
    for file in sorted((REPOSITORY / "crds").glob("*.yaml")):
        crd = yaml_text.load(file.read_text())
        found.setdefault(FOLDER / f"{crd['spec']['names']['plural']}.md", []).append(crd)
    return {path: _page(crds) for path, crds in found.items()}


def _page(crds: list[Schema]) -> str:
    names = crds[0]["spec"]["names"]
    version = crds[0]["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    for other in crds[1:]:
        assert other["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema, "one page, one schema"
    lines = [
        f"# {names['kind']}",
        "",
        GENERATED,
        "",
        schema["description"],
        "",
        "| | |",
        "|---|---|",
        *(
            f"| `apiVersion` | `{crd['spec']['group']}/{each['name']}` |"
            for crd in crds
            for each in crd["spec"]["versions"]
        ),
        f"| `kind` | `{names['kind']}` |",
        f"| short names | {', '.join(f'`{name}`' for name in names.get('shortNames', [])) or 'none'} |",
        f"| subresources | {', '.join(f'`{name}`' for name in version.get('subresources', {})) or 'none'} |",
        "",
    ]
    for part in ("spec", "status"):
        lines += [
            f"## {part}",
            "",
            "| field | type | default | meaning |",
            "|---|---|---|---|",
            *_rows(schema["properties"][part], part),
            "",
        ]
    lines += ["## Columns of `kubectl get`", "", "| column | shows | with |", "|---|---|---|"]
    for column in version["additionalPrinterColumns"]:
        wide = "`-o wide`" if column.get("priority") else ""
        lines.append(f"| {column['name']} | {_cell(column.get('description', 'its age'))} | {wide} |")
    return "\n".join(lines) + "\n"


def _rows(schema: Schema, path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        place = f"{path}.{name}"
        # What a status may hold at most is the operator's business.
        bounds = _LIMITS if path.startswith("spec") else {}
        limits = [words.format(field[key]) for key, words in bounds.items() if key in field]
        if "enum" in field:
            limits.append("one of " + ", ".join(f"`{value}`" for value in field["enum"] if value is not None))
        default = f"`{field['default']}`" if "default" in field else "required" if name in required else ""
        meaning = "; ".join([field.get("description", "").rstrip("."), *limits]).strip("; ")
        yield f"| `{place}` | {_type(field)} | {_cell(default)} | {_cell(meaning)} |"
        if name in _OF_KUBERNETES:
            continue
        yield from _rows(field, place)
        yield from _rows(field.get("items") or {}, f"{place}[]")


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    values = field.get("additionalProperties")
    if field.get("type") == "object" and isinstance(values, dict):
        return f"map of {_type(values)}"
    return str(field.get("type", "any"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
        print(path.relative_to(REPOSITORY))

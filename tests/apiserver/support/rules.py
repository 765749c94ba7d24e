"""The CEL rules of a schema, and of each the form of what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.apiserver.support.apiclient import Json

_TOKEN = re.compile(
    r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\.format\()|([()\[\]?:+])|\s+|[^'"()\[\]?:+\s]+"""
)
"""Of CEL: a literal, the beginning of its values, a sign, or anything else."""
_VALUE = re.compile(r"%[a-z]")


def rules(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Each with the path of the field that it is of."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule
    for name, below in schema.get("properties", {}).items():
        yield from rules(below, f"{path}.{name}")
    if "items" in schema:
        yield from rules(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from rules(schema["additionalProperties"], f"{path}{{}}")


def says(rule: Json) -> re.Pattern[str]:
    """What the end of its messages looks like: its literals, with any values between them."""
    if "messageExpression" not in rule:
        return re.compile(re.escape(rule["message"]) + r"\Z")
    return re.compile(_form(rule["messageExpression"]) + r"\Z", re.DOTALL)


def _form(expression: str) -> str:
    """Of a sum of literals and values, or of a choice between two of these."""
    forms, parts, depth = list[str](), list[str](), 0
    for found in _TOKEN.finditer(expression):
        literal, sign = found[1] or found[2], found[3] or found[4]
        depth -= sign in (")", "]")
        if depth == 0 and literal:
            text = literal.replace("\\'", "'").replace('\\"', '"')
            parts.append(".*".join(map(re.escape, _VALUE.split(text))))
        elif depth == 0 and sign == "?":
            parts = []
        elif depth == 0 and sign == ":":
            forms.append("".join(parts))
            parts = []
        elif depth == 0 and sign != "+" and found[0].strip() and parts[-1:] != [".*"]:
            parts.append(".*")
        depth += sign in (".format(", "(", "[")
    return "|".join(f"(?:{form})" for form in (*forms, "".join(parts)))

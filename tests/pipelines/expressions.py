"""GitHub's expressions, as far as workflows here use them; what is not known here is an error.

GitHub itself takes an unknown name for null. Where the names come from outside (an event, secrets and
variables), so does this module: such a context is `Open`. In all others each name must be known.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Value = Any
"""What JSON has: None, a boolean, number, text, list or mapping."""

_TOKENS = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<text>'(?:[^']|'')*')|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[!<>()\[\].,]))"
)
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
STATUS = ("success", "failure", "always", "cancelled")


class ExpressionError(Exception):
    """An expression that cannot be judged; it names the expression and what is wrong in it."""


class Open(dict[str, Value]):
    """A context of which nobody here knows all names: one that is absent is null, and so is what is below."""


class Scope:
    """What an expression sees: contexts by name, how it went so far, and the files of the workspace.

    `status` is success, failure or cancelled.
    """

    def __init__(
        self, contexts: Mapping[str, Value], *, status: str = "success", workspace: Path | None = None
    ) -> None:
        self.contexts = contexts
        self.status = status
        self.workspace = workspace

    def evaluate(self, expression: str) -> Value:
        """The value of an expression, without its braces."""
        return _Parser(expression, self).all()

    def fill(self, text: str) -> str:
        """The text with each `${{ }}` in it replaced by its value."""
        return _EXPRESSION.sub(lambda match: as_text(self.evaluate(match[1])), text)

    def value(self, given: Value) -> Value:
        """The same through lists and mappings; a text that is one expression keeps the type of its value."""
        if isinstance(given, str):
            found = _EXPRESSION.findall(given)
            alone = len(found) == 1 and _EXPRESSION.fullmatch(given.strip())
            return self.evaluate(found[0]) if alone else self.fill(given)
        if isinstance(given, Mapping):
            return {self.fill(key): self.value(each) for key, each in given.items()}
        return [self.value(each) for each in given] if isinstance(given, list) else given

    def holds(self, condition: Value) -> bool:
        """Whether an `if:` lets its job or step run; without a word of its own on it, after success alone."""
        text = "success()" if condition is None else as_text(condition).strip()
        if len(found := _EXPRESSION.findall(text)) == 1 and _EXPRESSION.fullmatch(text):
            text = found[0]
        if not re.search(rf"\b({'|'.join(STATUS)})\s*\(", text):
            text = f"success() && ({text})"
        return truth(self.evaluate(text))


def truth(value: Value) -> bool:
    """Objects and lists are true, even empty ones."""
    return isinstance(value, list | Mapping) or (value not in (None, False, 0, "") and value == value)


def as_text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "Array" if isinstance(value, list) else "Object" if isinstance(value, Mapping) else str(value)


def _number(value: Value) -> float:
    if value is None or value == "":
        return 0.0
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _same(left: Value, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    if isinstance(left, list | Mapping) or isinstance(right, list | Mapping):
        return left is right
    if type(left) is type(right):
        return bool(left == right)
    return _number(left) == _number(right)


def _orders(sign: str, left: Value, right: Value) -> bool:
    both = isinstance(left, str) and isinstance(right, str)
    one, other = (left.lower(), right.lower()) if both else (_number(left), _number(right))
    return bool({"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[sign])


class _Parser:
    """By recursive descent; all parts are judged, as none of them has an effect."""

    def __init__(self, expression: str, scope: Scope) -> None:
        self._expression = expression.strip()
        self._scope = scope
        self._tokens = self._split()
        self._at = 0

    def all(self) -> Value:
        value = self._or()
        if self._at < len(self._tokens):
            raise self._wrong(f"`{self._tokens[self._at][1]}` was not expected")
        return value

    def _split(self) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(self._expression):
            match = _TOKENS.match(self._expression, at)
            if match is None or match.lastgroup is None:
                raise self._wrong(f"not understood from `{self._expression[at:].strip()}` on")
            tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return tokens

    def _wrong(self, why: str) -> ExpressionError:
        return ExpressionError(f"`{self._expression}`: {why}")

    def _took(self, *signs: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at] in [("sign", sign) for sign in signs]:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _expect(self, sign: str) -> None:
        if not self._took(sign):
            raise self._wrong(f"`{sign}` is missing")

    def _or(self) -> Value:
        value = self._and()
        while self._took("||"):
            other = self._and()
            value = value if truth(value) else other
        return value

    def _and(self) -> Value:
        value = self._equal()
        while self._took("&&"):
            other = self._equal()
            value = other if truth(value) else value
        return value

    def _equal(self) -> Value:
        value = self._order()
        while sign := self._took("==", "!="):
            value = _same(value, self._order()) == (sign == "==")
        return value

    def _order(self) -> Value:
        value = self._not()
        while sign := self._took("<", "<=", ">", ">="):
            value = _orders(sign, value, self._not())
        return value

    def _not(self) -> Value:
        return not truth(self._not()) if self._took("!") else self._path()

    def _path(self) -> Value:
        value, name = self._one()
        while sign := self._took(".", "["):
            if sign == "[":
                key = self._or()
                self._expect("]")
            else:
                kind, key = self._next()
                if kind != "name":
                    raise self._wrong(f"`{key}` is no name")
            value, name = self._below(value, key, name), f"{name}.{as_text(key)}"
        return value

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._wrong("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _one(self) -> tuple[Value, str]:
        kind, token = self._next()
        if kind == "number":
            return float(token), token
        if kind == "text":
            return token[1:-1].replace("''", "'"), token
        if kind == "sign":
            if token != "(":
                raise self._wrong(f"`{token}` was not expected")
            value = self._or()
            self._expect(")")
            return value, "(...)"
        if self._took("("):
            return self._call(token), f"{token}()"
        if token in _WORDS:
            return _WORDS[token], token
        if token not in self._scope.contexts:
            raise self._wrong(f"there is no context `{token}` here")
        return self._scope.contexts[token], token

    def _below(self, value: Value, key: Value, name: str) -> Value:
        if value is None:
            # Below something absent of an open context.
            return None
        if isinstance(value, list) and isinstance(key, float):
            return value[int(key)] if key < len(value) else None
        if not isinstance(value, Mapping):
            raise self._wrong(f"{name} has nothing below it")
        for known in value:
            if known.lower() == as_text(key).lower():
                found = value[known]
                is_open = isinstance(value, Open) and isinstance(found, dict)
                return Open(found) if is_open else found
        if isinstance(value, Open):
            return None
        raise self._wrong(f"{name} has no `{as_text(key)}`, only {', '.join(value) or 'nothing'}")

    def _call(self, name: str) -> Value:
        arguments: list[Value] = []
        while not self._took(")"):
            arguments.append(self._or())
            if not self._took(","):
                self._expect(")")
                break
        if name in STATUS:
            return name == "always" or self._scope.status == name
        if name == "hashFiles":
            if self._scope.workspace is None:
                raise self._wrong("hashFiles() needs a workspace, which there is in steps alone")
            return hash_files(self._scope.workspace, arguments)
        if name not in _FUNCTIONS:
            raise self._wrong(f"there is no function `{name}` here")
        try:
            return _FUNCTIONS[name](*arguments)
        except (TypeError, IndexError, ValueError) as error:
            raise self._wrong(f"{name}(): {error}") from None


def _contains(where: Value, what: Value) -> bool:
    if isinstance(where, list):
        return any(_same(each, what) for each in where)
    return as_text(what).lower() in as_text(where).lower()


def _format(text: str, *values: Value) -> str:
    def filled(match: re.Match[str]) -> str:
        return {"{{": "{", "}}": "}"}.get(match[0]) or as_text(values[int(match[1])])

    return re.sub(r"\{\{|\}\}|\{(\d+)\}", filled, text)


_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "contains": _contains,
    "startsWith": lambda text, start: as_text(text).lower().startswith(as_text(start).lower()),
    "endsWith": lambda text, end: as_text(text).lower().endswith(as_text(end).lower()),
    "format": _format,
    "join": lambda items, by=",": by.join(map(as_text, items)) if isinstance(items, list) else as_text(items),
    "toJSON": lambda value: json.dumps(value, indent=2),
    "fromJSON": json.loads,
}


def hash_files(workspace: Path, patterns: list[str]) -> str:
    """GitHub's own: the hash of the hashes of all files that match; empty where none does."""
    found: set[Path] = set()
    for pattern in patterns:
        matches = list(workspace.glob(pattern))
        # A pattern that ends with `**` means the files below.
        found |= {path for match in matches for path in [match, *match.glob("*")] if path.is_file()}
    if not found:
        return ""
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()

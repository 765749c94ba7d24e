"""As much of PromQL as our rules use: what parses here is PromQL; anything else is an error."""

from __future__ import annotations

import re
from collections.abc import Collection

AGGREGATIONS = ("sum", "max", "min", "count")
# By name: the types of the arguments, in order.
FUNCTIONS = {
    "rate": ("range",),
    "increase": ("range",),
    "min_over_time": ("range",),
    "absent": ("vector",),
    "histogram_quantile": ("number", "vector"),
    "time": (),
}
OPERATORS = ("+", "-", "*", "/", "==", "!=", ">", "<", ">=", "<=", "and", "or", "unless")
MATCHERS = ("=", "!=", "=~", "!~")
_TOKEN = re.compile(
    r'\s*("[^"]*"|[0-9]+[smhd]|[0-9.]+|[A-Za-z_:][\w:]*|=~|!~|==|!=|>=|<=|[-+*/><=(){}\[\],])'
)


class NotPromQL(Exception):
    """What was expected, and what is there instead."""


class Expression:
    """`selectors` are the metrics that it reads, each with the labels that it matches or is grouped by."""

    def __init__(self, text: str) -> None:
        """:raises NotPromQL: for what is none."""
        self._tokens = _TOKEN.findall(text)
        if "".join(self._tokens) != "".join(text.split()):
            raise NotPromQL(f"not made of tokens: {text}")
        self.selectors: list[tuple[str, set[str]]] = []
        self._expression()
        if self._tokens:
            raise NotPromQL(f"nothing more was expected: {self._tokens}")

    def _expression(self) -> str:
        """The type of what was read: number, vector or range."""
        found = self._operand()
        while self._next in OPERATORS:
            self._take()
            if self._next == "on":
                self._take()
                self._labels()
            if "range" in (found, right := self._operand()):
                raise NotPromQL("an operator takes no range")
            found = "vector" if "vector" in (found, right) else "number"
        return found

    def _operand(self) -> str:
        word = self._take()
        if re.fullmatch(r"[0-9.]+", word):
            return "number"
        if word == "(":
            found = self._expression()
            self._take(")")
            return found
        if word in AGGREGATIONS:
            return self._aggregation()
        if word in FUNCTIONS:
            return self._call(word)
        return self._selector(word)

    def _aggregation(self) -> str:
        labels = set()
        if self._next == "by":
            self._take()
            labels = self._labels()
        before = len(self.selectors)
        self._take("(")
        if self._expression() != "vector":
            raise NotPromQL("an aggregation takes a vector")
        self._take(")")
        for _, known in self.selectors[before:]:
            known.update(labels)
        return "vector"

    def _call(self, function: str) -> str:
        self._take("(")
        for number, type in enumerate(FUNCTIONS[function]):
            if number:
                self._take(",")
            if (found := self._expression()) != type:
                raise NotPromQL(f"{function} takes a {type}, not a {found}")
        self._take(")")
        return "number" if function == "time" else "vector"

    def _selector(self, metric: str) -> str:
        if not re.fullmatch(r"[A-Za-z_:][\w:]*", metric) or self._next == "(":
            raise NotPromQL(f"neither a metric nor a function that is known: {metric!r}")
        labels: set[str] = set()
        if self._next == "{":
            self._take()
            while self._next != "}":
                labels.add(self._take())
                self._take(*MATCHERS)
                if not self._take().startswith('"'):
                    raise NotPromQL(f"a label of {metric} is compared with no text")
                if self._next != "}":
                    self._take(",")
            self._take("}")
        self.selectors.append((metric, labels))
        if self._next != "[":
            return "vector"
        self._take()
        if not re.fullmatch(r"[0-9]+[smhd]", duration := self._take()):
            raise NotPromQL(f"no duration: {duration!r}")
        self._take("]")
        return "range"

    def _labels(self) -> set[str]:
        self._take("(")
        found = {self._take()}
        while self._next == ",":
            self._take()
            found.add(self._take())
        self._take(")")
        return found

    @property
    def _next(self) -> str:
        return str(self._tokens[0]) if self._tokens else ""

    def _take(self, *expected: str) -> str:
        if not self._tokens or not _is_one_of(self._next, expected):
            raise NotPromQL(f"{self._next!r} where one of {expected or 'something'} was expected")
        return str(self._tokens.pop(0))


def _is_one_of(word: str, expected: Collection[str]) -> bool:
    return not expected or word in expected

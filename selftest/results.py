"""What was found of each resource, and how values that are secret are kept out of it. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from kindling.engine.redaction import Redactor

from selftest.manifests import Document
from tests.apiserver.support.apiclient import Json
from tests.convergence.recorder import Difference

HIDDEN = "<redacted>"
SHORTEST = 4
"""A shorter word is in many others, and no secret."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A run that ended otherwise: what was done to it, and in what it differs. `problem` where no comparison
    was possible.
    """

    scenario: str
    write: str = ""
    killed: str = ""
    differences: Sequence[Json] = ()
    problem: str = ""


@dataclass(kw_only=True)
class Result:
    """Of one resource. `writes` are those at which the operator was killed, each before and after; `kills`
    those that happened. `missed`: the writes did not come again as they were learned.
    """

    name: str
    file: str
    writes: int = 0
    kills_before: int = 0
    kills_after: int = 0
    missed: int = 0
    seconds: float = 0.0
    settled: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return self.kills_before + self.kills_after

    @property
    def different(self) -> int:
        return len(self.findings)


class Secrets:
    """The values of the files that must not be printed."""

    def __init__(self, documents: Iterable[Document]) -> None:
        found: set[str] = set()
        for document in documents:
            if document.kind == "Secret":
                for text in (document.body.get("stringData") or {}).values():
                    found.add(str(text))
                for text in (document.body.get("data") or {}).values():
                    found.add(_decoded(str(text)))
            else:
                found |= set(Redactor(b"").taken(document.body).texts)
        lines = {line.strip() for text in found for line in text.splitlines()}
        forms = {form for text in found | lines if len(text) >= SHORTEST for form in _forms(text)}
        words = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, words))) if words else None

    def redact(self, text: str) -> str:
        return self._pattern.sub(HIDDEN, text) if self._pattern is not None else text

    def described(self, difference: Difference) -> Json:
        """Without any value of a Secret, whoever made it."""
        kind, _, _ = difference.object.partition(" ")
        found, expected = difference.found, difference.expected
        if difference.lifecycle:
            found, expected = f"{found} times", f"{expected} times"
        elif kind == "secrets" and not difference.field.startswith(".metadata"):
            found, expected = _hidden(found, "a value"), _hidden(expected, "another value")
        elif not difference.field:
            found, expected = (_presence(value) for value in (found, expected))
        described = {
            "object": difference.object,
            "field": difference.field.lstrip("."),
            "found": found,
            "expected": expected,
        }
        redacted: Json = self._within(described)
        return redacted

    def _within(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._within(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._within(item) for item in value]
        return self.redact(value) if isinstance(value, str) else value


def _hidden(value: Any, word: str) -> str:
    if isinstance(value, dict):
        return "a Secret with " + ", ".join(sorted(value.get("data") or value)) if value else "an empty one"
    return "absent" if value is None else f"<{word}>"


def _presence(value: Any) -> str:
    return "absent" if value is None else "present"


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except ValueError:
        return text


def _forms(text: str) -> Iterable[str]:
    """As it is, and as it is in an address, a Secret and a JSON text."""
    return text, quote(text, safe=""), base64.b64encode(text.encode()).decode(), text.replace('"', '\\"')

"""What a record of a decision may say: everything that it was taken from, but no secret. Pure.

A value that is secret becomes a word that stands for it, the same for the same value within one process: so
what is compared compares as before, and nothing can be read. Certificates stay: they are public. A value of a
Secret that is empty, of several lines or no text is so still, since it is refused for that.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kindling.kube.resources import Object

MARK = "redacted-"
TELLING = re.compile(
    r"passw|passphrase|secret|token|credential|apikey|privatekey|accesskey|accountkey|authorization", re.I
)
REFERENCES = re.compile(r"(ref|refs|name|names|namespace|policy|type|mode|path|seconds|time|version)$", re.I)
"""Ends of names that say where something is, or how much of it: `passwordSecretRef`, `secretName`."""
_LOGIN = re.compile(r"(?<=://)[^/\s@\"']+(?=@)")
_PAST = re.compile(r"last-applied|/original|/previous|kapp\.k14s\.io/")
_PUBLIC = frozenset({"type", "provider", "host", "port", "username", "database", "sslmode"})
_MARK_ENCODED = base64.b64encode(MARK.encode()).decode()
_NO_TEXT = b"\xff"
_VALUES = frozenset({"env", "headers", "httpHeaders"})


@dataclass(frozen=True)
class Taken:
    """What was taken out of a resource, with the words for it: texts, and variables by name and value."""

    texts: dict[str, str] = field(default_factory=dict)
    variables: dict[tuple[str, str], str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.texts or self.variables)


class Redactor:
    """`key` is random, and this process's own."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def word(self, value: str) -> str:
        return MARK + hmac.digest(self._key, value.encode(), hashlib.sha256).hex()[:16]

    def secret(self, data: Mapping[str, str], *, ours: bool) -> dict[str, str]:
        """The data of a Secret, in base64 as it came. In `ours`, who logs in where is no secret."""
        public = _PUBLIC if ours else frozenset()
        return {name: value if name in public else self._encoded(value) for name, value in data.items()}

    def taken(self, cr: Object) -> Taken:
        """What of a custom resource is, or may be, secret."""
        found = Taken()
        self._collect(cr.get("spec") or {}, found, name="")
        self._collect(cr["metadata"].get("annotations") or {}, found, name="")
        return found

    def named(self, found: Any) -> Taken:
        """What stands under a telling name, or as the value of a variable, in any object."""
        taken = Taken()
        self._collect(found, taken, name="")
        return taken

    def child(self, found: Any, *known: Taken) -> Any:
        """An object with words for each text under a telling name, and each value of a variable, that is not
        among the `known`: a child still has the secret that its resource had before.
        """
        return self._cleared(found, known, name="")

    def _cleared(self, found: Any, known: Sequence[Taken], *, name: str) -> Any:
        if isinstance(found, dict):
            cleared = {key: self._cleared(value, known, name=key) for key, value in found.items()}
            value = found.get("value")
            if name in _VALUES and isinstance(value, str):
                variable = (str(found.get("name")), value)
                if not any(variable in each.variables for each in known):
                    cleared["value"] = self.word(value)
            return cleared
        if isinstance(found, list):
            return [self._cleared(item, known, name=name) for item in found]
        if isinstance(found, str) and found and _is_telling(name):
            return found if any(found in each.texts for each in known) else self.word(found)
        return found

    def _encoded(self, value: str) -> str:
        if not value:
            return value
        try:
            text = base64.b64decode(value).decode()
        except ValueError:
            return base64.b64encode(self.word(value).encode() + _NO_TEXT).decode()
        if "BEGIN CERTIFICATE" in text and "PRIVATE KEY" not in text:
            return value
        ending = "\n" if any(char in text for char in "\0\r\n") else ""
        return base64.b64encode((self.word(text) + ending).encode()).decode()

    def _collect(self, found: Any, taken: Taken, *, name: str) -> None:
        if isinstance(found, dict):
            for key, value in found.items():
                self._collect(value, taken, name=key)
        elif isinstance(found, list):
            for item in found:
                if name in _VALUES and isinstance(item, dict) and isinstance(item.get("value"), str):
                    taken.variables[str(item.get("name")), item["value"]] = self.word(item["value"])
                else:
                    self._collect(item, taken, name=name)
        elif isinstance(found, str) and found and _is_telling(name):
            taken.texts[found] = self.word(found)


def without(found: Any, taken: Taken, *, name: str = "") -> Any:
    """The same with words in place of what was taken, wherever it is, and addresses without their login."""
    if isinstance(found, dict):
        pair = found.get("name"), found.get("value")
        if (word := taken.variables.get(pair)) is not None:  # type: ignore[arg-type]
            return {**found, "value": word}
        return {key: without(value, taken, name=key) for key, value in found.items()}
    if isinstance(found, list):
        return [without(item, taken, name=name) for item in found]
    if not isinstance(found, str):
        return found
    if _is_telling(name) and found in taken.texts:
        return taken.texts[found]
    # A search for each text of each object would take most of a decision's time.
    return _LOGIN.sub(MARK + "login", found) if "@" in found else found


def metadata(obj: Object) -> Object:
    """Without what tools keep of an object's past in annotations: that may be anything."""
    meta = obj.get("metadata") or {}
    notes = meta.get("annotations") or {}
    kept = {
        name: text
        for name, text in notes.items()
        if name.startswith("kindling.dev/") or not _PAST.search(name)
    }
    if len(kept) == len(notes):
        return obj
    return {**obj, "metadata": {**meta, "annotations": kept}}


def is_word(encoded: str) -> bool:
    """Whether a value of a Secret, in base64, is a word in the place of one."""
    return encoded.startswith(_MARK_ENCODED)


def is_redacted(text: str) -> bool:
    return text.startswith(MARK)


@lru_cache(maxsize=4096)
def _is_telling(name: str) -> bool:
    return bool(TELLING.search(name)) and not REFERENCES.search(name)

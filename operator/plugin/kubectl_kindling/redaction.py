"""What leaves the cluster in a report: objects without anything that may be secret. Pure.

By place and by name, since the secrets themselves are not read: Secrets and ConfigMaps lose their content,
containers the values of their variables, fields with a telling name their value, addresses their login, and
what a tool keeps of an object's past goes as a whole.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Mapping
from typing import Any

from kubectl_kindling.kubectl import Object

MARK = "REDACTED"
TELLING = re.compile(
    r"passw|passphrase|secret|token|credential|apikey|privatekey|accesskey|accountkey|authorization", re.I
)
REFERENCES = re.compile(r"(ref|refs|name|names|namespace|policy|type|mode|path|seconds|time|version)$", re.I)
"""Ends of names that say where something is, or how much of it: `passwordSecretRef`, `secretName`."""
DROPPED_METADATA = frozenset({"managedFields"})
DROPPED_ANNOTATIONS = re.compile(r"last-applied|/original|/previous|kapp\.k14s\.io/")
_LOGIN = re.compile(r"(?<=://)[^/\s@\"']+(?=@)")
_KEY_VALUE = re.compile(
    r"(?i)\b([a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|apikey|(?:access|account)[_-]?key)[\"']?\s*[=:]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"
)
_BEARER = re.compile(r"(?i)\b(bearer)\s+[a-z0-9+/=._~-]{8,}")
_LISTS_OF_VALUES = frozenset({"env", "headers", "httpHeaders"})


def redacted(found: Any) -> Any:
    """The same, fit for a stranger's eyes; nothing of the argument is changed."""
    if isinstance(found, Mapping):
        return _object(found)
    if isinstance(found, list):
        return [redacted(item) for item in found]
    return line(found) if isinstance(found, str) else found


def line(text: str) -> str:
    """Free text: the login of an address, and what is said to be a password, are taken out."""
    text = _LOGIN.sub(MARK, text)
    return _BEARER.sub(rf"\1 {MARK}", _KEY_VALUE.sub(rf"\1{MARK}", text))


def _object(found: Mapping[str, Any]) -> Object:
    kind = found.get("kind")
    if kind in ("Secret", "ConfigMap") and "metadata" in found:
        return {
            **{name: found[name] for name in ("apiVersion", "kind", "type", "immutable") if name in found},
            "metadata": redacted(found["metadata"]),
            "bytes": {
                field: _sizes(found[field], encoded=kind == "Secret" or field == "binaryData")
                for field in ("data", "binaryData")
                if found.get(field)
            },
        }
    return {
        str(name): _field(str(name), value) for name, value in found.items() if name not in DROPPED_METADATA
    }


def _field(name: str, value: Any) -> Any:
    if name in _LISTS_OF_VALUES and isinstance(value, list):
        return [_variable(item) for item in value]
    if name == "annotations" and isinstance(value, Mapping):
        return {
            str(key): redacted(text)
            for key, text in value.items()
            if not DROPPED_ANNOTATIONS.search(str(key))
        }
    if TELLING.search(name) and not REFERENCES.search(name):
        return _hidden(value)
    return redacted(value)


def _variable(item: Any) -> Any:
    """A variable of a container, or a header: its name, and where its value is from, never the value."""
    if not isinstance(item, Mapping):
        return MARK
    return {name: MARK if name == "value" else redacted(value) for name, value in item.items()}


def _hidden(value: Any) -> Any:
    """Of a field with a telling name: the texts go, the structure stays (`secret: {secretName: x}`)."""
    if isinstance(value, Mapping):
        return {str(name): _field(str(name), inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(item) if isinstance(item, Mapping | list) else MARK for item in value]
    return value if value is None or isinstance(value, bool | int) else MARK


def _sizes(data: Any, *, encoded: bool) -> dict[str, int]:
    """The bytes of each key; those that are `encoded` are so in base64."""
    if not isinstance(data, Mapping):
        return {}
    return {str(key): _size(str(value), encoded=encoded) for key, value in data.items()}


def _size(value: str, *, encoded: bool) -> int:
    if encoded:
        with contextlib.suppress(binascii.Error, ValueError):
            return len(base64.b64decode(value, validate=True))
    return len(value.encode())

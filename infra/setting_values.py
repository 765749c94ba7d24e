"""What a setting's text may look like: one pure function per sort of value, None for what is wrong.

Apart from `settings`, which knows the keys and what to say of a wrong one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

AUTO = "auto"
FIRST_PORT, LAST_PORT = 1024, 65535

# The API server's own rule for namespace names (RFC 1123 label).
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# A reference with a tag or a digest: a bare name would mean `latest`, which is another image every day.
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*?(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})")
# The first part is a host by the rule of container engines: it has a dot or a port, or is localhost.
_HOST = r"(localhost|(?=[^/]*[.:])[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:[0-9]{1,5})?"
_PATH = r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)"
_REGISTRY = re.compile(f"{_HOST}{_PATH}*")
_PROMOTED = re.compile(f"{_HOST}{_PATH}+@sha256:[0-9a-f]{{64}}")
# What kubectl would take for an option, or break a line, is no name of a context.
_CONTEXT = re.compile(r"[^-\s][^\s]{0,252}")


def whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def port(text: str) -> int | None:
    number = whole(text)
    return number if number == 0 or (number is not None and FIRST_PORT <= number <= LAST_PORT) else None


def image(text: str) -> str | None:
    if text == AUTO:
        return text
    return text if _IMAGE.fullmatch(text) and not text.endswith(":latest") else None


def namespaces(text: str) -> tuple[str, ...] | None:
    names = _json(text)
    if not isinstance(names, list) or len(names) != len(set(map(str, names))):
        return None
    if not all(isinstance(name, str) and _LABEL.fullmatch(name) for name in names):
        return None
    return tuple(names)


def names(text: str, known: Sequence[str]) -> tuple[str, ...] | None:
    """A list of known names, each once."""
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(name, str) and name in known for name in found):
        return None
    return tuple(found) if len(found) == len(set(found)) else None


def operator_pod(text: str) -> dict[str, Any] | None:
    """An object whose keys are known and whose values have a Pod's shapes; the API server judges the rest."""
    found = _json(text)
    if not isinstance(found, dict) or not all(
        key in OPERATOR_POD and OPERATOR_POD[key](value) for key, value in found.items()
    ):
        return None
    return found


def _words(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _resources(value: object) -> bool:
    return isinstance(value, dict) and all(
        name in ("operator", "prober")
        and isinstance(item, dict)
        and set(item) == {"requests", "limits"}
        and all(isinstance(amounts, dict) for amounts in item.values())
        for name, item in value.items()
    )


OPERATOR_POD: dict[str, Callable[[object], bool]] = {
    "labels": _words,
    "annotations": _words,
    "nodeSelector": _words,
    "tolerations": _objects,
    "priorityClassName": lambda value: isinstance(value, str),
    "imagePullSecrets": _objects,
    "resources": _resources,
}
"""What a stack may say of the operator's Pods, by key; `resources` by container, with requests and limits."""


def registry(text: str) -> str | None:
    """`HOST[:PORT]/PREFIX`; the prefix may be empty."""
    return text if _REGISTRY.fullmatch(text) and len(text) <= 200 else None


def context(text: str) -> str | None:
    return text if _CONTEXT.fullmatch(text) else None


def path(text: str) -> str | None:
    """A file's path on the machine that runs Pulumi; what it holds is nobody's setting."""
    return text if text == text.strip() and "\n" not in text and len(text) <= 1000 else None


def promoted(text: str) -> dict[str, str] | None:
    """References by digest, by the image's name."""
    found = _json(text)
    if not isinstance(found, dict):
        return None
    for name, reference in found.items():
        if not _LABEL.fullmatch(name) or not isinstance(reference, str) or not _PROMOTED.fullmatch(reference):
            return None
    return dict(sorted(found.items()))


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None

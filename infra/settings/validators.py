"""What a setting's text may look like: one pure function per sort of value, None for what is wrong.

Apart from `settings`, which knows the keys and what to say of a wrong one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from infra import image_references, property_paths

AUTO = "auto"
FIRST_PORT, LAST_PORT = 1024, 65535

# The API server's own rule for namespace names (RFC 1123 label).
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL = re.compile(LABEL)
# Its rule for the names of Secrets (RFC 1123 subdomain), of at most so many characters.
SUBDOMAIN, SUBDOMAIN_LENGTH = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", 253
_SUBDOMAIN = re.compile(rf"(?=.{{1,{SUBDOMAIN_LENGTH}}}$){SUBDOMAIN}")
# Of all variables only OpenTelemetry's: the operator's own are what settings are for.
VARIABLE = r"OTEL_[A-Z0-9_]+"
_RESOURCE = re.compile(r"[A-Z][A-Za-z0-9]*/[a-z0-9][a-z0-9.:-]*")
# What kubectl would take for an option, or break a line, is no name of a context.
_CONTEXT = re.compile(r"[^-\s][^\s]{0,252}")


def whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def port(text: str) -> int | None:
    number = whole(text)
    return number if number == 0 or (number is not None and FIRST_PORT <= number <= LAST_PORT) else None


def image(text: str) -> str | None:
    return text if text == AUTO else reference(text)


def reference(text: str) -> str | None:
    """An image with a tag that may stay what it is, or a digest."""
    return text if image_references.is_reference(text) else None


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


def _strings(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _resources(value: object) -> bool:
    return isinstance(value, dict) and all(
        name in CONTAINERS
        and isinstance(item, dict)
        and set(item) == {"requests", "limits"}
        and all(isinstance(amounts, dict) for amounts in item.values())
        for name, item in value.items()
    )


def _variables(value: object) -> bool:
    """OpenTelemetry's, each once, with a value or with where it is."""
    return (
        _objects(value)
        and isinstance(value, list)
        and all(
            item.keys() in ({"name", "value"}, {"name", "valueFrom"})
            and isinstance(item["name"], str)
            and re.fullmatch(VARIABLE, item["name"]) is not None
            and (isinstance(item.get("valueFrom"), dict) or _is_text(item.get("value")))
            for item in value
        )
        and len({item["name"] for item in value}) == len(value)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


CONTAINERS = ("operator", "prober")
"""Of the operator's Pods."""
OPERATOR_POD: dict[str, Callable[[object], bool]] = {
    "labels": _strings,
    "annotations": _strings,
    "nodeSelector": _strings,
    "affinity": lambda value: isinstance(value, dict),
    "tolerations": _objects,
    "priorityClassName": lambda value: isinstance(value, str),
    "imagePullSecrets": _objects,
    "resources": _resources,
    "env": _variables,
}
"""What a stack may say of the operator's Pods, by key; `resources` by container, with requests and limits;
`env` of the container `operator`."""


def registry(text: str) -> str | None:
    """`HOST[:PORT]/PREFIX`; the prefix may be empty."""
    return text if image_references.is_registry(text) else None


def context(text: str) -> str | None:
    return text if _CONTEXT.fullmatch(text) else None


def path(text: str) -> str | None:
    """A file's path on the machine that runs Pulumi; what it holds is nobody's setting."""
    return text if text == text.strip() and "\n" not in text and len(text) <= 1000 else None


def given(text: str, known: Sequence[str]) -> dict[str, str] | None:
    """References with a tag or a digest, by a known image's name."""
    found = _json(text)
    if not isinstance(found, dict):
        return None
    for name, value in found.items():
        if name not in known or not isinstance(value, str) or reference(value) is None:
            return None
    return dict(sorted(found.items()))


def exceptions(text: str) -> dict[str, tuple[str, ...]] | None:
    """Property paths by KIND/NAME."""
    found = _json(text)
    if not isinstance(found, dict):
        return None
    for name, paths in found.items():
        if not _RESOURCE.fullmatch(name) or not isinstance(paths, list) or not paths:
            return None
        if not all(isinstance(path, str) and property_paths.well_formed(path) for path in paths):
            return None
    return {name: tuple(paths) for name, paths in sorted(found.items())}


def secrets(text: str) -> tuple[str, ...] | None:
    """The names in a list as a Pod's `imagePullSecrets` has it."""
    found = _json(text)
    if not isinstance(found, list):
        return None
    names = [item.get("name") if isinstance(item, dict) and set(item) == {"name"} else None for item in found]
    good = [name for name in names if isinstance(name, str) and _SUBDOMAIN.fullmatch(name)]
    return tuple(good) if len(set(good)) == len(found) else None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None

"""The configuration of a stack as text by key, as Pulumi's own `Config` hands it to the program.

The one reader of stack files: `settings` checks what it returns, the command line asks it for single
values where a wrong one elsewhere in the file must not be in the way (`destroy`). Defaults are those of
Pulumi.yaml. What a file does not contain, a secret or what comes from Pulumi ESC, Pulumi is asked for once
(`infra.cli.prepare.complete_config`) and remembered here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from infra import paths, project, yaml_text
from infra.drivers import cluster_context
from infra.errors import KindlingError
from infra.settings.image_settings import PROMOTED

KIND, EXISTING = CLUSTERS = ("kind", "existing")

_PREFIX = f"{project.PROJECT}:"
_merged: dict[str, dict[str, str]] = {}


def is_complete(stack: str) -> bool:
    """Whether the stack's file has all of its values; else Pulumi must be asked, and `remember` called."""
    content = _file(project.stack_file(stack))
    return stack in _merged or not (content.get("environment") or _has_secret(own(stack)))


def remember(stack: str, values: Mapping[str, str]) -> None:
    """Take these as the stack's values from now on in this process; keys are Pulumi's, with the project."""
    _merged[stack] = {
        key.removeprefix(_PREFIX): value for key, value in values.items() if key.startswith(_PREFIX)
    }


def own(stack: str) -> dict[str, Any]:
    """What the stack's file sets for this project, without the prefix; nothing where there is no file."""
    config = _file(project.stack_file(stack)).get("config") or {}
    return {key.removeprefix(_PREFIX): value for key, value in config.items() if key.startswith(_PREFIX)}


def top(stack: str, key: str) -> str:
    """The text of one of Pulumi's own keys of the file, such as `secretsprovider`; empty where not set."""
    return text(_file(project.stack_file(stack)).get(key)) or ""


def get(stack: str, key: str) -> str | None:
    """The value of a setting or its default; `None` for what is neither set nor declared."""
    if stack in _merged:
        return _merged[stack].get(key, default(key))
    values = own(stack)
    return text(values[key]) if key in values else default(key)


def declared() -> dict[str, Any]:
    """The settings that there are, with their types and defaults, as Pulumi.yaml has them."""
    return _file(paths.REPOSITORY / "Pulumi.yaml").get("config") or {}


def default(key: str) -> str | None:
    """What a setting is where no stack says otherwise."""
    settings = declared()
    return text(settings[key]["default"]) if key in settings else None


def text(value: Any) -> str | None:
    """A value of a YAML file as Pulumi hands it to the program."""
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def is_existing(stack: str) -> bool:
    """Whether the stack's cluster is created and removed by others."""
    return get(stack, "cluster") == EXISTING


def builds_images(stack: str) -> bool:
    """Whether the stack's images are built here."""
    return get(stack, "imageSource") != PROMOTED


def context(stack: str) -> str:
    """The stack's context in the kubeconfig; empty for an existing cluster whose context is not set."""
    return (get(stack, "context") or "") if is_existing(stack) else f"kind-{project.cluster_name(stack)}"


def kubeconfig(stack: str) -> dict[str, str]:
    """What kubectl and Pulumi's provider need in their environment to find that context."""
    return cluster_context.env_vars(get(stack, "kubeconfig") or "")


def _has_secret(value: Any) -> bool:
    """Whether something in it is encrypted, as `pulumi config set --secret` writes it."""
    if isinstance(value, dict):
        return set(value) == {"secure"} or any(map(_has_secret, value.values()))
    return isinstance(value, list) and any(map(_has_secret, value))


def _file(path: Path) -> dict[str, Any]:
    """A file's content, empty where there is none.

    :raises KindlingError: where it is not YAML, or not of the form that Pulumi's files have.
    """
    try:
        return _parsed(path.name, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


@lru_cache(maxsize=8)
def _parsed(name: str, text: str) -> dict[str, Any]:
    """Kept, since each setting is asked for by itself, fifty times of two files; nobody may change it."""
    try:
        content = yaml_text.load(text) or {}
    except yaml.YAMLError as error:
        raise KindlingError(f"{name} is not YAML", why=str(error), remedy="fix the file.") from None
    if not isinstance(content, dict) or not isinstance(content.get("config") or {}, dict):
        raise KindlingError(f"{name} must hold a mapping under `config`", remedy="fix the file.")
    return content

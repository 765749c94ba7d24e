"""YAML's text to values, by libyaml where the package has it: the definitions alone take a second without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """The one document of the text; raises `yaml.YAMLError`."""
    return yaml.load(text, Loader=LOADER)


def load_all(text: str) -> Iterator[Any]:
    """Each document of the text, `None` for an empty one; raises `yaml.YAMLError`."""
    return iter(yaml.load_all(text, Loader=LOADER))

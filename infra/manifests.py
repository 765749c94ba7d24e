"""YAML files of this repository as Pulumi sees them: read once, checked, and annotated with what to wait for.

The files stay what users apply by hand; what only Pulumi wants is added here and not in them.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from infra import yaml_text
from infra.errors import KindlingError
from infra.paths import REPOSITORY

Manifest = dict[str, Any]

WAIT_FOR = "pulumi.com/waitFor"


def load(directory: str) -> list[Manifest]:
    """Every object of the directory's YAML files, in the files' order.

    Raises KindlingError where a file is not YAML, or something in it is no Kubernetes object.
    """
    return [manifest for path in sorted((REPOSITORY / directory).glob("*.yaml")) for manifest in _read(path)]


def definitions(kinds: Sequence[str] = ()) -> list[Manifest]:
    """The definitions under crds/ of these kinds, of every group that has one; of all where none is named."""
    return [crd for crd in load("crds") if not kinds or crd["spec"]["names"]["kind"] in kinds]


def kinds() -> tuple[str, ...]:
    """Every kind that has a definition, in alphabetical order."""
    return tuple(sorted({str(crd["spec"]["names"]["kind"]) for crd in load("crds")}))


def metadata(manifest: Manifest, *, wait_for: str | None, namespace: str | None = None) -> Manifest:
    """The object's metadata, with the condition Pulumi waits for before it goes on, if any."""
    result: Manifest = dict(manifest["metadata"])
    if namespace is not None:
        result.setdefault("namespace", namespace)
    if wait_for is not None:
        result["annotations"] = {**result.get("annotations", {}), WAIT_FOR: f"condition={wait_for}"}
    return result


def _read(path: Path) -> list[Manifest]:
    found = path.stat()
    # Packed: who gets it may change it.
    manifests: list[Manifest] = pickle.loads(_packed(path, found.st_mtime_ns, found.st_size))
    return manifests


@functools.cache
def _packed(path: Path, _changed: int, _size: int) -> bytes:
    """The objects of a file as it is now: its text, as large as that of the definitions, is read once."""
    return pickle.dumps(_parsed(path))


def _parsed(path: Path) -> list[Manifest]:
    try:
        manifests = [
            item for item in yaml_text.load_all(path.read_text(encoding="utf-8")) if item is not None
        ]
    except yaml.YAMLError as error:
        raise KindlingError(f"{_short(path)} is not YAML", why=str(error), remedy="fix the file.") from None
    for manifest in manifests:
        if not isinstance(manifest, dict) or not _named(manifest):
            raise KindlingError(
                f"{_short(path)} holds something that is no Kubernetes object",
                why="each needs apiVersion, kind and metadata.name",
                remedy="fix the file.",
            )
    return manifests


def _named(manifest: Manifest) -> bool:
    meta = manifest.get("metadata")
    return bool(
        manifest.get("apiVersion") and manifest.get("kind") and isinstance(meta, dict) and meta.get("name")
    )


def _short(path: Path) -> Path:
    return path.relative_to(REPOSITORY)

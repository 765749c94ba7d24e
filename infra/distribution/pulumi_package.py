"""The Pulumi package as an archive: the plugin with all that it imports and reads, as Pulumi installs it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.distribution import archives
from infra.errors import KindlingError

PACKAGE = "infra/package"
ENTRY = ("PulumiPlugin.yaml", "__main__.py")
"""What Pulumi looks for at the top of a plugin."""
READ = ("Pulumi.yaml", "LICENSE", "requirements.txt")
"""What the plugin is installed by, and the defaults and rules that it reads, beside `crds`."""
DEFINITIONS = "crds"
_VERSION = 'VERSION = "0.0.0"\n'


def archive_name(version: str) -> str:
    return f"kindling-pulumi-{version}.tgz"


def files(repository: Path, *, version: str, images: Mapping[str, str]) -> dict[str, bytes]:
    """The archive and its schema by their names in a release."""
    found = {name: (repository / name).read_bytes() for name in (*READ, *sources(repository))}
    found |= {name: (repository / PACKAGE / name).read_bytes() for name in ENTRY}
    for path in sorted((repository / DEFINITIONS).glob("*.yaml")):
        found[f"{DEFINITIONS}/{path.name}"] = path.read_bytes()
    found[f"{PACKAGE}/images.json"] = (json.dumps(dict(sorted(images.items())), indent=2) + "\n").encode()
    plugin = f"{PACKAGE}/plugin.py"
    text = found[plugin].decode()
    if text.count(_VERSION) != 1:
        raise KindlingError(
            f"{plugin} has no line `{_VERSION.strip()}`",
            why="a release writes its own version there",
            remedy="restore the line.",
        )
    found[plugin] = text.replace(_VERSION, f'VERSION = "{version}"\n').encode()
    schema = json.loads((repository / PACKAGE / "schema.json").read_text(encoding="utf-8"))
    return {
        archive_name(version): archives.tgz(found),
        "pulumi-schema.json": (json.dumps({**schema, "version": version}, indent=2) + "\n").encode(),
    }


def sources(repository: Path) -> list[str]:
    """The modules of the package and all of this repository that they import, as paths."""
    left = [
        path.relative_to(repository).as_posix()
        for path in (repository / PACKAGE).glob("*.py")
        if path.name not in ENTRY
    ]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        # The packages that it is in are imported too.
        above = [parent / "__init__.py" for parent in Path(name).parents if parent.name]
        left += [path.as_posix() for path in above if (repository / path).exists()]
        left += _imported(repository, (repository / name).read_text(encoding="utf-8"))
    return sorted(found)


def _imported(repository: Path, text: str) -> Iterator[str]:
    # What a function imports is for a machine that lacks tools.
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            path = name.replace(".", "/")
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if name.partition(".")[0] == "infra" and (repository / file).exists():
                    yield file

"""The kubectl plugin as its users get it: one file that Python runs, an archive with it, and krew's manifest.

The same sources make the same bytes: nothing is compressed, and no file has a time.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from infra.distribution import archives, yaml_writer
from infra.errors import KindlingError

FOLDER = "operator/plugin"
PACKAGE = "kubectl_kindling"
NAME = "kubectl-kindling"
"""What kubectl looks for on PATH when it is asked for `kubectl kindling`."""
RELEASE = f"{PACKAGE}/release.py"
SHEBANG = b"#!/usr/bin/env python3\n"
ENTRY = f"""\
import sys
from {PACKAGE}.__main__ import main
sys.exit(main())
"""
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip file can say."""
REGULAR = 0o100644 << 16


def files(repository: Path, *, version: str, commit: str, url: str = "") -> dict[str, bytes]:
    """The program, its archive and krew's manifest, by their paths in a release.

    `url` is the address below which the release's files will be; without one, the manifest names the archive
    alone, and is for `kubectl krew install --archive`.
    """
    program = zipapp(repository / FOLDER, version=version, commit=commit)
    licence = (repository / "LICENSE").read_bytes()
    name = archive_name(version)
    archive = archives.tgz({NAME: program, "LICENSE": licence}, executable=(NAME,))
    return {
        NAME: program,
        name: archive,
        "krew.yaml": manifest(
            version=version,
            uri=f"{url.rstrip('/')}/{name}" if url else name,
            sha256=hashlib.sha256(archive).hexdigest(),
        ).encode(),
    }


def archive_name(version: str) -> str:
    return f"{NAME}-{version}.tar.gz"


def zipapp(folder: Path, *, version: str, commit: str) -> bytes:
    """The package below this folder as a zip file that begins as a script, of this version."""
    sources = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / PACKAGE).rglob("*.py"))
    }
    if RELEASE not in sources:
        raise KindlingError(
            f"{FOLDER}/{RELEASE} is missing",
            why="the plugin says its version by it",
            remedy="restore the file from Git.",
        )
    sources[RELEASE] = _release(sources[RELEASE].decode(), {"VERSION": version, "COMMIT": commit}).encode()
    stream = io.BytesIO()
    stream.write(SHEBANG)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for path, content in sorted({"__main__.py": ENTRY.encode(), **sources}.items()):
            member = zipfile.ZipInfo(path, EARLIEST)
            member.create_system, member.external_attr = 3, REGULAR  # As Unix has it, on whatever system.
            archive.writestr(member, content)
    return stream.getvalue()


def _release(text: str, values: Mapping[str, str]) -> str:
    """The module of that name with other values."""
    lines = []
    for line in text.splitlines():
        name = line.partition(" = ")[0]
        lines.append(f'{name} = "{values[name]}"' if name in values else line)
    return "\n".join(lines) + "\n"


def manifest(*, version: str, uri: str, sha256: str) -> str:
    """The plugin for krew, kubectl's manager of plugins."""
    return yaml_writer.document(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": NAME.removeprefix("kubectl-")},
            "spec": {
                "version": f"v{version}",
                "shortDescription": "Look at and operate resources of Kindling",
                "description": (
                    "Shows how Postgresql, Memcached, PulsarConsumer, MyCustomResource, Backup, Restore and "
                    "BindingImport are, prints their logs, opens psql, restarts, hibernates and wakes a "
                    "server, starts a backup, and writes a report without secrets."
                ),
                "caveats": "It needs Python 3.11 or later as `python3` on PATH.",
                "platforms": [
                    {
                        "selector": {
                            "matchExpressions": [
                                {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
                            ]
                        },
                        "uri": uri,
                        "sha256": sha256,
                        "bin": NAME,
                        "files": [{"from": NAME, "to": "."}, {"from": "LICENSE", "to": "."}],
                    }
                ],
            },
        }
    )

"""The package `kindling_client` as a wheel: the types of all kinds, and a client that needs no other package.

The same sources make the same bytes: nothing is compressed, and no file has a time.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.distribution import plugin, python_models, versions
from infra.manifests import Manifest

FOLDER = "operator/client"
PACKAGE = "kindling_client"
_TAG = "py3-none-any"
_BY_WORD = {"alpha": "a", "a": "a", "beta": "b", "b": "b", "rc": "rc"}
_ABOUT = f"""\
# {PACKAGE}

Types of the resources of Kindling, and a client of them that needs no other package when it is imported.

    from kindling_client.client import Client
    from kindling_client import memcached

    caches = Client(api, memcached.RESOURCE, "default")

`api` is a `kubernetes.client.CustomObjectsApi`, or any object with its methods.
"""


def files(repository: Path, definitions: Sequence[Manifest], *, version: str) -> dict[str, bytes]:
    """The wheel by its name in a release."""
    sources = {
        path.relative_to(repository / FOLDER).as_posix(): path.read_bytes()
        for path in sorted((repository / FOLDER / PACKAGE).glob("*.py"))
    }
    generated = python_models.modules(definitions)
    sources |= {f"{PACKAGE}/{name}.py": text.encode() for name, text in generated.items()}
    sources[f"{PACKAGE}/__init__.py"] = _init(version, sorted(generated)).encode()
    sources[f"{PACKAGE}/py.typed"] = b""
    licence = (repository / "LICENSE").read_bytes()
    return {file_name(version): pack(sources, version=version, licence=licence)}


def file_name(version: str) -> str:
    return f"{PACKAGE}-{python_version(version)}-{_TAG}.whl"


def python_version(version: str) -> str:
    """The release's version as Python's packages have it: `1.2.3-rc.1` is 1.2.3rc1.

    A pre-release that has no such form, `1.2.3-next.4`, becomes a development version that names it.
    """
    versions.check(version)
    rest, _, build = version.partition("+")
    core, _, before = rest.partition("-")
    local = [build] if build else []
    if known := re.fullmatch(r"(alpha|a|beta|b|rc)(?:\.?([0-9]+))?", before.lower()):
        core += f"{_BY_WORD[known[1]]}{int(known[2] or 0)}"
    elif before:
        core, local = f"{core}.dev0", [before, *local]
    words = [
        str(int(word)) if word.isdigit() else word for word in re.split(r"[.-]+", ".".join(local)) if word
    ]
    return f"{core}+{'.'.join(words).lower()}" if words else core


def pack(sources: Mapping[str, bytes], *, version: str, licence: bytes) -> bytes:
    """A wheel of these files, with what the format demands: METADATA, WHEEL, RECORD."""
    found = python_version(version)
    info = f"{PACKAGE}-{found}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: kindling-client\nVersion: {found}\n"
        "Summary: Types and a client of the resources of Kindling\n"
        "License: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.11\n"
        f"Classifier: Typing :: Typed\nDescription-Content-Type: text/markdown\n\n{_ABOUT}"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: kindling\nRoot-Is-Purelib: true\nTag: {_TAG}\n"
    # Last in the archive, as the format recommends.
    files = [
        *sorted(sources.items()),
        (f"{info}/LICENSE", licence),
        (f"{info}/METADATA", metadata.encode()),
        (f"{info}/WHEEL", wheel.encode()),
    ]
    record = "".join(f"{path},{_digest(content)},{len(content)}\n" for path, content in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for path, content in files:
            member = zipfile.ZipInfo(path, plugin.EARLIEST)
            member.create_system, member.external_attr = 3, plugin.REGULAR
            archive.writestr(member, content)
    return stream.getvalue()


def _digest(content: bytes) -> str:
    found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={found.decode()}"


def _init(version: str, modules: Sequence[str]) -> str:
    listed = "\n".join(f"- `{name}`" for name in modules)
    return (
        '"""Types of the resources of Kindling, a module for each kind, and `client.Client`.\n\n'
        f'{listed}\n"""\n\n__version__ = "{python_version(version)}"\n'
    )

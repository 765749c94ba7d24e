"""The bill of materials, as CycloneDX: every package that is locked for the images of a release.

Read from the locks that the images are built by, so it needs no image: Debian's packages from
`packages.pref`, Python's from `requirements.txt` beside the Containerfile.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from infra.drivers import debian_lock
from infra.project import PROJECT

SPEC_VERSION = "1.6"
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

# The locks are for every system, the images are Linux.
_ELSEWHERE = "sys_platform == 'win32'"

Component = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """One image of the release with the text of its locks; `python` is empty where it has none."""

    name: str
    reference: str
    debian: str
    python: str = ""


def text(version: str, *, commit: str, time: str, images: Sequence[Image]) -> str:
    """The document; `time` is the commit's, in ISO 8601, so that the same commit has the same bytes."""
    components: dict[str, Component] = {}
    dependencies = {}
    for image in images:
        packages = [*debian(image.debian), *python(image.python)]
        components[image.reference] = _image(image)
        components |= {found["bom-ref"]: found for found in packages}
        dependencies[image.reference] = sorted(found["bom-ref"] for found in packages)
    root = f"{PROJECT}@{version}"
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": PROJECT,
                "version": version,
                "properties": [{"name": "kindling:commit", "value": commit}],
            },
        },
        "components": sorted(components.values(), key=lambda found: (found["type"], found["bom-ref"])),
        "dependencies": [
            {"ref": root, "dependsOn": sorted(dependencies)},
            *({"ref": ref, "dependsOn": found} for ref, found in sorted(dependencies.items())),
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))
    return json.dumps({"serialNumber": f"urn:uuid:{serial}", **document}, indent=2) + "\n"


def debian(lock: str) -> list[Component]:
    """The packages of a `packages.pref`; one for each version where the architectures have several."""
    return [
        _package(f"pkg:deb/debian/{quote(name)}@{quote(version)}?distro={_suite(name)}", name, version)
        for name, versions in debian_lock.read(lock).items()
        for version in versions
    ]


def _suite(package: str) -> str:
    return debian_lock.NEXT_SUITE if package in debian_lock.OF_NEXT else debian_lock.SUITE


def python(lock: str) -> list[Component]:
    """The packages of a `requirements.txt` with hashes."""
    return [
        _package(
            f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}",
            name,
            version,
            hashes=[{"alg": "SHA-256", "content": found} for found in sorted(set(_HASH.findall(rest)))],
        )
        for name, version, rest in _REQUIREMENT.findall(lock)
        if _ELSEWHERE not in rest
    ]


def _package(purl: str, name: str, version: str, **more: Any) -> Component:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def _image(image: Image) -> Component:
    repository, _, digest = image.reference.partition("@")
    return {
        "type": "container",
        "bom-ref": image.reference,
        "name": repository,
        "version": digest,
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
        "properties": [{"name": "kindling:image", "value": image.name}],
    }

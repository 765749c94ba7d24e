"""All files of a release, as bytes by path.

Objects are rendered once; manifests, kustomize bases and the chart are of them, and the sums of all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra import manifests
from infra.distribution import (
    archives,
    chart,
    chart_templates,
    integrations,
    notes,
    plugin,
    pulumi_package,
    rendering,
    sbom,
    wheel,
    yaml_writer,
)
from infra.distribution.rendering import Request
from infra.distribution.sbom import Image
from infra.drivers import debian_lock
from infra.drivers import images as image_folders
from infra.manifests import Manifest
from infra.project import PROJECT
from infra.settings import NAMESPACES

SERVED = "default"
"""The namespace that `install-namespaced.yaml` serves; the chart serves any."""
SUMS = "SHA256SUMS"
OPERATOR_IMAGE = "operator"
_DEFINITION = "CustomResourceDefinition"


@dataclass(frozen=True)
class Source:
    """What a release is made of: the commit and its time in ISO 8601, the hash of what is deployed, the
    files that are in no commit, and the images by name and digest; `url` is where its files will be.
    """

    version: str
    commit: str
    time: str
    contents: str
    images: Mapping[str, str]
    uncommitted: Sequence[str] = ()
    url: str = ""


def image_names() -> tuple[str, ...]:
    """The images of a release, as a stack's settings call them: the broker is for samples and tests."""
    return OPERATOR_IMAGE, *image_folders.operands()


def image_folder(name: str) -> str:
    """Where the locks of an image of `image_names` are, from the repository on."""
    return name if name == OPERATOR_IMAGE else f"{image_folders.OPERANDS}/{name}"


def of(source: Source, repository: Path) -> dict[str, bytes]:
    """Every file of the release by its path in it.

    :raises KindlingError: where a document says nothing of the version, or the program refuses its settings
    """
    # What can be wrong with the checkout is said before the program runs.
    texts = {"RELEASE_NOTES.md": _notes(source, repository), "sbom.cdx.json": _sbom(source, repository)}
    program = plugin.files(repository, version=source.version, commit=source.commit, url=source.url)
    kinds = manifests.kinds()
    variants = chart_templates.requests(kinds, image_names())
    plain = [
        Request(rendering.default_operator(), source.images),
        Request(rendering.default_operator(scope=NAMESPACES, watch_namespaces=(SERVED,)), source.images),
    ]
    wide, narrow, *rest = rendering.render([*plain, *variants.values()])
    definitions = [found for found in wide if found["kind"] == _DEFINITION]
    texts |= {
        "crds.yaml": yaml_writer.documents(definitions),
        "install.yaml": yaml_writer.documents(wide),
        "install-namespaced.yaml": yaml_writer.documents(narrow),
        "release.json": _about(source),
        **_bases({"base": wide, "namespaced": narrow}, definitions),
    }
    packed = chart.files(
        version=source.version,
        images=source.images,
        kinds=kinds,
        operator=next(found for found in wide if found["kind"] == "Deployment"),
        rendered=dict(zip(variants, rest, strict=True)),
        monitoring=integrations.chart_files(repository),
    )
    found = {path: text.encode() for path, text in texts.items()}
    found |= {**program, **integrations.release_files(repository)}
    found |= wheel.files(repository, definitions, version=source.version)
    found |= pulumi_package.files(repository, version=source.version, images=source.images)
    found[f"{PROJECT}-{source.version}.tgz"] = archives.tgz(packed, folder=PROJECT)
    return {**found, SUMS: sums(found).encode()}


def sums(files: Mapping[str, bytes]) -> str:
    """As `sha256sum --check` reads it."""
    return "".join(f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n" for path in sorted(files))


def _bases(flavours: Mapping[str, Sequence[Manifest]], definitions: Sequence[Manifest]) -> dict[str, str]:
    """Folders for kustomize: the definitions, and of each flavour the rest on top of them."""
    files = {
        "kustomize/crds/kustomization.yaml": _kustomization("crds.yaml"),
        "kustomize/crds/crds.yaml": yaml_writer.documents(definitions),
    }
    for name, objects in flavours.items():
        rest = [found for found in objects if found["kind"] != _DEFINITION]
        files[f"kustomize/{name}/kustomization.yaml"] = _kustomization("../crds", "operator.yaml")
        files[f"kustomize/{name}/operator.yaml"] = yaml_writer.documents(rest)
    return files


def _kustomization(*resources: str) -> str:
    return yaml_writer.document(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": list(resources),
        }
    )


def _about(source: Source) -> str:
    found = {
        "version": source.version,
        "commit": source.commit,
        "contents": source.contents,
        "images": dict(sorted(source.images.items())),
        **({"uncommitted": list(source.uncommitted)} if source.uncommitted else {}),
    }
    return json.dumps(found, indent=2) + "\n"


def _notes(source: Source, repository: Path) -> str:
    return notes.text(
        source.version,
        commit=source.commit,
        changelog=(repository / notes.CHANGELOG).read_text(encoding="utf-8"),
        upgrading=(repository / notes.UPGRADING).read_text(encoding="utf-8"),
        images=source.images,
    )


def _sbom(source: Source, repository: Path) -> str:
    found = []
    for name, reference in sorted(source.images.items()):
        folder = repository / image_folder(name)
        python = folder / "requirements.txt"
        found.append(
            Image(
                name,
                reference,
                debian=(folder / debian_lock.FILE).read_text(encoding="utf-8"),
                python=python.read_text(encoding="utf-8") if python.exists() else "",
            )
        )
    return sbom.text(source.version, commit=source.commit, time=source.time, images=found)

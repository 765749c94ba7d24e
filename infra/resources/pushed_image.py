"""An image of ours in a registry, as a Pulumi resource. The module's path is state format: see the package.

An adapter over `infra.drivers.registry`, which asks, and the container engine, which pushes. What is in
the registry already, under the tag of its content, is neither built nor pushed again.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from infra.drivers import images
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.resources import host

INPUTS = ("name", "digest", "repository", "insecure", "context", "containerfile", "buildArgs", "platforms")
# Other values of these are another image.
CONTENT = ("digest", "repository")

Props = dict[str, Any]


class PushedImageProvider(ResourceProvider):
    """Other content or another place is another image; the old one stays where it is."""

    serialize_as_secret_always = False

    def check(self, _olds: Props, news: Props) -> CheckResult:
        failures = host.outside_failures(news)
        if "/" not in news["repository"]:
            failures.append(CheckFailure("repository", f"`{news['repository']}` is not HOST[:PORT]/PATH"))
        return CheckResult(news, failures)

    def diff(self, _id: str, olds: Props, news: Props) -> DiffResult:
        changes = any(olds.get(key) != news.get(key) for key in INPUTS)
        replaces = [key for key in CONTENT if olds.get(key) != news.get(key)]
        # Looks at the registry too, which may clear up what it thinks nobody needs. A preview may run
        # where the registry cannot be reached: then nothing is said.
        if not replaces and _is_gone(olds):
            replaces = ["ref"]
        return DiffResult(changes=changes or bool(replaces), replaces=replaces, delete_before_replace=False)

    def create(self, props: Props) -> CreateResult:
        registry = host.registry(props["repository"], insecure=props["insecure"])
        digest = registry.digest(props["repository"], props["digest"])
        if digest is None:
            digest = images.push(
                host.engine(),
                name=props["name"],
                tag=props["digest"],
                context=REPOSITORY / props["context"],
                containerfile=REPOSITORY / props["containerfile"],
                build_args=props["buildArgs"],
                tags=props["platforms"],
                repository=props["repository"],
                insecure=props["insecure"],
            )
        ref = f"{props['repository']}@{digest}"
        return CreateResult(ref, {**_inputs(props), "ref": ref})

    def read(self, id_: str, props: Props) -> ReadResult:
        registry = host.registry(props["repository"], insecure=props["insecure"])
        if registry.digest(props["repository"], _digest(props)) is None:
            return ReadResult("", {})
        return ReadResult(id_, props)

    def update(self, _id: str, olds: Props, news: Props) -> UpdateResult:
        # The way it is built or asked for; the image stays, and must stay in the state.
        return UpdateResult({**_inputs(news), "ref": olds["ref"]})

    def delete(self, _id: str, _props: Props) -> None:
        """Stays in the registry: another stack may run it by its digest."""


class PushedImage(Resource, module="containers", name="PushedImage"):
    """An image built from a directory of this repository and pushed to a registry.

    `digest` is the content's hash and becomes the tag, `repository` is HOST[:PORT]/PATH. `platforms` has
    the hash for each platform alone, by platform: an image for several is a list of these. `ref`,
    `REPOSITORY@sha256:...`, is known once the registry has the image.
    """

    ref: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        image: str,
        context: str,
        containerfile: str,
        digest: str,
        repository: str,
        insecure: bool,
        platforms: dict[str, str],
        build_args: dict[str, str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: Props = {
            "name": image,
            "digest": digest,
            "repository": repository,
            "insecure": insecure,
            "context": context,
            "containerfile": containerfile,
            "buildArgs": build_args or {},
            "platforms": platforms,
            # Named so that it is known to be unknown before it is pushed.
            "ref": None,
        }
        super().__init__(PushedImageProvider(), name, props, opts)


def _inputs(props: Props) -> Props:
    return {key: props[key] for key in INPUTS}


def _digest(props: Props) -> str:
    return str(props["ref"]).rpartition("@")[2]


def _is_gone(olds: Props) -> bool:
    try:
        registry = host.registry(olds["repository"], insecure=olds["insecure"])
        return registry.digest(olds["repository"], _digest(olds)) is None
    except KindlingError:
        return False

"""Which image kind boots its nodes from: kind's own from a registry, else one that is assembled here."""

from __future__ import annotations

from infra.drivers.engine import ContainerEngine
from infra.errors import KindlingError
from infra.progress import Progress

# What kind's release notes name for this version of kind, and the Kubernetes that is assembled here too:
# an image of the same tag is rebuilt for other versions of kind, so the digest identifies it.
PUBLISHED_FOR = "0.33.0"
PUBLISHED = (
    "docker.io/kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"
)
ASSEMBLED = "localhost/kindling-node"


def present(engine: ContainerEngine | None) -> bool:
    """Whether the engine has a node image, so that none need be pulled or assembled."""
    return engine is not None and (_assembled(engine) != "" or engine.has_image(PUBLISHED))


def ensure_node_image(engine: ContainerEngine, progress: Progress | None = None, *, workers: int = 0) -> str:
    """The image kind is to boot; assembled ones are kept to once made.

    Raises `KindlingError` for workers where no registry has the published image: the assembled one is
    tested with one node alone.
    """
    if not workers and (ref := _assembled(engine)):
        return ref
    if engine.has_image(PUBLISHED) or engine.pull(PUBLISHED):
        return PUBLISHED
    if workers:
        raise KindlingError(
            f"kindling:workers is {workers}, and this machine can only have a cluster of one node",
            why=f"no registry answers with {PUBLISHED}, and the node image that is assembled in its place"
            " is for one node",
            remedy="set kindling:workers to 0, or kindling:nodeImage to one of kind's that can be pulled.",
        )
    # Imported where it is needed: see `infra.bootstrap`.
    from infra import bootstrap

    return bootstrap.node_image.assemble(engine, progress)


def _assembled(engine: ContainerEngine) -> str:
    """The name of the assembled image of this checkout's recipe, if the engine has it; else empty."""
    if not engine.has_any_of(ASSEMBLED):
        return ""
    from infra import bootstrap

    ref = bootstrap.node_image.own_ref()
    return ref if engine.has_image(ref) else ""

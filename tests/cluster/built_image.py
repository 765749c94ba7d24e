"""An image of the repository in the container engine, for tests that need no cluster."""

from __future__ import annotations

import time

from infra.components.images import ImageSource
from infra.drivers import images
from infra.drivers.engine import ContainerEngine
from infra.paths import REPOSITORY
from infra.processes import ProgramError

REMOVAL_SECONDS = 2.0


def built(engine: ContainerEngine, source: ImageSource, tag: str) -> str:
    """The image, built as `up` builds it, under a tag of the test's own.

    The tag that `up` gives it goes whenever any stack is destroyed.
    """
    digest = source.digest()
    ref = f"localhost/{source.image}:{digest}"
    archive = images.build_archive(
        engine,
        name=source.image,
        tag=digest,
        context=REPOSITORY / source.context,
        containerfile=REPOSITORY / source.containerfile,
        build_args={},
    )
    own = f"localhost/{source.image}:{tag}"
    for last in (False, False, True):
        if not engine.has_image(ref):
            engine.load(archive)
        try:
            engine.run("tag", ref, own)
        except ProgramError:
            if last:
                raise
            continue
        time.sleep(REMOVAL_SECONDS)  # A removal that had begun takes the new tag along.
        if engine.has_image(own):
            return own
    raise AssertionError(f"{own} was removed each time, with {ref}")

"""What the process waits for before it begins: the API server, and the CRDs of its kinds.

A CRD that somebody removes takes its own kind along, and no other: the rest is served without it until it is
back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from kindling.health import Health
from kindling.kube.client import Client
from kindling.kube.errors import ApiError
from kindling.kube.resources import ResourceType
from kindling.kube.versions import OLDEST, too_old
from kindling.supervision import StartupError

log = logging.getLogger("kindling")

STARTUP_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 3.0
CRD_SECONDS = 30.0
"""How long kinds whose CRDs are installed wait for the others."""


class CrdsMissing(Exception):
    """Of these types there is no CRD, and of others there is."""

    def __init__(self, types: Sequence[ResourceType]) -> None:
        super().__init__(f"CRDs that are not installed: {names_of(types)}")
        self.types = types


def names_of(types: Sequence[ResourceType]) -> str:
    """The names of their CRDs, for a sentence."""
    return ", ".join(f"{type.plural}.{type.group}" for type in types)


async def not_installed(client: Client, types: Sequence[ResourceType]) -> list[ResourceType]:
    """Those that the API server does not serve."""
    return [type for type in types if not await client.served(type)]


async def wait_for_crds(client: Client, resources: Sequence[ResourceType], health: Health) -> None:
    """Wait for the API server, for a minute, and for our CRDs, however long while there is none of them.

    CRDs may well come after the operator (their order in a chart is nobody's promise), and a crash
    loop would hide the reason and back off to five minutes. So it waits, unready, and says for what.

    :raises CrdsMissing: when some are there, and others are not after half a minute.
    :raises StartupError: when there is no answer, or the server is too old.
    """
    began = asyncio.get_running_loop().time()
    last_message = None
    while True:
        waited = asyncio.get_running_loop().time() - began
        try:
            version = await client.server_version()
            if too_old(version):
                raise StartupError(
                    f"the API server is Kubernetes {version}, and {OLDEST[0]}.{OLDEST[1]} is the oldest that "
                    "works: upgrade the cluster"
                )
            missing = await not_installed(client, resources)
        except ApiError as error:
            if waited > STARTUP_TIMEOUT_SECONDS:
                raise StartupError(f"the API server does not answer: {error}") from error
            health.startup = f"waiting for the API server: {error}"
        else:
            if not missing:
                health.startup = None
                return
            if waited > CRD_SECONDS and len(missing) < len(resources):
                raise CrdsMissing(missing)
            health.startup = f"waiting for CRDs that are not installed: {names_of(missing)}"
        if health.startup != last_message:
            last_message = health.startup
            log.warning(last_message)
        await asyncio.sleep(POLL_SECONDS)


async def removed_since(client: Client, types: Sequence[ResourceType]) -> list[ResourceType]:
    """Those of them that are gone; none where the API server does not answer, as the watches will find."""
    try:
        return await not_installed(client, types)
    except ApiError:
        return []


async def end_once_installed(client: Client, types: Sequence[ResourceType], stop: asyncio.Event) -> None:
    """Once one of these has a CRD, end the process: the next one serves it. Until then, wait."""
    log.warning(f"serving all but these, whose CRDs are not installed: {names_of(types)}")
    while True:
        await asyncio.sleep(POLL_SECONDS)
        with contextlib.suppress(ApiError):
            left = await not_installed(client, types)
            if found := [type for type in types if type not in left]:
                log.info(f"CRDs were installed, so the process starts once more: {names_of(found)}")
                stop.set()
                await asyncio.Event().wait()  # kopf ends first, and ends this

"""Volumes for the claims of a measurement: made before it, as nobody here provisions any.

Without them no Pod that has a claim is placed, and what is measured is a server that can never come up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from kindling.kinds.postgresql.spec import DEFAULT_SIZE

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane

CLASS = "bench"
CONTROLLERS = ("persistentvolume-binder-controller", "persistentvolume-protection-controller")
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
SPARE = 2
"""For the resource before all others, and for the one that is made during the restart."""


def storage_class() -> dict[str, Any]:
    """The cluster's default one; a claim is bound as soon as it is there."""
    return {
        "metadata": {
            "name": CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }


def volume(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": DEFAULT_SIZE},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "hostPath": {"path": f"/{name}"},
        },
    }


@asynccontextmanager
async def volumes(plane: ControlPlane, *, prefix: str, count: int) -> AsyncIterator[None]:
    """So many, and the spare ones; they go on leaving, released or not."""
    names = [f"{prefix}-{number}" for number in range(count + SPARE if count else 0)]

    def make() -> None:
        with closing(Api(plane)) as api:
            for name in names:
                api.create(VOLUMES, volume(name)).accepted()

    def remove() -> None:
        with closing(Api(plane)) as api:
            for name in names:
                api.delete(f"{VOLUMES}/{name}")

    await asyncio.to_thread(make)
    yield  # Where this raises, the measurement ends, and the server with it.
    await asyncio.to_thread(remove)

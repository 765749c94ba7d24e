"""How fast this machine is at this moment: taken before each measurement, so that those can be compared."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from kindling.kube.resources import CONFIG_MAP, Ref

from bench import process
from bench.load import at_once, client
from bench.microbench import chasing, hashing
from bench.testbed import NAMESPACE, Testbed

MEBIBYTES = 512
PATCHES = 400
IN_FLIGHT = 32


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """`cpu_seconds` for 512 MiB of SHA-256 on one core; `memory_seconds` for 2^20 reads all over 64 MiB, each
    of which says where the next one is; `patches` a second that the API server takes; `stolen`, the part of
    one core's time that others had meanwhile.

    Hashing stays within the processor: neighbours who use up caches and memory can make an operator take
    twice its seconds, and hashing no longer.
    """

    cpu_seconds: float
    memory_seconds: float
    patches: float
    stolen: float


async def calibrate(stage: Testbed) -> Calibration:
    stolen, started = process.stolen_seconds(), time.monotonic()
    seconds = await asyncio.to_thread(hashing, MEBIBYTES)
    memory = await asyncio.to_thread(chasing)
    names = [f"calibration-{number}" for number in range(IN_FLIGHT)]
    async with client(stage.client.plane, in_flight=IN_FLIGHT) as api:

        async def apply(name: str) -> None:
            await api.apply(CONFIG_MAP, {"metadata": {"namespace": NAMESPACE, "name": name}})

        async def patch(number: int) -> None:
            ref = Ref(CONFIG_MAP, NAMESPACE, names[number % IN_FLIGHT])
            await api.merge(ref, {"data": {"number": f"{began}-{number}"}})

        began = time.monotonic()
        await at_once(names, apply, in_flight=IN_FLIGHT)
        began = time.monotonic()
        await at_once(range(PATCHES), patch, in_flight=IN_FLIGHT)
        patches = PATCHES / (time.monotonic() - began)
    passed = time.monotonic() - started
    return Calibration(
        cpu_seconds=seconds,
        memory_seconds=memory,
        patches=patches,
        stolen=(process.stolen_seconds() - stolen) / passed,
    )

"""What three mechanisms of the engine save, beside what would replace them: `python3 -m bench.engine_costs`.

Create before apply (decision 0014), the comparison in the process (`engine.compare`) beside a dry run, and
compressed objects in the cache (decisions 0015, 0016). On a real API server without controllers, with the
children of Memcached; a table on standard output and in `engine_costs.json`. Decision 0042 has the figures.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TypeAlias

import orjson
from kindling.engine.compare import satisfies
from kindling.engine.compression import Compressor, decompress
from kindling.kinds.base import Child, Observed
from kindling.kube.client import Client
from kindling.kube.resources import FIELD_MANAGER, Object

from bench.kinds import KINDS_BY_NAME, MEMCACHED
from bench.load import access, at_once, client
from bench.machine import machine
from bench.process import cpu_seconds
from tests.apiserver.support.apiclient import APPLY_PATCH, Api
from tests.apiserver.support.controlplane import ControlPlane, control_plane

RESOURCES = 500
ROUNDS = 3
IN_FLIGHT = 16
RESULTS = Path(__file__).with_suffix(".json")
KIB = 1024.0
Write: TypeAlias = Callable[[Client, Child], Awaitable[Object]]


def main() -> int:
    """Measure, print a table, write the same as JSON beside this file."""
    with (
        tempfile.TemporaryDirectory(prefix="kindling-bench-") as folder,
        control_plane(directory=Path(folder) / "plane") as plane,
    ):
        figures = asyncio.run(_against(plane))
    figures = {name: round(value, 3) for name, value in figures.items()}
    print("\n".join(f"{name:<72}{value:>10}" for name, value in figures.items()))
    RESULTS.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=2) + "\n")
    return 0


async def _against(plane: ControlPlane) -> dict[str, float]:
    """Medians of the rounds; who is first alternates."""
    taken: dict[str, list[float]] = {}
    live: list[Object] = []
    children: list[Child] = []
    async with client(plane, in_flight=IN_FLIGHT) as api, access(plane).session(limit=IN_FLIGHT) as session:
        for round in range(ROUNDS):
            ways: list[tuple[str, Write]] = [
                ("create", lambda api, child: api.create(child.type, child.body)),
                ("apply", lambda api, child: api.apply(child.type, child.body)),
            ]
            for name, write in ways[:: 1 if round % 2 else -1]:
                children = _children(f"{name}-{round}")
                live = []
                with closing(Api(plane)) as admin:
                    admin.create("/api/v1/namespaces", {"metadata": {"name": f"{name}-{round}"}}).accepted()

                wall, cpu = await _cost(plane, children, functools.partial(_write, api, write, live))
                taken.setdefault(f"new children by {name}: API server ms of processor each", []).append(cpu)
                taken.setdefault(f"new children by {name}: ms of wall clock each", []).append(wall)

            async def dry_run(child: Child) -> None:
                path = child.type.path(namespace=child.ref.namespace, name=child.ref.name)
                body = {"apiVersion": child.type.api_version, "kind": child.type.kind, **child.body}
                async with session.patch(
                    plane.url + path,
                    data=orjson.dumps(body),
                    params={"fieldManager": FIELD_MANAGER, "force": "true", "dryRun": "All"},
                    headers={"Content-Type": APPLY_PATCH},
                    raise_for_status=True,
                ) as response:
                    await response.read()

            wall, cpu = await _cost(plane, children, dry_run)
            taken.setdefault("unchanged children by dry run: API server ms of processor each", []).append(cpu)
            taken.setdefault("unchanged children by dry run: ms of wall clock each", []).append(wall)
    by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    pairs = [(child.body, by_name[child.type.kind, child.ref.name]) for child in children]
    began = time.process_time()
    assert all(satisfies(*pair) for pair in pairs)
    compared = (time.process_time() - began) / len(pairs) * 1000
    return {
        **{name: median(values) for name, values in taken.items()},
        "unchanged children by engine.compare: operator's ms of processor each": compared,
        **_cache([obj for obj in live if obj["kind"] == "Deployment"]),
    }


async def _write(api: Client, write: Write, live: list[Object], child: Child) -> None:
    live.append(await write(api, child))


async def _cost(
    plane: ControlPlane, children: Sequence[Child], do: Callable[[Child], Awaitable[None]]
) -> tuple[float, float]:
    """Milliseconds of wall clock, and of the API server's processor time, for each."""
    pid = plane.programs["kube-apiserver"].process.pid
    cpu, began = cpu_seconds(pid), time.monotonic()
    await at_once(children, do, in_flight=IN_FLIGHT)
    wall = time.monotonic() - began
    return wall / len(children) * 1000, (cpu_seconds(pid) - cpu) / len(children) * 1000


def _children(namespace: str) -> list[Child]:
    kind = KINDS_BY_NAME[MEMCACHED.type.group_kind]
    observed = Observed(objects={}, now=datetime.now(UTC), entropy=b"")
    found: list[Child] = []
    for number in range(RESOURCES):
        body = MEMCACHED.body(namespace=namespace, name=f"resource-{number}")
        body["metadata"] |= {"uid": f"00000000-0000-4000-8000-{number:012}", "generation": 1}
        found += kind.desired(body, observed)
    return found


def _cache(objects: Sequence[Object]) -> dict[str, float]:
    """KiB of memory for one Deployment in the cache, and the time to put it there and to read it."""
    raw = [orjson.dumps(obj) for obj in objects]
    compressor = Compressor()
    began = time.process_time()
    compressed = [compressor.compress(obj) for obj in objects]
    packing = (time.process_time() - began) / len(objects) * 1e6
    began = time.process_time()
    found = [decompress(*each) for each in compressed]
    unpacking = (time.process_time() - began) / len(objects) * 1e6
    assert found == list(objects)
    return {
        "a cached Deployment as Python objects, KiB": _held(lambda: [orjson.loads(item) for item in raw]),
        "a cached Deployment as JSON, KiB": _held(lambda: [bytes(bytearray(item)) for item in raw]),
        "a cached Deployment as JSON by zlib, KiB": _held(lambda: [zlib.compress(item, 1) for item in raw]),
        "a cached Deployment as it is (zlib with a sample), KiB": _held(
            lambda: [compressor.compress(obj) for obj in objects]
        ),
        "compress, microseconds": packing,
        "decompress, microseconds": unpacking,
    }


def _held(make: Callable[[], list[object]]) -> float:
    gc.collect()
    tracemalloc.start()
    kept = make()
    held = tracemalloc.get_traced_memory()[0] / len(kept) / KIB
    tracemalloc.stop()
    return held


if __name__ == "__main__":
    sys.exit(main())

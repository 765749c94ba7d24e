"""Images of several platforms under one name, of which each node takes its own: a list in a registry."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from infra.drivers import platforms
from infra.drivers.engine import ContainerEngine

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def push(engine: ContainerEngine, refs: Mapping[str, str], destination: str, *, insecure: bool) -> str:
    """Push images of ours, by platform, as `destination`; returns the list's digest there.

    Docker makes lists in registries alone, so there each image is also pushed for itself, as
    `DESTINATION-ARCHITECTURE`. Raises `ProgramError`.
    """
    if engine.name == "docker":
        return _by_docker(engine, refs, destination, insecure=insecure)
    name = f"{next(iter(refs.values()))}-list"
    engine.succeeds("manifest", "rm", name, timeout=60)
    engine.run("manifest", "create", name)
    try:
        for ref in refs.values():
            engine.run("manifest", "add", name, f"containers-storage:{ref}")
        with tempfile.TemporaryDirectory(prefix="kindling-push-") as folder:
            digest = Path(folder, "digest")
            args = ["--tls-verify=false"] if insecure else []
            args += ["--all", "--digestfile", str(digest)]
            engine.run("manifest", "push", *args, name, f"docker://{destination}", timeout=1800)
            return digest.read_text().strip()
    finally:
        engine.succeeds("manifest", "rm", name, timeout=60)


def _by_docker(engine: ContainerEngine, refs: Mapping[str, str], destination: str, *, insecure: bool) -> str:
    single = {platform: f"{destination}-{platforms.architecture(platform)}" for platform in refs}
    for platform, ref in refs.items():
        engine.push(ref, single[platform], insecure=insecure)
    args = ["--insecure"] if insecure else []
    engine.run("manifest", "create", "--amend", *args, destination, *single.values())
    output = engine.run("manifest", "push", "--purge", *args, destination, timeout=600)
    found = _DIGEST.findall(output)
    return str(found[-1]) if found else ""

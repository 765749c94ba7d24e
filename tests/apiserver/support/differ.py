"""`python -m kindling.diff` as a process of its own, by a credential that may only read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.operator_process import NAMESPACE, SOURCE, images

SECONDS = 120.0


def run(
    plane: ControlPlane,
    *,
    namespaces: str = "",
    env: Mapping[str, str] = {},
    source: Path = SOURCE,
    args: Sequence[str] = ("-o", "json"),
) -> subprocess.CompletedProcess[str]:
    """What it wrote, and its exit status; `env` is laid over the operator's environment in these tests."""
    return subprocess.run(
        [sys.executable, "-m", "kindling.diff", *args],
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(source),
            "KUBECONFIG": str(plane.kubeconfig),
            "KINDLING_NAMESPACE": NAMESPACE,
            "KINDLING_WATCH_NAMESPACES": namespaces,
            **images(),
            **env,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def diff(
    plane: ControlPlane, *, namespaces: str = "", env: Mapping[str, str] = {}, source: Path = SOURCE
) -> dict[str, Any]:
    """What it found, as JSON."""
    done = run(plane, namespaces=namespaces, env=env, source=source)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found

"""A Pod of a test's own with one container, for clients of a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cluster.stack import Environment


@contextmanager
def running(
    environment: Environment,
    prefix: str,
    container: dict[str, Any],
    *,
    spec: dict[str, Any] | None = None,
    delete: Sequence[str] = ("--wait=false",),
) -> Iterator[str]:
    """Its name, from when it is ready on; `spec` has more of the Pod's, `delete` the words for its end."""
    pod = f"{prefix}-{os.urandom(3).hex()}"
    wanted = {
        **(spec or {}),
        "containers": [{**container, "name": "client"}],
        "terminationGracePeriodSeconds": 0,
    }
    environment.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": wanted})
    try:
        environment.wait_ready(f"pod/{pod}")
        yield pod
    finally:
        environment.kubectl("delete", f"pod/{pod}", *delete)


def mounted(config_map: str) -> dict[str, Any]:
    """`spec` of a Pod without a token, whose container may mount this ConfigMap as `client`."""
    return {
        "automountServiceAccountToken": False,
        "volumes": [{"name": "client", "configMap": {"name": config_map}}],
    }

"""OpenTelemetry's own variables of `spec.env`: by them a consumer traces its messages.

The consumer's image has the other half: `pulsar_consumer/tracing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kindling.kube.resources import Object

PREFIX = "OTEL_"
_REFERENCE = re.compile(r"\$\(([-._A-Za-z0-9]+)\)")


def variables(cr: Object, env: Sequence[Object]) -> dict[str, str]:
    """Whose messages they are; none where nothing is traced, so that no Pod differs."""
    if not beside(env):
        return {}
    metadata = cr["metadata"]
    return {
        "PULSAR_CONSUMER_NAME": metadata["name"],
        "PULSAR_CONSUMER_NAMESPACE": metadata["namespace"],
    }


def beside(env: Sequence[Object]) -> list[Object]:
    """What a consumer has of the variables whose others are for the container beside it alone.

    With those that a value refers to: Kubernetes puts in what the same container has before.
    """
    wanted: list[Object] = []
    names: set[str] = set()
    for item in reversed(env):
        if item["name"].startswith(PREFIX) or item["name"] in names:
            wanted.append(item)
            names.update(_REFERENCE.findall(str(item.get("value") or "")))
    return wanted[::-1]

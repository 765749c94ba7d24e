"""What a PulsarConsumer reads, in words."""

from __future__ import annotations

from typing import Any

SHOWN = 3


def words(spec: dict[str, Any]) -> str:
    """`topic orders`, `topics a, b`, or those of a pattern."""
    if pattern := spec.get("topicsPattern"):
        return f"the topics that match {pattern}"
    if names := spec.get("topics"):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f"topic{'s' if len(names) > 1 else ''} {', '.join(names[:SHOWN])}{more}"
    return f"topic {spec.get('topic')}"


def back(spec: dict[str, Any]) -> str:
    """Where a dead letter goes that is sent back: of several topics, to the one that it came from."""
    return words(spec) if "topic" in spec else f"the topic of each, of {words(spec)}"


def are_several(spec: dict[str, Any]) -> bool:
    return "topic" not in spec

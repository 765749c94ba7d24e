"""What the environment may be wrong about."""

from __future__ import annotations


class BadSetting(Exception):
    """One environment variable that cannot be used: its name, its value, the remedy."""

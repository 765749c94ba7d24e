"""What the tests of the host side need of pytest."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> None:
    """A run in the background may have been started with SIGINT ignored, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

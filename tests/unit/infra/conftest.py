"""What the tests of the host side need of pytest."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> None:
    """A run started in the background may have been told to ignore Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _event_loop() -> Iterator[None]:
    """Pulumi's mocks take the thread's event loop, which `asyncio.run` in an earlier test has taken away."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()

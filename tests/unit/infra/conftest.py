"""What the tests of the Pulumi program need of pytest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _event_loop() -> Iterator[None]:
    """Pulumi's mocks take the thread's event loop, which `asyncio.run` in an earlier test has taken away."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()

"""Traces of the reconciliations, by OpenTelemetry: the one package that imports it, and only where there are
to be any.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import aiohttp

from kindling.engine.tracer import NoTracer, Tracer
from kindling.kinds.base import ExternalResult
from kindling.telemetry.settings import NONE

ProbeResult = TypeVar("ProbeResult", bound="ExternalResult | None")
Ask: TypeAlias = Callable[[Any], Awaitable[ProbeResult]]


@dataclass(kw_only=True)
class Telemetry:
    """What the parts of the process are given; by default none of it does anything.

    `middleware` is for the sessions by which reconciliations ask the API server.
    """

    tracer: Tracer = field(default_factory=NoTracer)
    middleware: aiohttp.ClientMiddlewareType | None = None

    def probes(self, ask: Ask[ProbeResult]) -> Ask[ProbeResult]:
        """The same questions to servers."""
        return ask

    def actions(self, act: Ask[ProbeResult]) -> Ask[ProbeResult]:
        """The same changes of servers."""
        return act


@asynccontextmanager
async def started(
    exporter: str, *, namespace: str, pod: str, lost: Callable[[int], None]
) -> AsyncIterator[Telemetry]:
    """Telemetry by this exporter of `settings`, of the process in this Pod. At the end what has not been sent
    yet is, as far as a few seconds suffice. `lost` is called, in some thread, with the number of spans that
    could not be sent.

    :raises StartupError: where a variable of OpenTelemetry is wrong.
    """
    if exporter == NONE:
        yield Telemetry()
        return
    from kindling.telemetry import opentelemetry

    async with opentelemetry.running(exporter, namespace=namespace, pod=pod, lost=lost) as telemetry:
        yield telemetry

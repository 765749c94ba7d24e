"""Runs the parts of the process beside kopf, and ends the process when one of them ends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, NoReturn

import aiohttp
import kopf

from kindling.config import Config
from kindling.engine.leader_election import LeaderElector, LeaseLost
from kindling.handlers import KopfWatcher

log = logging.getLogger("kindling")


class StartupError(Exception):
    """Why the process ends, for its one last line."""


async def run_unless_stopped(stop: asyncio.Event, waiting: Coroutine[Any, Any, None]) -> bool:
    """Await it unless stopped before; returns whether it completed."""
    task, stopping = asyncio.create_task(waiting), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return task.done()
    finally:
        task.cancel()
        stopping.cancel()


async def supervise(
    parts: list[Coroutine[Any, Any, None]],
    *,
    config: Config,
    watcher: KopfWatcher,
    settings: kopf.OperatorSettings,
    elector: LeaderElector,
    stop: asyncio.Event,
) -> None:
    """Run the parts beside kopf, which handles the signals once it has begun, until one stops it.

    `stop` is set by a signal that came before, which kopf has not seen.

    A part that fails ends the process here and now: kopf, once one of its own tasks failed, waits for
    credentials that nobody brings, and meanwhile nothing would be seen.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    await asyncio.sleep(0)
    watching = await kopf.spawn_tasks(
        registry=watcher.registry,
        settings=settings,
        clusterwide=not config.watch_namespaces,
        namespaces=config.watch_namespaces,
        stop_flag=stop,
    )
    done, _ = await asyncio.wait({*tasks, *watching}, return_when=asyncio.FIRST_COMPLETED)
    errors = [error for task in done if (error := task.exception()) is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if any(isinstance(error, LeaseLost) for error in errors):
        exit_now(3, str(errors[0]))  # with nothing tidied up: another replica may be at work already
    await elector.release()
    if errors:
        exit_now(1, f"a part of the operator failed, so the process ends: {errors[0]!r}")
    asyncio.get_running_loop().set_exception_handler(report_unless_closed)
    await kopf.run_tasks(watching)


def report_unless_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An error that nobody waits for, but for that of a request whose session kopf has closed under it.

    Kopf does not cancel what its scan of the API has begun, and closes the session while that still reads.
    """
    if isinstance(context.get("exception"), aiohttp.ClientConnectionError):
        log.debug("a request was cut off by the end of the process: %s", context["exception"])
    else:
        loop.default_exception_handler(context)


def exit_now(code: int, message: str) -> NoReturn:
    log.error(message)
    logging.shutdown()
    os._exit(code)

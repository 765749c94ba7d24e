"""`python -m kindling`: the operator's process. Builds the parts, runs them, ends when any of them does.

Exit codes: 0 told to stop; 1 it cannot work (one line says why); 3 the lease was lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import kopf
import uvloop

from kindling import logs, web
from kindling.config import BadSetting, Config
from kindling.demand import Demands
from kindling.engine.answers import Answers
from kindling.engine.events import Events
from kindling.engine.lease import Lease, LeaseLost
from kindling.engine.metrics import Metrics
from kindling.engine.ports import Ports
from kindling.engine.queue import Queue
from kindling.engine.resync import Resync
from kindling.engine.store import Key, Store
from kindling.engine.turns import Turns
from kindling.engine.worker import WORKERS, Reconciler, work
from kindling.handlers import Glue, connections, settings_for
from kindling.health import Health
from kindling.kinds.contract import SELECTOR
from kindling.kinds.registry import kinds
from kindling.kube.access import Access, NoCredentials, log_in
from kindling.kube.client import Client
from kindling.kube.errors import ApiError
from kindling.kube.follow import Follower, See
from kindling.kube.resources import SECRET, ResourceType
from kindling.kube.versions import OLDEST, too_old
from kindling.kube.watches import METADATA, Watches, paths_of
from kindling.ports.prober import OwnProber, Prober, direct
from kindling.ports.tunnel import Tunnel

log = logging.getLogger("kindling")

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 3.0


class CannotWork(Exception):
    """Why the process ends, for its one last line."""


async def await_api(client: Client, resources: Sequence[ResourceType], health: Health) -> None:
    """Wait for the API server, for a minute, and for our CRDs, however long.

    CRDs may well come after the operator (their order in a chart is nobody's promise), and a crash
    loop would hide the reason and back off to five minutes. So it waits, unready, and says for what.

    :raises CannotWork: when there is no answer, or the server is too old.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    told = None
    while True:
        try:
            version = await client.server_version()
            if too_old(version):
                raise CannotWork(
                    f"the API server is Kubernetes {version}, and {OLDEST[0]}.{OLDEST[1]} is the oldest that "
                    "works: upgrade the cluster"
                )
            missing = [type for type in resources if not await client.served(type)]
        except ApiError as error:
            if asyncio.get_running_loop().time() > deadline:
                raise CannotWork(f"the API server does not answer: {error}") from error
            health.waiting = f"waiting for the API server: {error}"
        else:
            if not missing:
                health.waiting = None
                return
            names = ", ".join(f"{type.plural}.{type.group}" for type in missing)
            health.waiting = f"waiting for CRDs that are not installed: {names}"
        if health.waiting != told:
            told = health.waiting
            log.warning(told)
        await asyncio.sleep(POLL_SECONDS)


async def operate(config: Config, access: Access) -> None:
    """Run until told to stop, or until a part fails.

    :raises CannotWork: when it cannot even start.
    """
    served = kinds(
        config.images,
        operator_namespace=config.namespace,
        local_broker=config.local_broker,
        only=config.kinds,
    )
    rooms = {kind.type.label: kind for kind in served}
    resources = [kind.type for kind in rooms.values()]
    sights = list(dict.fromkeys(type for kind in rooms.values() for type in kind.sights))
    # Secrets are watched whole: they come as metadata in any case.
    on_demand = [type for type in sights if type != SECRET and type not in resources]
    whole = [type for type in sights if type not in on_demand]
    children = list(dict.fromkeys([type for kind in rooms.values() for type in kind.children] + whole))
    metrics = Metrics()
    queue: Queue[Key] = Queue()
    store = Store(resources, sights=sights, seeks={label: kind.seeks for label, kind in rooms.items()})

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # as process 1 we would not even die of them
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async with AsyncExitStack() as stack:
        lease_client = await stack.enter_async_context(Client(access, limit=2))
        lease = Lease(api=lease_client, namespace=config.namespace, identity=config.pod)
        client = await stack.enter_async_context(
            Client(access, on_write=metrics.wrote, before_write=lease.check)
        )
        event_client = await stack.enter_async_context(Client(access, limit=2, before_write=lease.check))
        turns = Turns(exists=lambda key: store.resource(key) is not None, wake=queue.add, note=lease.note)
        events = Events(api=event_client, instance=config.pod)
        health = Health(queue=queue, lease=lease)
        metrics.measure(
            queue_depth=lambda: len(queue),
            queue_oldest_seconds=lambda: queue.oldest_seconds,
            objects=lambda: len(store),
            leader=lambda: float(lease.held),
            restarts_waiting=lambda: len(turns),
            restart_seconds=lambda: turns.seconds,
        )
        try:
            runner = await web.serve(
                port=config.port,
                alive=health.alive,
                ready=health.ready,
                metrics=metrics.render,
                versions=store.versions if config.debug else None,
            )
        except OSError as error:
            raise CannotWork(f"port {config.port} cannot be used: {error}; set KINDLING_PORT") from error
        try:
            if not await unless(stop, await_api(client, resources, health)):
                return
            if not await unless(stop, lease.acquire()):
                return
            log.info("holding the lease; working")
            turns.take_over(lease.noted)
            dial = Tunnel(access).dial if config.tunnel else direct
            if config.prober is not None:
                prober = Prober(config.prober, dial=dial)
            else:
                prober = own = OwnProber(dial=dial)
                stack.push_async_callback(own.close)
            answers = Answers(ask=prober.ask, look=prober.look, name=queue.add)
            ports = Ports(
                api=client,
                store=store,
                answers=answers,
                tell=events.tell,
                repaired=events.repaired,
                turns=turns,
            )
            reconciler = Reconciler(ports=ports, kinds=rooms)
            resync = Resync(
                api=client,
                store=store,
                queue=queue,
                metrics=metrics,
                resources=resources,
                children=list(dict.fromkeys([*children, *on_demand])),
                namespaces=config.watch_namespaces,
                selector=SELECTOR,
                sights=whole,
                others=lambda type: demands.active(type),
                every_seconds=config.resync_seconds,
            )

            def relisted(type: ResourceType) -> None:
                metrics.relisted(type)
                resync.request()

            paths = paths_of([*resources, *children], config.watch_namespaces)
            asked = paths_of(on_demand, config.watch_namespaces)
            paths |= {path + METADATA: type for path, type in asked.items()}
            watches = Watches(paths, seconds=config.watch_seconds, relisted=relisted)
            health.watches, health.resync = watches, resync
            glue = Glue(access=access, store=store, queue=queue, watches=watches, types=resources)
            session = access.session(limit=connections(watches), observe=watches.observe)
            await stack.enter_async_context(session)
            turn = asyncio.Lock()

            def follow(
                path: str, type: ResourceType, see: See, *, selector: str = "", metadata: bool = True
            ) -> Follower:
                return Follower(
                    session=session,
                    url=access.server + path,
                    type=type,
                    selector=selector,
                    seconds=config.watch_seconds,
                    see=see,
                    turn=turn,
                    metadata=metadata,
                )

            demands = Demands(asked, store=store, queue=queue, watches=watches, follow=follow)
            followers = [
                follow(path, type, demands.see, selector="" if type in whole else SELECTOR, metadata=False)
                for path, type in paths_of(children, config.watch_namespaces).items()
            ]

            async def work_once_listed() -> None:
                """A child that is not seen yet is not missing."""
                for follower in followers:
                    await follower.listed.wait()
                await work(reconciler, queue, metrics)

            parts = [lease.keep(), resync.run(), events.run(), answers.run()]
            parts += [follower.run() for follower in followers]
            parts += demands.run()
            parts += [work_once_listed() for _ in range(WORKERS)]
            await together(
                parts,
                config=config,
                glue=glue,
                settings=settings_for(watch_seconds=config.watch_seconds),
                lease=lease,
            )
        finally:
            queue.close()
            await runner.cleanup()


async def unless(stop: asyncio.Event, waiting: Coroutine[Any, Any, None]) -> bool:
    """Await it unless told to stop before; returns whether it came to its end."""
    task, stopping = asyncio.create_task(waiting), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return task.done()
    finally:
        task.cancel()
        stopping.cancel()


async def together(
    parts: list[Coroutine[Any, Any, None]],
    *,
    config: Config,
    glue: Glue,
    settings: kopf.OperatorSettings,
    lease: Lease,
) -> None:
    """Run the parts beside kopf, which from here on has the signals, until it is told to stop.

    A part that fails ends the process here and now: kopf, once one of its own tasks failed, waits for
    credentials that nobody brings, and meanwhile nothing would be seen.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    await asyncio.sleep(0)
    watching = await kopf.spawn_tasks(
        registry=glue.registry,
        settings=settings,
        clusterwide=not config.watch_namespaces,
        namespaces=config.watch_namespaces,
    )
    done, _ = await asyncio.wait({*tasks, *watching}, return_when=asyncio.FIRST_COMPLETED)
    errors = [error for task in done if (error := task.exception()) is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if any(isinstance(error, LeaseLost) for error in errors):
        exit_now(3, str(errors[0]))  # with nothing tidied up: another replica may be at work already
    await lease.release()
    if errors:
        exit_now(1, f"a part of the operator failed, it has to start anew: {errors[0]!r}")
    await kopf.run_tasks(watching)


def exit_now(code: int, message: str) -> NoReturn:
    log.error(message)
    logging.shutdown()
    os._exit(code)


def main() -> int:
    try:
        config = Config.load()
        logs.set_up(config.log_level, format=config.log_format)
        uvloop.run(operate(config, log_in()))
    except (BadSetting, NoCredentials, CannotWork) as error:
        print(f"kindling: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        log.error(f"a part of the operator failed, it starts anew: {error!r}", exc_info=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

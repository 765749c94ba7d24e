"""`python -m kindling`: the operator's process. Builds the parts, runs them, ends when any of them does.

Exit codes: 0 stopped by a signal; 1 it cannot work (one line says why); 3 the lease was lost.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import uvloop

from kindling import logs, replay, telemetry, web
from kindling.config import Config, InvalidConfig
from kindling.engine.dependencies import Dependencies
from kindling.engine.event_lookups import EventLookups
from kindling.engine.events import AT_ONCE, EventRecorder
from kindling.engine.external import ExternalState
from kindling.engine.flight_recorder import FlightRecorder
from kindling.engine.leader_election import LeaderElector
from kindling.engine.metrics import Metrics
from kindling.engine.optional_types import OptionalTypes
from kindling.engine.queue import Queue
from kindling.engine.resource_metrics import ResourceMetrics
from kindling.engine.restart_queue import RestartQueue
from kindling.engine.resync import Resync
from kindling.engine.store import Key, Store
from kindling.engine.worker import WORKERS, Reconciler, work
from kindling.handlers import KopfWatcher, connections, settings_for
from kindling.health import Health
from kindling.kinds.base import ExternalAction, ExternalResult
from kindling.kinds.metadata import SELECTOR
from kindling.kube.client import Client
from kindling.kube.credentials import Credentials, NoCredentials, load_credentials
from kindling.kube.portforward import PortForwarder
from kindling.kube.reflector import EventHandler, Reflector
from kindling.kube.resources import SEEN_WHOLE, Object, ResourceType
from kindling.kube.watch_monitor import METADATA, WatchMonitor, paths_of
from kindling.on_demand import OnDemandWatches
from kindling.optional_watches import OptionalWatch
from kindling.prober.client import ChildProber, Dial, ProberClient, direct
from kindling.served import served
from kindling.startup import CrdsMissing, end_once_installed, names_of, removed_since, wait_for_crds
from kindling.supervision import StartupError, run_unless_stopped, supervise

log = logging.getLogger("kindling")


async def run(config: Config, credentials: Credentials) -> None:
    """The operator of all kinds, or of those whose CRDs are installed.

    :raises StartupError: when it cannot even start.
    """
    try:
        await run_operator(config, credentials)
    except CrdsMissing as missing:
        await run_operator(config, credentials, without=missing.types)


async def run_operator(
    config: Config, credentials: Credentials, *, without: Sequence[ResourceType] = ()
) -> None:
    """Run until a signal, or until a part fails.

    :raises CrdsMissing: before anything was done.
    :raises StartupError: when it cannot even start.
    """
    what = served(config, without=without)
    options = what.options._replace(images=config.images.given())
    kinds_by_name, resources, on_demand = what.by_name, what.resources, what.on_demand
    metrics, resource_metrics = Metrics(), ResourceMetrics(what.kinds)
    optional = OptionalTypes(what.optional)
    queue: Queue[Key] = Queue()
    store = Store(
        resources,
        watches=what.watches,
        watched_objects={label: kind.watched_objects for label, kind in kinds_by_name.items()},
        resource_changed=resource_metrics.observe,
    )

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # as process 1 we would not even die of them
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async with AsyncExitStack() as stack:
        traces = await stack.enter_async_context(
            telemetry.started(
                config.traces, namespace=config.namespace, pod=config.pod, lost=metrics.spans_lost
            )
        )
        lease_client = await stack.enter_async_context(
            Client(credentials, limit=2, middleware=traces.middleware)
        )
        elector = LeaderElector(api=lease_client, namespace=config.namespace, identity=config.pod)
        client = await stack.enter_async_context(
            Client(
                credentials,
                on_write=metrics.wrote,
                before_write=elector.check,
                middleware=traces.middleware,
            )
        )
        event_client = await stack.enter_async_context(
            Client(credentials, limit=AT_ONCE, before_write=elector.check)
        )
        restart_queue = RestartQueue(
            exists=lambda key: store.resource(key) is not None,
            wake=partial(queue.add, cause="restart queue"),
            note=elector.note,
        )
        events = EventRecorder(api=event_client, instance=config.pod)
        recorder = FlightRecorder()

        def decisions(key: str) -> Object | None:
            named = Key(*key.split("/")) if key.count("/") == 2 else None
            entries = recorder.read(named) if named is not None else []
            return replay.record(named, entries, options) if named is not None and entries else None

        health = Health(queue=queue, elector=elector)
        metrics.measure(
            workqueue_depth=lambda: len(queue),
            workqueue_oldest_seconds=lambda: queue.oldest_seconds,
            cache_objects=lambda: len(store),
            leader=lambda: float(elector.is_leader),
            restarts_waiting=lambda: len(restart_queue),
            restart_seconds=lambda: restart_queue.seconds,
        )
        try:
            runner = await web.serve(
                port=config.port,
                alive=health.alive,
                ready=health.ready,
                metrics=lambda: metrics.render() + resource_metrics.render(),
                versions=store.versions if config.debug else None,
                decisions=decisions,
            )
        except OSError as error:
            raise StartupError(f"port {config.port} cannot be used: {error}; set KINDLING_PORT") from error
        try:
            if not await run_unless_stopped(stop, wait_for_crds(client, resources, health)):
                return
            if not await run_unless_stopped(stop, elector.acquire()):
                return
            log.info("became leader")
            if removed := await removed_since(client, resources):
                await elector.release()
                raise StartupError(f"CRDs were removed meanwhile: {names_of(removed)}")
            restart_queue.restore(elector.noted)

            def acted(key: Key, action: ExternalAction, result: ExternalResult) -> None:
                kind = kinds_by_name[key.group_kind]
                metrics.acted(kind.type, action.name, ok=result.ok)
                notice = kind.notice(action.name, action.member, result)
                if notice is not None and (cr := store.resource(key)) is not None:
                    events.acted(kind.type, cr, notice)

            dial: Dial = direct
            if config.tunnel:
                forwarder = PortForwarder(credentials)
                dial = lambda request: (forwarder.dial if request.pod else direct)(request)  # noqa: E731
            if config.prober is not None:
                prober = ProberClient(config.prober, dial=dial)
            else:
                prober = own = ChildProber(dial=dial)
                stack.push_async_callback(own.close)
            external_state = ExternalState(
                send=traces.probes(prober.send),
                run=traces.actions(prober.run),
                requeue=partial(queue.add, cause="answer of a server"),
                before_action=elector.check,
                on_action=acted,
            )
            dependencies = Dependencies(
                api=client,
                store=store,
                external_state=external_state,
                event_lookups=EventLookups(api=client, requeue=partial(queue.add, cause="a child's Events")),
                status_changed=events.status_changed,
                repaired=events.repaired,
                changed_by_admission=events.changed_by_admission,
                incident=events.incident,
                restart_queue=restart_queue,
                optional=optional,
                recorder=recorder,
                tracer=traces.tracer,
            )
            reconciler = Reconciler(dependencies=dependencies, kinds=kinds_by_name)
            resync = Resync(
                api=client,
                store=store,
                queue=queue,
                metrics=metrics,
                resources=resources,
                children=list(dict.fromkeys([*what.children, *on_demand, *what.optional])),
                namespaces=config.watch_namespaces,
                selector=SELECTOR,
                watches=what.unselected,
                watched_on_demand=lambda type: on_demand_watches.active(type),
                is_served=lambda type: type not in optional.unserved,
                every_seconds=config.resync_seconds,
            )

            def relisted(type: ResourceType) -> None:
                metrics.relisted(type)
                resync.request()

            paths = paths_of([*resources, *what.children], config.watch_namespaces)
            on_demand_paths = paths_of(on_demand, config.watch_namespaces)
            paths |= {path + METADATA: type for path, type in on_demand_paths.items()}
            optional_paths = paths_of(what.optional, config.watch_namespaces)
            monitor = WatchMonitor(
                {**paths, **optional_paths},
                seconds=config.watch_seconds,
                relisted=relisted,
                optional=optional_paths,
            )
            health.monitor, health.resync = monitor, resync
            watcher = KopfWatcher(
                credentials=credentials, store=store, queue=queue, monitor=monitor, types=resources
            )
            session = credentials.session(limit=connections(monitor), middleware=monitor.middleware)
            await stack.enter_async_context(session)
            page_lock = asyncio.Lock()

            def make_reflector(
                path: str,
                type: ResourceType,
                on_event: EventHandler,
                *,
                selector: str = "",
                metadata: bool = True,
                optional: bool = False,
            ) -> Reflector:
                return Reflector(
                    session=session,
                    url=credentials.server + path,
                    type=type,
                    selector=selector,
                    seconds=config.watch_seconds,
                    on_event=on_event,
                    page_lock=page_lock,
                    metadata=metadata and type not in SEEN_WHOLE,
                    optional=optional,
                )

            on_demand_watches = OnDemandWatches(
                on_demand_paths, store=store, queue=queue, monitor=monitor, make_reflector=make_reflector
            )
            reflectors = [
                make_reflector(
                    path,
                    type,
                    on_demand_watches.on_event,
                    selector="" if type in what.unselected else SELECTOR,
                    metadata=False,
                )
                for path, type in paths_of(what.children, config.watch_namespaces).items()
            ]

            def make_optional(path: str, type: ResourceType) -> Reflector:
                on_event = on_demand_watches.on_event
                return make_reflector(path, type, on_event, selector=SELECTOR, metadata=False, optional=True)

            watches = [
                OptionalWatch(
                    type,
                    paths_of([type], config.watch_namespaces),
                    served=client.served,
                    types=optional,
                    store=store,
                    queue=queue,
                    monitor=monitor,
                    make_reflector=make_optional,
                )
                for type in what.optional
            ]

            async def work_after_sync() -> None:
                """Until every reflector has synced, an existing child would look missing."""
                for reflector in reflectors:
                    await reflector.synced.wait()
                for watch in watches:
                    await watch.known.wait()
                await work(reconciler, queue, metrics)

            parts = [elector.renew(), resync.run(), events.run(), external_state.repeat()]
            parts += [reflector.run() for reflector in reflectors]
            parts += on_demand_watches.run()
            parts += [watch.run() for watch in watches]
            parts += [work_after_sync() for _ in range(WORKERS)]
            parts += [end_once_installed(client, without, stop)] if without else []
            await supervise(
                parts,
                config=config,
                watcher=watcher,
                settings=settings_for(watch_seconds=config.watch_seconds),
                elector=elector,
                stop=stop,
            )
        finally:
            queue.shut_down()
            await runner.cleanup()


def main() -> int:
    try:
        config = Config.load()
        logs.set_up(config.log_level, format=config.log_format)
        uvloop.run(run(config, load_credentials()))
    except (InvalidConfig, NoCredentials, StartupError) as error:
        print(f"kindling: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        log.error(f"a part of the operator failed, so the process ends: {error!r}", exc_info=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

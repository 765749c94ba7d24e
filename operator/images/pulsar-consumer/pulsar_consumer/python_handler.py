"""A handler that is Python: a function, sync or async, or a class of Pulsar's own `Function`.

Its files are a ConfigMap, mounted. The kubelet changes them in Pods that run; so they are copied once, if
they are those that the Pod was made for, and a container that starts again in this Pod has them as they were.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pulsar.functions.serde import IdentitySerDe

from pulsar_consumer.decoded import Decoded
from pulsar_consumer.function_context import FunctionContext, Record
from pulsar_consumer.handler import (
    Delayed,
    Failed,
    Handled,
    HandlerUnavailable,
    Reject,
    Rejected,
    Retry,
    Verdict,
    one_line,
)
from pulsar_consumer.outbox import Send
from pulsar_consumer.settings import Python

WAIT_SECONDS = 10.0
"""How long files may be others than those that are wanted: the kubelet may be about to change them."""

_POLL_SECONDS = 0.5


def digest(files: Mapping[str, bytes]) -> str:
    """A hash of files by their names; the operator computes the same of the ConfigMap."""
    found = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:32]


def stage(settings: Python, *, wait_seconds: float = WAIT_SECONDS) -> Path:
    """The folder with the handler's files, as they were when this Pod was made.

    :raises HandlerUnavailable: when they have been changed since, or are not there.
    """
    copy = settings.copies / settings.hash
    if copy.is_dir():
        return copy
    deadline = time.monotonic() + wait_seconds
    while digest(files := _read(settings.files)) != settings.hash:
        if time.monotonic() >= deadline:
            raise HandlerUnavailable("the ConfigMap has other content than this Pod was made for")
        time.sleep(_POLL_SECONDS)
    partial = copy.with_suffix(".partial")
    partial.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (partial / name).write_bytes(content)
    return partial.rename(copy)


def _read(folder: Path) -> dict[str, bytes]:
    """The files of a mounted ConfigMap, whose names never begin with two dots."""
    try:
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    except OSError:
        return {}


def load(folder: Path, name: str) -> Any:
    """What `MODULE:NAME` names among the files of a folder, whose other files it may import.

    :raises HandlerUnavailable: when it cannot be imported, or has no such name.
    """
    module_name, _, attribute = name.partition(":")
    path = folder / f"{module_name}.py"
    if module_name in sys.modules or module_name in sys.stdlib_module_names:
        raise HandlerUnavailable(f"{path.name} has the name of a module that exists: rename it")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        if not path.is_file():
            raise HandlerUnavailable(f"there is no {path.name} among its files")
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    except HandlerUnavailable:
        raise
    except BaseException as error:  # noqa: BLE001 - it may end by sys.exit, too
        traceback.print_exc()
        raise HandlerUnavailable(f"{path.name} cannot be imported: {one_line(error)}") from None
    found = getattr(module, attribute, None)
    if found is None:
        raise HandlerUnavailable(f"{path.name} has no {attribute!r}")
    if not callable(found):
        raise HandlerUnavailable(f"{attribute!r} in {path.name} is neither a function nor a class")
    return found


class PythonHandler:
    """Calls the users' code. `publish` sends what a Function publishes, and waits for the broker's word;
    `record` takes its figures.
    """

    def __init__(
        self, settings: Python, *, topics: list[str], output_topic: str, publish: Send, record: Record
    ) -> None:
        """:raises HandlerUnavailable: when the code cannot be imported, or a class cannot be made."""
        found = load(stage(settings), settings.name)
        self._call: Callable[[Any], Any] = found
        self._convert: Callable[[Any], bytes | None] = _as_bytes
        if inspect.isclass(found):
            self._call = self._function(found, topics, output_topic, publish, record)
            self._convert = _serialized
        self._timeout = settings.timeout_seconds
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="handler-loop", daemon=True).start()

    def __call__(self, message: Any) -> Verdict:
        """A sync function cannot be interrupted; an async one is cancelled at its time-out."""
        try:
            result = self._call(message)
            if inspect.isawaitable(result):
                result = self._wait(result)
            return Handled(self._convert(result))
        except Retry as error:
            return Delayed(error.seconds, one_line(str(error)))
        except Reject as error:
            return Rejected(one_line(error), type(error).__name__)
        except BaseException as error:  # noqa: BLE001 - whatever users' code does
            return Failed(one_line(error), type(error).__name__)

    def _wait(self, result: Any) -> Any:
        async def within() -> tuple[Any, BaseException | None]:
            limit = asyncio.timeout(self._timeout)
            try:
                async with limit:
                    return await result, None
            except TimeoutError as error:
                own = TimeoutError(f"it did not end within {self._timeout:g} s")
                return None, own if limit.expired() else error
            except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop, not the call
                return None, error

        value, error = asyncio.run_coroutine_threadsafe(within(), self._loop).result()
        if error is not None:
            raise error
        return value

    @staticmethod
    def _function(
        found: type, topics: list[str], output_topic: str, publish: Send, record: Record
    ) -> Callable[[Any], Any]:
        """A class of Pulsar's `Function`: what it gets is text or a number, as Pulsar's own runtime does.

        With a schema it gets what was read by that.
        """
        if not callable(getattr(found, "process", None)):
            raise HandlerUnavailable(f"class {found.__name__!r} has no method process(input, context)")
        try:
            function = found()
        except BaseException as error:  # noqa: BLE001 - whatever users' code does
            traceback.print_exc()
            raise HandlerUnavailable(f"class {found.__name__!r} cannot be made: {one_line(error)}") from None
        serde = IdentitySerDe()

        def call(message: Any) -> Any:
            context = FunctionContext(
                message, topics=topics, output_topic=output_topic, publish=publish, record=record
            )
            decoded = isinstance(message, Decoded)
            given = message.value() if decoded else serde.deserialize(message.data())
            return function.process(given, context)

        return call


def _as_bytes(result: Any) -> bytes | None:
    if result is None or isinstance(result, bytes):
        return result
    if isinstance(result, str):
        return result.encode()
    raise TypeError(f"a handler returns None, bytes or str, not {type(result).__name__}")


def _serialized(result: Any) -> bytes | None:
    return None if result is None else bytes(IdentitySerDe().serialize(result))

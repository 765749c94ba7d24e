"""HTTP to a container of this Pod, at a unix socket that it may have to bind again after a restart."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ABANDONED_SECONDS = 0.5
_FULL_SECONDS = 0.01
"""Until it is tried whether a program whose queue of connections is full has taken one."""


class Socket:
    """A unix socket at which a container of this Pod listens, and listens again after a restart.

    The file of one that was killed stays, and most programs cannot bind while it is there: it is removed once
    it has refused for a while. One that is bound and does not listen yet refuses for an instant only.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._refused: tuple[int, float] | None = None

    def connect(self, *, timeout: float | None) -> socket.socket:
        """:raises OSError: when nobody listens."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect(made, timeout)
        except ConnectionRefusedError:
            made.close()
            self._remove_abandoned()
            raise
        except BaseException:
            made.close()
            raise
        with self._lock:
            self._refused = None
        return made

    def _connect(self, made: socket.socket, timeout: float | None) -> None:
        deadline = None if timeout is None else self._clock() + timeout
        made.settimeout(timeout)
        while True:
            try:
                made.connect(str(self._path))
            except BlockingIOError:
                # Unlike a port, a unix socket does not wait while the queue of connections is full.
                if deadline is not None and self._clock() >= deadline:
                    raise
                time.sleep(_FULL_SECONDS)
            else:
                return

    def _remove_abandoned(self) -> None:
        with self._lock, suppress(FileNotFoundError):
            inode = self._path.stat().st_ino
            if self._refused is None or self._refused[0] != inode:
                self._refused = (inode, self._clock())
            elif self._clock() - self._refused[1] >= ABANDONED_SECONDS:
                self._path.unlink()
                self._refused = None


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket; a Host header is needed all the same."""

    def __init__(self, made: Socket, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._made = made

    def connect(self) -> None:
        self.sock = self._made.connect(timeout=self.timeout)

"""A handler that is a service: each message is POSTed as a CloudEvent 1.0 in binary mode; the status decides.

2xx: handled, and a body is the output. 429 and 503 with Retry-After: not now. 408, other 5xx and time-outs:
retried. Other 4xx: dead letters. Redirections are not followed.

A service in a container of this Pod may restart while messages wait: nobody answers then, which is not the
message's failure. If it stays away, the consumer ends, so that the resource's status says so.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from pulsar_consumer.decoded import Decoded
from pulsar_consumer.handler import Delayed, Failed, Handled, HandlerUnavailable, Rejected, Verdict, id_of
from pulsar_consumer.settings import Http
from pulsar_consumer.unix_socket import Socket, SocketConnection

TYPE = "dev.kindling.pulsar.message"
LARGEST_BODY = 5 * 1024 * 1024
LONGEST_DELAY_SECONDS = 3600.0
WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.5
_RESTART_SECONDS = 5.0
"""How long a message waits for the Pod's own container to listen again, before others have its place."""
AWAY_SECONDS = 30.0
"""How long the Pod's own container may not listen."""
_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 1.0, 0.1
_EXTENSION = re.compile(r"[a-z0-9]{1,20}")
# The attributes of CloudEvents themselves, and one of ours.
_TAKEN = {"id", "source", "specversion", "type", "subject", "time", "data", "datacontenttype", "dataschema"}
_TAKEN |= {"pulsarproperties"}
# As the binding to HTTP says: printable ASCII but for space, quotation mark and percent sign.
_SAFE = "".join(char for char in map(chr, range(0x21, 0x7F)) if char not in '"%')


def headers_of(message: Any) -> dict[str, str]:
    """The message's attributes as headers. A property that can be an extension is one, `traceparent` also a
    header; the rest are one extension, `pulsarproperties`, as JSON.
    """
    properties = dict(message.properties() or {})
    content_type = properties.pop("content-type", "") or "application/octet-stream"
    if isinstance(message, Decoded):
        content_type = "application/json"
    moment = message.event_timestamp() or message.publish_timestamp()
    attributes = {
        "specversion": "1.0",
        "id": id_of(message),
        "source": message.topic_name(),
        "type": TYPE,
        "time": datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    if key := message.partition_key():
        attributes["subject"] = key
    if isinstance(message, Decoded):
        attributes["dataschema"] = message.schema_uri
    rest: dict[str, str] = {}
    for name, value in sorted(properties.items()):
        fits = _EXTENSION.fullmatch(name) and name not in _TAKEN
        (attributes if fits else rest)[name] = value
    if rest:
        attributes["pulsarproperties"] = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    found = {f"ce-{name}": quote(value, safe=_SAFE) for name, value in attributes.items()}
    found["Content-Type"] = quote(content_type, safe=_SAFE + " ")
    if "traceparent" in properties:
        found["traceparent"] = found["ce-traceparent"]
    return found


def verdict_of(status: int, reason: str, *, retry_after: str | None, body: bytes, now: datetime) -> Verdict:
    """What the answer means for the message."""
    words = f"HTTP {status} {reason}".rstrip()
    if 200 <= status < 300:
        return Handled(body or None)
    if status in (429, 503) and (seconds := _seconds(retry_after, now=now)) is not None:
        return Delayed(seconds, words)
    if 400 <= status < 500 and status not in (408, 429):
        return Rejected(words, str(status))
    return Failed(words, str(status))


def _seconds(retry_after: str | None, *, now: datetime) -> float | None:
    """Of a Retry-After header, a number of seconds or a date; an hour at most."""
    text = (retry_after or "").strip()
    try:
        seconds = float(text) if text.isascii() and text.isdigit() else _until(text, now)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, seconds), LONGEST_DELAY_SECONDS)


def _until(text: str, now: datetime) -> float:
    when = parsedate_to_datetime(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now.timestamp()


class HttpHandler:
    """One connection for each thread, kept open."""

    def __init__(
        self,
        settings: Http,
        *,
        wait_seconds: float = WAIT_SECONDS,
        requested: Callable[[dict[str, str]], dict[str, str]] = dict,
    ) -> None:
        """`requested` has the headers of each request, before that is sent.

        :raises HandlerUnavailable: when nobody listens at the address.
        """
        self._requested = requested
        address = urlsplit(settings.url)
        self._secure = address.scheme == "https"
        self._host = address.hostname or ""
        self._port = address.port or (443 if self._secure else 80)
        self._path = address.path or "/"
        self._socket = Socket(settings.socket) if settings.socket is not None else None
        self._beside = settings.beside
        self._timeout = settings.timeout_seconds
        self._context = ssl.create_default_context() if self._secure else None
        self._local = threading.local()
        where = f"{address.scheme}://{address.netloc}"
        self._where = where if self._socket is None else f"the socket {settings.socket}"
        self._await_listener(wait_seconds)
        self._listened = time.monotonic()
        self._listens = threading.Event()
        if self._beside:
            threading.Thread(target=self._listen_for_it, name="handler", daemon=True).start()

    def check(self, *, away_seconds: float = AWAY_SECONDS) -> None:
        """:raises HandlerUnavailable: when the Pod's own container has not listened for so long."""
        silent = time.monotonic() - self._listened
        if self._beside and silent >= away_seconds:
            raise HandlerUnavailable(f"nobody answers at {self._where} for {silent:.0f} s")

    def __call__(self, message: Any) -> Verdict:
        known = getattr(self._local, "connection", None) is not None
        try:
            return self._post(message)
        except (ConnectionError, FileNotFoundError, http.client.BadStatusLine) as error:
            if not known:
                if self._beside and isinstance(error, ConnectionRefusedError | FileNotFoundError):
                    return self._restarted(error)
                return Failed(_words(error), type(error).__name__)
        except (OSError, http.client.HTTPException) as error:
            return Failed(_words(error), type(error).__name__)
        # A connection that was kept open may have been closed meanwhile: once more, by a new one.
        try:
            return self._post(message)
        except (OSError, http.client.HTTPException) as error:
            return Failed(_words(error), type(error).__name__)

    def _restarted(self, error: Exception) -> Delayed:
        """Once the container listens again, or after a while."""
        self._listens.clear()
        self._listens.wait(_RESTART_SECONDS)
        return Delayed(0.0, f"the handler's container did not listen: {_words(error)}")

    def _post(self, message: Any) -> Verdict:
        connection = getattr(self._local, "connection", None) or self._connect()
        self._local.connection = None
        try:
            sent = message.json() if isinstance(message, Decoded) else message.data()
            connection.request("POST", self._path, body=sent, headers=self._requested(headers_of(message)))
            answer = connection.getresponse()
            body = answer.read(LARGEST_BODY + 1)
            if len(body) > LARGEST_BODY:
                connection.close()
                return Failed(f"HTTP {answer.status} with more than {LARGEST_BODY} bytes", "BodyTooBig")
            if answer.length:
                # `read` of so many bytes says nothing of those that did not come.
                raise http.client.IncompleteRead(body, answer.length)
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return verdict_of(
            answer.status,
            answer.reason,
            retry_after=answer.getheader("Retry-After"),
            body=body,
            now=datetime.now(UTC),
        )

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=self._context
            )
        if self._socket is not None:
            return SocketConnection(self._socket, timeout=self._timeout)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _listen_for_it(self) -> None:
        """Also while no message comes: a socket that is abandoned keeps the next program from starting."""
        while True:
            try:
                self._try_listener()
            except OSError:
                # The kubelet starts it again within a second or two: by then it should be able to bind.
                time.sleep(_LOOK_AGAIN_SECONDS)
            else:
                self._listened = time.monotonic()
                self._listens.set()
                time.sleep(_LOOK_SECONDS)

    def _await_listener(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._try_listener()
                return
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise HandlerUnavailable(f"nobody answers at {self._where}: {_words(error)}") from None
            time.sleep(_POLL_SECONDS)

    def _try_listener(self) -> None:
        if self._socket is not None:
            self._socket.connect(timeout=2).close()
        else:
            socket.create_connection((self._host, self._port), timeout=2).close()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")

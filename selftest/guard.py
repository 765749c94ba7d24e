"""Keeps the operator from the addresses that its resources name: it must not ask the servers there, and least
of all have them delete something. Each connection that would leave this machine leads to a stand-in.

Copied as `sitecustomize.py` into a folder that the operator and its prober have on their path; Python imports
that at its start. The prober connects by `socket` alone. Standard library alone.
"""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_STAND_IN = Path(__file__).with_name("stand_in")
"""The stand-in's URL, once there is one."""
_create, _lookup = socket.create_connection, socket.getaddrinfo


def _is_here(host: Any) -> bool:
    """Whether nothing leaves this machine for it; a name is looked up nowhere."""
    text = host.decode() if isinstance(host, bytes) else host
    if text in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(text).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _stand_in() -> tuple[str, int]:
    try:
        found = urlsplit(_STAND_IN.read_text())
    except FileNotFoundError:
        raise ConnectionRefusedError("there is no stand-in yet") from None
    return str(found.hostname), int(found.port or 0)


def _connect(address: tuple[str, int], *args: Any, **options: Any) -> socket.socket:
    return _create(address if _is_here(address[0]) else _stand_in(), *args, **options)


def _look_up(host: Any, port: Any, *args: Any, **options: Any) -> Any:
    if _is_here(host):
        return _lookup(host, port, *args, **options)
    return _lookup(_stand_in()[0], port, *args, **options)


vars(socket).update(create_connection=_connect, getaddrinfo=_look_up)

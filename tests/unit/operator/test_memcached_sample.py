"""The client of docs/guides/memcached.md, beside a real memcached with TLS and a login."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pymemcache.exceptions import MemcacheClientError

from infra.paths import REPOSITORY
from tests.unit.operator.secured_caches import NAME, authority, issued, running

ONE = authority()


def sample(binding: Path) -> dict[str, Any]:
    """What the guide's program defines, with its binding in this folder."""
    guide = (REPOSITORY / "docs" / "guides" / "memcached.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
    defined: dict[str, Any] = {}
    exec(program, defined)
    defined["BINDING"] = binding
    return defined


def test_it_gets_in_on_each_connection_and_with_the_password_of_then(tmp_path: Path) -> None:
    values = {"host": NAME, "username": "memcached", "password": "word", "ca.crt": ONE.certificate}
    for name, value in values.items():
        (tmp_path / name).write_text(value)
    with running(pair=issued(ONE), passwords=("word",)) as cache:
        client = sample(tmp_path)["connected"]([f"127.0.0.1:{cache.port}"])
        client.set("item", "kept", noreply=False)
        assert client.get("item") == b"kept"
        client.close()
        assert client.get("item") == b"kept"
        assert client.get("login") is None
        client.close()
        (tmp_path / "password").write_text("other")
        with pytest.raises(MemcacheClientError, match="authentication failure"):
            client.get("item")

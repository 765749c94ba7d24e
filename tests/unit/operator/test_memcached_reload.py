"""What operator/images/exporters has for a memcached with TLS or logins, beside a real one: the program that
has it read its files again, and the exporter.
"""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Callable, Sequence

import pytest
from kindling.kinds.memcached import workload

from tests.ports import free_port
from tests.unit.operator.go_programs import compiled, serving
from tests.unit.operator.secured_caches import ON, authority, issued, reloading, running
from tests.unit.operator.test_memcached_exporter import page

ONE, OTHER = authority(b"one"), authority(b"other")
SECONDS = 60.0


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_logins_are_read_again_and_no_connection_ends() -> None:
    with running(passwords=("old",)) as cache, reloading(cache):
        assert cache.accepts("old")
        assert not cache.accepts("new")
        assert cache.said("get a") == b"CLIENT_ERROR unauthenticated\r\n"
        cache.logins("new", "old")
        until(lambda: cache.accepts("new"))
        assert cache.accepts("old")
        cache.logins("new")
        until(lambda: not cache.accepts("old"))
        assert cache.accepts("new")


def test_a_file_without_a_login_changes_nothing() -> None:
    with running(passwords=("old",)) as cache, reloading(cache):
        cache.write(cache.folder / "auth" / "users", "nothing\n")
        time.sleep(2)
        assert cache.accepts("old")
        cache.logins("new")
        until(lambda: cache.accepts("new"))


def trusted(cache_said: Callable[[], bytes]) -> bool:
    try:
        cache_said()
    except ssl.SSLError:
        return False
    return True


@pytest.mark.parametrize("passwords", [(), ("word",)], ids=["tls", "tls and a login"])
def test_a_certificate_is_read_again(passwords: tuple[str, ...]) -> None:
    first, second = ONE.certificate, OTHER.certificate
    with running(pair=issued(ONE), passwords=passwords) as cache, reloading(cache):
        password = passwords[0] if passwords else None
        assert cache.said("version", password=password, trusts=first).endswith(b"\r\n")
        with pytest.raises(OSError, match=r".+"):
            cache.said("version")
        until(lambda: trusted(lambda: cache.said("version", password=password, trusts=first)))
        cache.put(issued(OTHER))
        until(lambda: trusted(lambda: cache.said("version", password=password, trusts=second)))
        assert not trusted(lambda: cache.said("version", password=password, trusts=first))


def test_half_a_pair_is_not_read_and_the_whole_one_is() -> None:
    """memcached itself would take no connection any more."""
    with running(pair=issued(ONE)) as cache, reloading(cache):
        time.sleep(1)
        new = issued(OTHER, entropy=b"another")
        cache.write(cache.folder / "tls" / "tls.crt", new.certificate)
        time.sleep(2)
        assert cache.said("version", trusts=ONE.certificate).startswith(b"VERSION")
        cache.write(cache.folder / "tls" / "tls.key", new.key)
        until(lambda: trusted(lambda: cache.said("version", trusts=OTHER.certificate)))


def test_the_exporter_gets_in_with_either_login() -> None:
    """While memcached has not read its file again, the newest login is not valid yet."""
    with running(pair=issued(ONE), passwords=("old",)) as cache:
        own = free_port()
        name, *words = cache.container("exporter", exporter=ON)
        words = [word.replace(f":{workload.EXPORTER_PORT}", f"127.0.0.1:{own}") for word in words]
        with serving(name, words, port=own):
            address = f"http://127.0.0.1:{own}"
            until(lambda: page(address)["memcached_up",] == 1)
            cache.logins("new", "old")
            until(lambda: page(address)["memcached_up",] == 1)
            cache.logins("new")
            assert page(address) == {("memcached_up",): 0}


@pytest.mark.parametrize(
    "words",
    [["--other"], ["more"], ["--tls"], ["--certificate=a"], ["--tls", "--key=a"], ["--period=soon"]],
    ids=" ".join,
)
def test_it_refuses_what_it_does_not_know(words: Sequence[str]) -> None:
    command: list[str] = [str(compiled("memcached-exporter")), "reload", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr

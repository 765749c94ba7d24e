"""A real client reads the list as it is mounted, and follows it from cache to cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kindling.kinds.memcached.servers import name_of
from kindling.kube.resources import CONFIG_MAP, Ref

from tests.cluster import application
from tests.unit.operator.caches import Cache, running
from tests.unit.operator.memcacheds import KIND, deployment, memcached, observed, pod


def data(caches: Sequence[Cache]) -> Mapping[str, str]:
    """What NAME-servers has while these are the ready ones."""
    seen = deployment(replicas=len(caches))
    for number, cache in enumerate(caches):
        seen |= pod(f"cache-{number}", ip=cache.host, port=str(cache.port))
    cr = memcached(binding="ConfigMap", size=len(caches))
    (found,) = (child for child in KIND.desired(cr, observed(seen)) if child.type == CONFIG_MAP)
    assert found.ref == Ref(CONFIG_MAP, "ns", name_of(cr))
    made: Mapping[str, str] = found.body["data"]
    return made


def mount(folder: Path, values: Mapping[str, str], *, version: int) -> None:
    """As the kubelet does: all keys change at once, by a link that is replaced."""
    (folder / f"..{version}").mkdir()
    for name, value in values.items():
        (folder / f"..{version}" / name).write_text(value)
        if version == 0:
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..new").symlink_to(f"..{version}")
    os.replace(folder / "..new", folder / "..data")


def test_an_application_finds_all_its_items_on_the_caches_of_the_list(tmp_path: Path) -> None:
    with ExitStack() as stack:
        caches = [stack.enter_context(running(host)) for host in ("127.0.0.1", "::1", "127.0.0.1")]
        mount(tmp_path, data(caches[:1]), version=0)
        words = [sys.executable, application.__file__, str(tmp_path)]
        process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        assert process.stdout is not None
        for version, listed in enumerate((caches[:1], caches, caches[1:])):
            if version:
                mount(tmp_path, values := data(listed), version=version)
                known = json.loads(values["servers.json"])
                assert known == [{"host": host, "port": port} for host, port in sorted(hosts(listed))]
            wanted = data(listed)["servers"].split()
            for line in process.stdout:
                if (said := json.loads(line))["servers"] == wanted:
                    break
            assert said == {"servers": wanted, "found": application.ITEMS}
            assert all(cache.counters()["curr_items"] > 0 for cache in listed), "each has its share"


def hosts(caches: Sequence[Cache]) -> list[tuple[str, int]]:
    return [(cache.host, cache.port) for cache in caches]

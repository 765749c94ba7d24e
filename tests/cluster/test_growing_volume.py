"""Volumes that are really full and really grow: before the disk is full, and after it was.

Each claim is compared with what statvfs says in the server's container.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import csi_volumes
from tests.cluster.csi_volumes import FIXED, GROWING, capacity, claim, seen
from tests.cluster.full_disk import MI, container, fill, inside, overrun
from tests.cluster.stack import Environment, within
from tests.cluster.test_postgresql import made as made
from tests.cluster.test_postgresql import message_of, patch, wait_reason

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("driver")]
MEASURED_SECONDS = 400.0
"""Until the next measurement, and what follows from it."""
GROWN_SECONDS = 180.0
"""Until the kubelet has looked at the claim again, which it does at its own time."""
STARTED_SECONDS = 420.0
"""Until the kubelet tries a server again that has ended several times."""
ROOMY = {"limits": {"memory": "1Gi"}}
"""What the server writes to a volume in memory counts as its own memory."""
STARTED = "select backend_start from pg_stat_activity where backend_type = 'checkpointer'"
"""Since when the server has run without ending any session."""
WAL = "select sum(size)::bigint from pg_ls_waldir()"
# Not `$$`, of which Kubernetes makes `$` in a container's command.
BEATS = """DO $beats$ BEGIN
  WHILE NOT EXISTS (SELECT FROM stop) LOOP
    INSERT INTO beat VALUES (clock_timestamp()); COMMIT; PERFORM pg_sleep(0.1);
  END LOOP;
END $beats$"""


@pytest.fixture(scope="module")
def driver(environment: Environment) -> Iterator[None]:
    with csi_volumes.installed(environment):
        yield


@contextmanager
def beats(environment: Environment, name: str) -> Iterator[None]:
    """One session writes ten times a second meanwhile: none of its statements fails, or waits for long."""
    environment.psql(name, "create table beat (at timestamptz); create table stop (now int)")
    pod = f"{name}-writer"
    command = ["psql", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-c", BEATS]
    writer = {"name": "writer", **environment.operand(name), "command": command}
    spec = {"restartPolicy": "Never", "containers": [writer], "terminationGracePeriodSeconds": 0}
    environment.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec})
    try:
        environment.wait_ready(f"pod/{pod}")
        yield
        environment.psql(name, "insert into stop values (1)")
        ended = ("Succeeded", "Failed")
        within(60, lambda: environment.get("pod", pod)["status"]["phase"] in ended)
        said = environment.kubectl("logs", pod)
        said += environment.kubectl("logs", f"{name}-0", "-c", "postgres", "--tail=60")
        assert environment.get("pod", pod)["status"]["phase"] == "Succeeded", said
        slowest = (
            "select max(later - at) < '5 s' from (select at, lead(at) over (order by at) later from beat) b"
        )
        assert environment.psql(name, slowest) == "t"
    finally:
        environment.kubectl("delete", "pod", pod, "--wait=false")


@contextmanager
def watched(environment: Environment, query: str, *what: str, log: Path) -> Iterator[Callable[[], list[str]]]:
    """What was found there from here on: each that differs from the one before."""
    with log.open("w") as into:
        watch = environment.start("get", *what, "--watch", "-o", f'jsonpath={query}{{"\\n"}}', into=into)
    try:
        within(30, lambda: bool(log.read_text()))
        yield lambda: [line for line, _ in groupby(log.read_text().splitlines())]
    finally:
        watch.terminate()
        watch.communicate(timeout=30)


REASONS = " ".join(
    f'{{.status.conditions[?(@.type=="{type}")].{field}}}'
    for type, field in (("Available", "status"), ("Ready", "reason"), ("Progressing", "reason"))
)
"""Whether it is available, and why it is ready and progressing, or is not."""


def goes_on(said: list[str]) -> None:
    """Available all the time. A growth may be over in a second, before the status has it."""
    assert {line.split()[0] for line in said} == {"True"}
    assert {line.split()[2] for line in said} <= {"LoginSucceeded", "Reconciling", "Resizing"}


def storage(environment: Environment, resource: str) -> dict[str, Any]:
    found: dict[str, Any] = environment.get(resource)["status"]["storage"]
    return found


def condition(environment: Environment, resource: str, type: str) -> tuple[str, str]:
    found = {one["type"]: one for one in environment.get(resource)["status"]["conditions"]}
    return (found[type]["status"], found[type]["reason"]) if type in found else ("", "")


def server(environment: Environment, name: str) -> tuple[str, str, int]:
    """Which Pod and which server it is, and how many containers it has had."""
    pod = environment.get("pod", f"{name}-0")["metadata"]["uid"]
    return pod, inside(environment, name, STARTED), container(environment, name)["restartCount"]


def has_grown(environment: Environment, name: str, *, to: int, seconds: float) -> None:
    """The claim has that, and so has the file system."""
    try:
        within(seconds, lambda: capacity(environment, name) == to)
    except AssertionError as error:
        raise AssertionError(f"{error}: {json.dumps(claim(environment, name), indent=1)}") from None
    assert seen(environment, name).total == to


def follows(environment: Environment, name: str, size: int) -> None:
    """The log of changes is bounded by the volume as it is now: by a load of several times that."""
    bound = size // 5 // MI
    within(180, lambda: inside(environment, name, "show max_wal_size") == f"{bound}MB")
    inside(environment, name, "drop table if exists filling; checkpoint")
    most = 0
    for _ in range(4 * bound // 10):
        message = (
            "select pg_logical_emit_message(true, 'load', repeat('x', 1000000)) from generate_series(1, 10)"
        )
        inside(environment, name, message)
        most = max(most, int(inside(environment, name, WAL)))
    assert most <= bound * MI * 3 // 2 + 16 * MI


def test_the_data_grows_the_volume_up_to_its_limit_and_nobody_waits(
    environment: Environment, made: Callable[..., str], tmp_path: Path
) -> None:
    """One measurement is cause for both steps: the data takes more than half of the last size."""
    grow = {"threshold": 50, "increment": "30%", "maxSize": "300Mi"}
    resource = made(
        "grower", resources=ROOMY, storage={"size": "200Mi", "storageClassName": GROWING, "autoGrow": grow}
    )
    assert seen(environment, "grower").total == capacity(environment, "grower") == 200 * MI
    before = server(environment, "grower")
    with (
        beats(environment, "grower"),
        watched(environment, REASONS, resource, log=tmp_path / "reasons") as said,
        watched(
            environment, "{.status.capacity.storage}", "pvc", "grower-data", log=tmp_path / "sizes"
        ) as sizes,
    ):
        # With less than a segment of the log left, the server would end before it is asked.
        fill(environment, "grower", to=172 * MI)
        has_grown(environment, "grower", to=300 * MI, seconds=MEASURED_SECONDS + GROWN_SECONDS)
        assert sizes() == ["200Mi", "260Mi", "300Mi"]
        within(60, lambda: condition(environment, resource, "VolumeAtLimit") == ("True", "MaxSizeReached"))
        used, status = seen(environment, "grower").used, storage(environment, resource)
        assert status["capacity"] == "300Mi"
        # It was measured minutes ago: a segment of the log has come or gone.
        assert abs(status["usedBytes"] - used) <= used * 0.1 + 16 * MI
        assert claim(environment, "grower")["spec"]["resources"]["requests"]["storage"] == "300Mi"
        follows(environment, "grower", 300 * MI)
    assert server(environment, "grower") == before
    goes_on(said())
    assert capacity(environment, "grower") == 300 * MI


def test_a_full_disk_grows_first_and_then_the_server_starts_by_itself(
    environment: Environment, made: Callable[..., str], tmp_path: Path
) -> None:
    grow = {"increment": "50%", "maxSize": "500Mi"}
    resource = made(
        "burst", resources=ROOMY, storage={"size": "200Mi", "storageClassName": GROWING, "autoGrow": grow}
    )
    pod = environment.get("pod", "burst-0")["metadata"]["uid"]
    with watched(environment, REASONS, resource, log=tmp_path / "log") as said:
        overrun(environment, "burst")
        within(120, lambda: any(line.startswith("False DiskFull ") for line in said()))
        within(GROWN_SECONDS, lambda: capacity(environment, "burst") == 300 * MI)
        within(STARTED_SECONDS, lambda: condition(environment, resource, "Ready")[0] == "True")
    assert environment.get("pod", "burst-0")["metadata"]["uid"] == pod
    assert seen(environment, "burst").total == capacity(environment, "burst") == 300 * MI
    assert environment.psql("burst", "select 1") == "1"
    assert inside(environment, "burst", "select count(*), sum(id) from kept") == "10000|50005000"


def test_a_full_disk_says_so_and_a_larger_size_brings_it_back(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("filled", resources=ROOMY, storage={"size": "200Mi", "storageClassName": GROWING})
    overrun(environment, "filled")
    wait_reason(environment, resource, "DiskFull")
    message = message_of(environment, resource)
    assert "No space left on device" in message
    assert "raise spec.storage.size ('200Mi')" in message
    time.sleep(30)
    assert capacity(environment, "filled") == 200 * MI
    body = json.dumps({"spec": {"storage": {"size": "300Mi"}}})
    environment.kubectl("patch", resource, "--type=merge", f"--patch={body}")
    within(GROWN_SECONDS, lambda: capacity(environment, "filled") == 300 * MI)
    within(STARTED_SECONDS, lambda: condition(environment, resource, "Ready")[0] == "True")
    assert seen(environment, "filled").total == 300 * MI
    assert inside(environment, "filled", "select count(*), sum(id) from kept") == "10000|50005000"
    follows(environment, "filled", 300 * MI)


def test_a_larger_size_is_there_without_a_restart(
    environment: Environment, made: Callable[..., str], tmp_path: Path
) -> None:
    resource = made("resized", resources=ROOMY, storage={"size": "200Mi", "storageClassName": GROWING})
    before = server(environment, "resized")
    with watched(environment, REASONS, resource, log=tmp_path / "log") as said:
        patch(environment, resource, "LoginSucceeded", storage={"size": "300Mi", "storageClassName": GROWING})
        has_grown(environment, "resized", to=300 * MI, seconds=GROWN_SECONDS)
        within(60, lambda: said()[-1] == "True LoginSucceeded LoginSucceeded")
    goes_on(said())
    follows(environment, "resized", 300 * MI)
    assert server(environment, "resized") == before


def test_a_class_that_does_not_grow_says_so_and_the_server_goes_on(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("rigid", resources=ROOMY, storage={"size": "200Mi", "storageClassName": FIXED})
    before = server(environment, "rigid")
    patch(environment, resource, "ApplyRejected", storage={"size": "300Mi"})
    message = message_of(environment, resource)
    assert "if the volume cannot grow, set spec.storage.size to '200Mi'" in message
    assert seen(environment, "rigid").total == 200 * MI
    patch(environment, resource, "LoginSucceeded", storage={"size": "200Mi"})
    assert server(environment, "rigid") == before


def test_a_growth_that_cannot_be_says_why_and_can_be_taken_back(
    environment: Environment, made: Callable[..., str]
) -> None:
    resource = made("denied", resources=ROOMY, storage={"size": "200Mi", "storageClassName": GROWING})
    before = server(environment, "denied")
    patch(environment, resource, "LoginSucceeded", storage={"size": "1Gi"})
    within(60, lambda: condition(environment, resource, "Progressing") == ("True", "ResizeFailed"))
    query = '{.status.conditions[?(@.type=="Progressing")].message}'
    message = environment.kubectl("get", resource, "-o", f"jsonpath={query}")
    assert "could not make it 1Gi" in message
    assert "1073741824 bytes are more than a volume can have, 536870912" in message
    assert "set spec.storage.size to more than '200Mi'" in message
    assert seen(environment, "denied").total == capacity(environment, "denied") == 200 * MI
    patch(environment, resource, "LoginSucceeded", storage={"size": "300Mi"})
    has_grown(environment, "denied", to=300 * MI, seconds=GROWN_SECONDS)
    within(60, lambda: condition(environment, resource, "Progressing")[0] == "False")
    assert server(environment, "denied") == before


def test_a_full_disk_at_the_limit_waits_for_a_higher_limit(
    environment: Environment, made: Callable[..., str]
) -> None:
    grow = {"increment": "50%", "maxSize": "200Mi"}
    resource = made(
        "capped", resources=ROOMY, storage={"size": "200Mi", "storageClassName": GROWING, "autoGrow": grow}
    )
    overrun(environment, "capped")
    wait_reason(environment, resource, "DiskFull")
    assert "at that limit, raise maxSize" in message_of(environment, resource)
    assert condition(environment, resource, "VolumeAtLimit") == ("True", "MaxSizeReached")
    assert capacity(environment, "capped") == 200 * MI
    body = json.dumps({"spec": {"storage": {"autoGrow": {**grow, "maxSize": "250Mi"}}}})
    environment.kubectl("patch", resource, "--type=merge", f"--patch={body}")
    within(GROWN_SECONDS, lambda: capacity(environment, "capped") == 250 * MI)
    within(STARTED_SECONDS, lambda: condition(environment, resource, "Ready")[0] == "True")
    assert inside(environment, "capped", "select count(*), sum(id) from kept") == "10000|50005000"

"""What parameters follow from the volume and the memory, each unless the spec says it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from kindling.engine.quantity import quantity
from kindling.kinds.postgresql import defaults, restart
from kindling.kinds.postgresql.defaults import derived
from kindling.kinds.postgresql.parameters import fingerprint
from kindling.kube.resources import CONFIG_MAP, POD, VOLUME_CLAIM, Object, Ref

from tests.unit.operator.postgresqls import KIND, SPECS, observed, postgresql, request, running, volume

CLAIM = Ref(VOLUME_CLAIM, "ns", "db-data")


def with_capacity(size: str, capacity: str) -> dict[Ref, Object]:
    children = {**running(), **volume(size)}
    return {**children, CLAIM: {**children[CLAIM], "status": {"capacity": {"storage": capacity}}}}


def conf(children: dict[Ref, Object], **spec: Any) -> str:
    (found,) = (c for c in KIND.desired(postgresql(**spec), observed(children)) if c.type == CONFIG_MAP)
    return str(found.body["data"]["parameters.conf"])


@pytest.mark.parametrize(
    ("size", "wal"),
    [
        ("1", "32MB"),
        ("100Mi", "32MB"),
        ("1Gi", "204MB"),
        ("4Gi", "819MB"),
        ("5Gi", "1024MB"),
        ("16Ti", "1024MB"),
    ],
)
def test_log_is_a_fifth_of_the_volume(size: str, wal: str) -> None:
    assert derived(size=quantity(size), memory=None) == {"max_wal_size": wal}


@pytest.mark.parametrize(
    ("memory", "buffers", "cache", "maintenance"),
    [
        ("1", "1MB", "1MB", "1MB"),
        ("128Mi", "32MB", "96MB", "8MB"),
        ("512Mi", "128MB", "384MB", "32MB"),
        ("16Gi", "4096MB", "12288MB", "1024MB"),
        ("64Gi", "16384MB", "49152MB", "1024MB"),
        ("9E", "8388607MB", "16777215MB", "1024MB"),
    ],
)
def test_memory_is_shared_out(memory: str, buffers: str, cache: str, maintenance: str) -> None:
    assert derived(size=Decimal(2**30), memory=quantity(memory)) == {
        "max_wal_size": "204MB",
        "shared_buffers": buffers,
        "effective_cache_size": cache,
        "maintenance_work_mem": maintenance,
    }


def test_new_server_starts_with_them_and_a_running_one_is_asked_for_them() -> None:
    every = {
        "max_wal_size": "204MB",
        "shared_buffers": "128MB",
        "effective_cache_size": "384MB",
        "maintenance_work_mem": "32MB",
    }
    asked = request(postgresql(), observed(running()))
    assert asked is not None
    assert (dict(asked.parameters), dict(asked.defaults)) == ({}, every)
    for name, value in every.items():
        assert f"{name} = '{value}'\n" in conf(running())


def test_spec_wins_for_each_one_by_itself() -> None:
    spec: Any = {"parameters": {"max_wal_size": "64MB", "shared_buffers": 16384}}
    asked = request(postgresql(**spec), observed(running()))
    assert asked is not None
    assert set(asked.defaults) == {"effective_cache_size", "maintenance_work_mem"}
    text = conf(running(), **spec)
    assert "max_wal_size = '64MB'\n" in text
    assert "shared_buffers = '16384'\n" in text
    assert "effective_cache_size = '384MB'\n" in text
    assert text.count("max_wal_size") == text.count("shared_buffers") == 1


def test_memory_counts_as_the_limit_that_the_pod_has() -> None:
    """One left out has its default, and is at least what is requested."""

    def buffers(resources: Object) -> str | None:
        return defaults.of(postgresql(resources=resources), observed()).get("shared_buffers")

    assert buffers({"limits": {"cpu": 1}}) == "128MB"
    assert buffers({"requests": {"memory": "4Gi"}}) == "1024MB"
    assert buffers({"limits": {"memory": "1Gi"}}) == "256MB"
    assert buffers({"limits": {"memory": 0}}) is None


def test_volume_counts_as_it_is_not_as_it_is_asked() -> None:
    """It is larger if an existing volume was used again, and not yet larger while it grows."""

    def wal(children: dict[Ref, Object], **storage: Any) -> str:
        return defaults.of(postgresql(storage=storage), observed(children))["max_wal_size"]

    assert wal({}, size="2Gi") == wal(volume("2Gi"), size="2Gi") == "409MB"
    assert wal(with_capacity("2Gi", "2Gi"), size="1Gi") == "409MB"
    assert wal(with_capacity("4Gi", "1Gi"), size="4Gi") == "204MB"
    assert wal(with_capacity("4Gi", "4Gi"), size="2Gi", ephemeral=True) == "409MB"


def test_grown_volume_needs_another_answer() -> None:
    """The answer for the smaller volume is not reused: nothing else of the Pod has changed."""
    before = request(postgresql(), observed(with_capacity("1Gi", "1Gi")))
    after = request(postgresql(), observed(with_capacity("2Gi", "2Gi")))
    assert before is not None
    assert after is not None
    assert (before.cache_key == after.cache_key, after.defaults["max_wal_size"]) == (False, "409MB")


def test_no_pod_is_replaced_for_them() -> None:
    """The mark in its template is of the spec's parameters alone."""
    for children in (running(), with_capacity("8Gi", "8Gi")):
        assert restart.restart_token(postgresql(), observed(children), {}) == fingerprint({})
    assert Ref(POD, "ns", "db-0") in running()


@given(SPECS)
def test_every_admitted_spec_has_its_own(spec: Object) -> None:
    for name, value in defaults.of(postgresql(**spec), observed()).items():
        assert name in defaults.FROM
        assert value.endswith("MB")
        assert int(value[:-2]) >= 1

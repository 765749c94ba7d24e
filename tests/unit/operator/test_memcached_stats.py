"""What caches say of themselves, in the status: coarse, so seldom written, and kept while unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.amounts import rounded
from kindling.kinds.base import CachedResult, ExternalResult, Probe, SyncResult
from kindling.kinds.memcached.stats import COUNTERS, MOST, StatsRequest
from kindling.kube.resources import POD, Object, Ref

from tests.unit.operator.memcacheds import KIND, NOW, memcached, observed, pod, running

TWO = running(["10.0.0.1", "fd00::1"])
FAILED = ExternalResult(ok=False, reason="NotResponding", message="It is silent.")
KNOWN: Object = {"servers": 2, "items": 7, "bytes": 70, "evictions": 0, "hitRatioPercent": 5}


def said(
    hits: int = 0, misses: int = 0, evictions: int = 0, items: int = 0, bytes: int = 0
) -> ExternalResult:
    facts = dict(zip(COUNTERS, (hits, misses, evictions, items, bytes), strict=True))
    return ExternalResult(ok=True, facts=facts)


def probes(children: dict[Ref, Object], cr: Object | None = None) -> dict[str, Probe]:
    return dict(KIND.probes(cr or memcached(statistics=True), observed(children)))


def statistics(
    children: dict[Ref, Object], *, known: Object | None = None, **results: ExternalResult
) -> Object | None:
    """By the Pods' names, with underscores for hyphens."""
    cr = memcached(size=2, statistics=True, status={"statistics": known} if known else {})
    asked = probes(children, cr)
    had = {
        name: CachedResult(cache_key=asked[name].cache_key, result=results[name.replace("-", "_")], at=NOW)
        for name in asked
        if name.replace("-", "_") in results
    }
    report = KIND.status(cr, observed(children, had), SyncResult(in_sync=True, results=results))
    found: Object | None = report.status.get("statistics")
    return found


def test_who_does_not_ask_is_not_asked_and_has_no_figures() -> None:
    for spec in ({}, {"statistics": False}, {"statistics": None}):
        cr = memcached(**spec, status={"statistics": KNOWN})
        assert probes(TWO, cr) == {}
        assert "statistics" not in KIND.status(cr, observed(TWO), SyncResult(in_sync=True)).status


def test_each_ready_cache_is_asked_where_it_answers_and_nobody_waits_for_it() -> None:
    children = TWO | pod("cache-8", ready=False) | pod("cache-9", ip=None)
    asked = probes(children)
    assert {name: probe.request for name, probe in asked.items()} == {
        "cache-0": StatsRequest(namespace="ns", host="10.0.0.1", port=11211, pod="cache-0"),
        "cache-1": StatsRequest(namespace="ns", host="fd00::1", port=11211, pod="cache-1"),
    }
    assert all(probe.background and not probe.once for probe in asked.values())


def test_one_that_has_restarted_is_asked_at_once() -> None:
    def key(count: int) -> object:
        started = [{"name": "memcached", "restartCount": count, "containerID": f"id-{count}"}]
        return probes(running() | pod("cache-0", containerStatuses=started))["cache-0"].cache_key

    assert key(0) == key(0) != key(1)


def test_totals_of_all_rounded_down() -> None:
    found = statistics(
        TWO, cache_0=said(90, 9, 0, 123_456, 6_543_210), cache_1=said(9, 1, 12_345, 1, 1_000_000)
    )
    assert found == {
        "servers": 2,
        "hitRatioPercent": 90,  # of 99 of 109
        "items": 120_000,
        "bytes": 7_500_000,
        "evictions": 12_000,
    }


def test_nothing_read_has_no_ratio() -> None:
    assert statistics(TWO, cache_0=said(), cache_1=said(items=1)) == {
        "servers": 2, "items": 1, "bytes": 0, "evictions": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("hits", "misses", "percent"), [(1, 0, 100), (999_999, 1, 99), (0, 1, 0)])
def test_a_hundred_per_cent_is_no_miss_at_all(hits: int, misses: int, percent: int) -> None:
    found = statistics(TWO, cache_0=said(hits, misses), cache_1=said())
    assert found is not None
    assert found["hitRatioPercent"] == percent


def test_one_that_fails_is_left_out_and_it_says_why() -> None:
    assert statistics(TWO, cache_0=FAILED, cache_1=said(items=5)) == {
        "servers": 1, "items": 5, "bytes": 0, "evictions": 0, "message": "It is silent.",
    }  # fmt: skip
    assert statistics(TWO, cache_0=FAILED, cache_1=FAILED) == {"servers": 0, "message": "It is silent."}


def test_what_was_reported_stays_until_all_have_answered() -> None:
    """Or each new leader, and each Pod of a roll-out, would take it away and bring it back."""
    assert statistics(TWO, known=KNOWN) == KNOWN
    assert statistics(TWO, known=KNOWN, cache_0=said(items=5)) == KNOWN
    assert statistics(TWO, cache_0=said(items=5)) is None
    assert statistics(TWO, known=KNOWN, cache_0=said(), cache_1=said()) == {
        "servers": 2, "items": 0, "bytes": 0, "evictions": 0,
    }  # fmt: skip


def test_none_that_is_ready_says_nothing() -> None:
    assert statistics({}, known=KNOWN) is None


def test_it_does_not_make_ready_nor_unready() -> None:
    cr = memcached(statistics=True)
    asked = probes(running(), cr)["cache-0"]
    for result in (FAILED, said()):
        had = {"cache-0": CachedResult(cache_key=asked.cache_key, result=result, at=NOW)}
        with_it = KIND.status(cr, observed(running(), had), SyncResult(in_sync=True))
        without = KIND.status(memcached(), observed(running()), SyncResult(in_sync=True))
        assert (with_it.status["conditions"], with_it.result) == (
            without.status["conditions"],
            without.result,
        )


@given(st.integers(0, MOST))
def test_rounding_keeps_two_digits_and_never_exceeds(count: int) -> None:
    kept = rounded(count)
    assert 0 <= kept <= count
    assert count - kept < max(1, count / 10)
    assert len(str(kept).rstrip("0")) <= 2
    assert rounded(kept) == kept


def test_a_total_that_is_beyond_every_reader_is_the_most() -> None:
    most = said(MOST, 0, MOST, MOST, MOST)
    found = statistics(TWO, cache_0=most, cache_1=most)
    assert found is not None
    assert all(0 <= value <= MOST for value in found.values())


def test_pod_without_a_status_of_containers() -> None:
    bare = running()
    bare[Ref(POD, "ns", "cache-0")]["status"]["containerStatuses"] = None
    assert probes(bare)

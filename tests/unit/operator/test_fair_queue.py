"""Whose job comes next: nobody's servers, hanging ones above all, keep the others' from their turn."""

from __future__ import annotations

from kindling.prober.fair_queue import WORKERS, FairQueue, PriorityLevel


def given(lanes: FairQueue[int]) -> list[int]:
    """All that may begin now."""
    found = []
    while (job := lanes.next()) is not None:
        found.append(job)
    return found


def known(lanes: FairQueue[int], server: tuple[str, str], *, hung: bool) -> None:
    lanes.add(-1, server)
    assert lanes.next() == -1
    lanes.done(-1, hung=hung)


def test_a_namespace_gets_half_of_a_lane_and_the_others_the_rest() -> None:
    lanes = FairQueue[int]()
    for job in range(100):
        lanes.add(job, ("greedy", f"db-{job}"))
    lanes.add(100, ("other", "db"))
    assert sorted(given(lanes)) == [*range(PriorityLevel.NEW.value // 2), 100]


def test_namespaces_take_turns() -> None:
    lanes = FairQueue[int]()
    for job in range(6):
        lanes.add(job, ("a", "db"))
        lanes.add(10 + job, ("b", "db"))
    assert given(lanes)[:6] == [0, 10, 1, 11, 2, 12]


def test_forty_hung_servers_do_not_hold_up_new_and_good_ones() -> None:
    lanes = FairQueue[int]()
    known(lanes, ("good", "db"), hung=False)
    for number in range(40):
        known(lanes, (f"ns-{number}", "db"), hung=True)
    for number in range(40):
        lanes.add(number, (f"ns-{number}", "db"))
    assert len(given(lanes)) == PriorityLevel.SLOW.value
    lanes.add(100, ("new", "db"))
    lanes.add(101, ("good", "db"))
    assert sorted(given(lanes)) == [100, 101]


def test_a_slow_server_of_a_namespace_does_not_use_up_its_share_of_the_others() -> None:
    lanes = FairQueue[int]()
    for number in range(20):
        known(lanes, ("ns", f"slow-{number}"), hung=True)
    known(lanes, ("ns", "good"), hung=False)
    for number in range(20):
        lanes.add(number, ("ns", f"slow-{number}"))
    assert len(given(lanes)) == PriorityLevel.SLOW.value // 2
    lanes.add(100, ("ns", "good"))
    assert given(lanes) == [100]


def test_a_good_answer_brings_a_server_back_and_an_unknown_one_changes_nothing() -> None:
    lanes = FairQueue[int]()
    server = ("ns", "db")
    known(lanes, server, hung=True)
    lanes.add(1, server)
    assert lanes.next() == 1
    lanes.done(1)
    assert lanes.level(server) is PriorityLevel.SLOW
    known(lanes, server, hung=False)
    assert lanes.level(server) is PriorityLevel.GOOD


def test_there_are_never_more_than_the_workers_and_what_is_withdrawn_never_begins() -> None:
    lanes = FairQueue[int]()
    for number in range(2 * WORKERS):
        known(lanes, (f"ns-{number}", "db"), hung=False)
    for number in range(2 * WORKERS):
        lanes.add(number, (f"ns-{number}", "db"))
    begun = given(lanes)
    assert len(begun) == WORKERS
    waiting = set(range(2 * WORKERS)) - set(begun)
    for number in waiting:
        lanes.done(number)
    for number in begun:
        lanes.done(number, hung=False)
    assert given(lanes) == []

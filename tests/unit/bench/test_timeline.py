"""What became of a resource: when its children were there, when it was called ready, whether too early."""

from __future__ import annotations

from typing import Any

import pytest

from bench.timeline import Timeline, called_early, is_available, says_ready

Object = dict[str, Any]


def made(kind_of: str, name: str, version: int, **more: Any) -> Object:
    labels = {"app.kubernetes.io/instance": "one"} if kind_of != "Memcached" else {}
    meta = {"name": name, "uid": f"{kind_of}-{name}", "resourceVersion": str(version), "generation": 1}
    return {"metadata": meta | {"labels": labels} | more.pop("meta", {}), **more}


def status(ready: str, *, generation: int | None = None) -> Object:
    condition = {"type": "Ready", "status": ready}
    return {
        "conditions": [condition if generation is None else condition | {"observedGeneration": generation}]
    }


def pod(name: str, version: int, ready: str = "True") -> Object:
    return made("Pod", name, version, status={"conditions": [{"type": "Ready", "status": ready}]})


def deployment(version: int, *, available: int = 0, observed: int = 1, generation: int = 1) -> Object:
    return made(
        "Deployment",
        "one",
        version,
        meta={"generation": generation},
        spec={"replicas": 1},
        status={"availableReplicas": available, "observedGeneration": observed},
    )


def timeline(expected: int = 2, replicas: int = 1) -> Timeline:
    return Timeline(kind="Memcached", condition="Ready", expected=expected, replicas=replicas)


def test_a_life() -> None:
    line = timeline()
    line.see("Memcached", "ADDED", made("Memcached", "one", 1), 1.0)
    line.see("Service", "ADDED", made("Service", "one", 2), 2.0)
    assert line.complete() == 0
    line.see("Deployment", "ADDED", deployment(3), 3.0)
    line.see("Deployment", "MODIFIED", deployment(4), 4.0)
    assert line.complete() == 1
    line.see("Pod", "ADDED", pod("p", 5), 5.0)
    line.see("Deployment", "MODIFIED", deployment(6, available=1), 6.0)
    line.see("Memcached", "MODIFIED", made("Memcached", "one", 7, status=status("True")), 7.0)
    line.see("Memcached", "MODIFIED", made("Memcached", "one", 8, status=status("True")), 8.0)
    life = line.life("one")
    assert (life.created_at, life.complete_at, life.ready_at) == (1.0, 3.0, 7.0)
    assert (life.pods_ready, life.available, life.called_ready) == (5, 6, 7)
    assert line.ready() == 1


def test_a_fault_is_counted_while_the_status_has_it() -> None:
    line = timeline()
    line.see("Memcached", "ADDED", made("Memcached", "one", 1), 1.0)
    for number, (truth, expected) in enumerate((("False", 0), ("True", 1), ("False", 0), ("True", 1)), 2):
        said = {"conditions": [{"type": "Degraded", "status": truth}]}
        line.see("Memcached", "MODIFIED", made("Memcached", "one", number, status=said), float(number))
        assert line.faulty() == expected
    line.see("Memcached", "DELETED", made("Memcached", "one", 9, status=said), 9.0)
    assert line.faulty() == 0


def test_children_that_go_are_missed_until_they_are_back() -> None:
    line = timeline(expected=1)
    line.see("Memcached", "ADDED", made("Memcached", "one", 1), 1.0)
    line.see("Service", "ADDED", made("Service", "one", 2), 2.0)
    line.see("Service", "DELETED", made("Service", "one", 3), 3.0)
    assert (line.complete(), line.removed, line.remaining()) == (0, 1, 1)
    line.see("Service", "ADDED", made("Service", "one", 4), 4.0)
    assert line.complete() == 1
    assert line.life("one").complete_at == 2.0  # of the first time


def test_gone_when_the_resource_and_its_children_are() -> None:
    line = timeline(expected=1)
    line.see("Memcached", "ADDED", made("Memcached", "one", 1), 1.0)
    line.see("Service", "ADDED", made("Service", "one", 2), 2.0)
    line.see("Memcached", "DELETED", made("Memcached", "one", 3), 3.0)
    assert (line.existing(), line.remaining(), line.complete()) == (0, 1, 0)
    line.see("Service", "DELETED", made("Service", "one", 4), 4.0)
    assert line.remaining() == 0


def test_changed_when_the_workload_has_a_new_spec() -> None:
    line = timeline(expected=1)
    line.see("Deployment", "ADDED", deployment(2), 2.0)
    line.see("Memcached", "MODIFIED", made("Memcached", "one", 3, meta={"generation": 2}), 3.0)
    assert line.changed() == 0
    line.see("Deployment", "MODIFIED", deployment(4, generation=2), 4.0)
    assert line.changed() == 1


def test_changed_without_children_when_the_status_is_of_the_new_spec() -> None:
    line = timeline(expected=0)
    for version, said in ((3, 1), (4, 2)):
        more = {"meta": {"generation": 2}, "status": status("True", generation=said)}
        line.see("Memcached", "MODIFIED", made("Memcached", "one", version, **more), float(version))
        assert line.changed() == said - 1


def test_all_pods_are_needed_and_one_that_stops_counts_no_more() -> None:
    line = timeline(replicas=2)
    line.see("Pod", "ADDED", pod("a", 1), 1.0)
    line.see("Pod", "MODIFIED", pod("a", 2, "False"), 2.0)
    line.see("Pod", "ADDED", pod("b", 3), 3.0)
    assert line.life("one").pods_ready is None
    line.see("Pod", "MODIFIED", pod("a", 4), 4.0)
    assert line.life("one").pods_ready == 4


def test_what_is_nobodys_is_left_alone() -> None:
    line = timeline()
    line.see(
        "Service", "ADDED", {"metadata": {"name": "kubernetes", "uid": "x", "resourceVersion": "1"}}, 1.0
    )
    assert not line.lives


@pytest.mark.parametrize(
    ("called", "true", "early"), [(5, 6, True), (7, 6, False), (5, None, True), (None, None, False)]
)
def test_early_by_version(called: int | None, true: int | None, early: bool) -> None:
    assert called_early(called, true) is early


@pytest.mark.parametrize(
    ("found", "ready"),
    [
        (status("True"), True),
        (status("Unknown"), False),
        (status("True", generation=1), False),
        (status("True", generation=2), True),
        (status("True") | {"observedGeneration": 1}, False),
        ({}, False),
        (None, False),
    ],
)
def test_ready_is_said_of_the_present_generation(found: Object | None, ready: bool) -> None:
    assert says_ready({"metadata": {"generation": 2}, "status": found}, "Ready") is ready


def test_available_is_said_of_the_present_spec() -> None:
    assert is_available(deployment(1, available=1))
    assert not is_available(deployment(1, available=0))
    assert not is_available(deployment(1, available=1, observed=1, generation=2))

"""The page and its goals, from results as a run leaves them: what is claimed is what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from bench import report, svg
from bench.goals import goals
from bench.results import Results
from bench.stats import Summary, summary

SPEEDS = {"floor": 1.0, "kindling": 1.2, "go, as scaffolded": 15.0, "go, 32 workers": 2.0}


def cell(subject: str, count: int, round: int, **figures: float) -> dict[str, Any]:
    took = SPEEDS[subject] * count / 100 * (1 + round / 10)
    return {
        "subject": subject,
        "kind": "memcached",
        "count": count,
        "round": round,
        "failed": None,
        "calibration": {
            "cpu_seconds": 1.0 + round / 10,
            "memory_seconds": 0.2 + round / 10,
            "patches": 500.0,
            "stolen": 0.01,
        },
        "figures": {
            "children": 3,
            "create: children exist s": took,
            "create: children alone s": took / 2,
            "create: writes": 5 * count,
            "create: cpu s": 0.01 * count,
            "first process: peak MiB": 50 + count / 100,
            "second process: peak MiB": 79,
            "ready before its Pods": 0,
            "rest: writes": 0,
            "restart: writes": 5,
        }
        | figures,
        "requests": {"create": {"patch deployments": count}},
    }


def found(**figures: float) -> dict[str, Any]:
    cells = [
        cell(subject, count, round, **(figures if subject == "kindling" else {}))
        for count in (100, 1000)
        for round in (1, 2)
        for subject in SPEEDS
    ]
    return {
        "machine": "2 cores",
        "versions": {"etcd": "3"},
        "in_flight": 16,
        "cells": cells,
    }


def judged(results: dict[str, Any]) -> dict[str, tuple[str, bool | None]]:
    return {goal.text: (goal.measured, goal.met) for goal in goals(Results(results))}


def test_ratios_are_taken_within_each_round() -> None:
    ratio = Results(found()).ratio("create: children exist s", over="kindling", under="floor", count=1000)
    assert ratio is not None
    assert ratio.least == pytest.approx(1.2)
    assert ratio.greatest == pytest.approx(1.2)


def test_all_goals_met() -> None:
    results = judged(found())
    assert {met for _, met in results.values()} == {True, None}
    assert results["children of 1000 exist within 1.5 times the floor's time"] == ("1.2", True)
    assert results["1000: at least 10 times faster than the scaffolded operator"][1]


@pytest.mark.parametrize(
    ("figures", "missed"),
    [
        ({"create: children exist s": 25.0}, {"1.5 times", "10 times", "not slower"}),
        ({"create: writes": 5001}, {"beyond its children"}),
        ({"ready before its Pods": 1}, {"ready before its Pods"}),
        ({"rest: writes": 1}, {"writes at rest"}),
        ({"restart: writes": 6}, {"on restart"}),
        ({"second process: peak MiB": 81}, {"after a restart"}),
        ({"create: cpu s": 100.0}, {"growth"}),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_a_goal_that_is_missed_is_said_to_be(figures: dict[str, float], missed: set[str]) -> None:
    if "growth" in missed:
        results = found()
        for one in results["cells"]:
            one["figures"]["first process: peak MiB"] = 50 + one["count"] / 10
        texts = {text for text, (_, met) in judged(results).items() if met is False}
        assert any("growth for each resource" in text for text in texts)
        return
    texts = {text for text, (_, met) in judged(found(**figures)).items() if met is False}
    for words in missed:
        assert any(words in text for text in texts), (words, texts)
    assert len(texts) == len(missed)


@pytest.mark.parametrize(("more", "met"), [(1, True), (2, False)])
def test_the_report_marks_requests_that_grow_faster_than_the_resources(more: int, met: bool) -> None:
    results = found()
    for one in results["cells"]:
        one["count"] = count = {100: 1000, 1000: 5000}[one["count"]]
        patches = count * (more if count == 5000 else 1)
        one["requests"] = {"create": {"patch deployments": patches, "patch leases": count**2}}
    text = "memcached: API requests for a new resource, of 5000 by of 1000 (linear: 1): at most 1.25"
    assert judged(results)[text] == (f"{more}", met)


def test_kinds_without_a_yardstick_are_judged_by_themselves() -> None:
    cells = [{**one, "kind": "postgresql"} for one in found()["cells"] if one["subject"] == "kindling"]
    results = {**found(), "cells": cells}
    assert all(text.startswith("postgresql: ") for text in judged(results))
    assert {met for _, met in judged(results).values()} == {True, None}
    assert "beside the Go operators" not in report.render(results)


def test_beside_others_with_more_resources_there_is_no_goal_for_memory() -> None:
    results = found()
    results["cells"] = [{**one, "count": 5000} for one in results["cells"] if one["count"] == 1000]
    texts = judged(results)
    assert texts["memcached: memory with 5000, MiB (no goal)"][1] is None
    assert not any("linear" in text for text in texts)


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    results = found()
    results["cells"] = [one for one in results["cells"] if one["subject"] == "kindling"]
    assert judged(results)["1000: not slower than the tuned operator (ours by theirs)"] == (
        "not measured",
        None,
    )


def test_the_page_shows_all_and_its_plots_are_well_formed() -> None:
    results = found()
    results["cells"][0]["failed"] = "of 100: <3 ready"
    made = report.render(results)
    assert "of 100: &lt;3 ready" in made
    assert "spread 9% of the median" in made  # 1.1 to 1.2
    assert "2^20 reads all over 64 MiB 0.35 (0.3 to 0.4) s" in made
    for picture in made.split("<svg")[1:]:
        ET.fromstring("<svg" + picture.split("</svg>")[0] + "</svg>")
    assert made.count("<svg") == 5


def test_a_run_that_has_only_begun_has_a_page() -> None:
    assert "Medians of all rounds" in report.render(found() | {"cells": []})


def test_the_report_has_the_number_of_rounds_of_each_size() -> None:
    results = found()
    results["cells"] = [one for one in results["cells"] if (one["count"], one["round"]) != (1000, 2)]
    made = report.render(results)
    assert "<h2>memcached, 100, in 2 rounds</h2>" in made
    assert "<h2>memcached, 1000, in 1 round</h2>" in made


def test_what_nobody_measured_has_no_empty_tables() -> None:
    results = found()
    results["cells"].append({**cell("kindling", 100, 1), "kind": "postgresql"})
    made = report.render(results)
    assert "<h2>postgresql, 100, in 1 round</h2>" in made
    assert "<h2>postgresql, 1000" not in made
    assert made.count("<h2>memcached") + made.count("<h2>postgresql") == made.count("<h3>Requests") == 3


def test_bars_are_as_high_as_their_values() -> None:
    drawn = ET.fromstring(svg.bars("t", "s", {"g": {"a": summary([10.0]), "b": summary([1.0, 2.0])}}))
    bars = [item for item in drawn.iter() if item.tag.endswith("rect") and len(item)]
    high, low = (float(bar.get("height", "0")) for bar in bars)
    assert high > low > 0
    assert "1.5 (1 to 2) s" in (bars[1][0].text or "")


def test_a_series_has_one_colour_whoever_else_is_drawn() -> None:
    names, item = ["floor", "ours"], summary([1.0])
    alone = svg.bars("t", "s", {"g": {"ours": item}}, names=names)
    both = svg.bars("t", "s", {"g": {"floor": item, "ours": item}}, names=names)
    line = svg.lines("t", "s", {"ours": {1: 1.0, 2: 1.0}}, names=names)
    for drawn in (alone, both, line):
        assert svg.COLOURS[1] in drawn
    assert svg.COLOURS[0] not in alone + line
    assert svg.COLOURS[0] in both


def test_nothing_measured_draws_nothing() -> None:
    assert svg.bars("t", "s", {"g": {}}) == ""
    assert svg.lines("t", "s", {"a": {100: 1.0}}) == ""
    zero = Summary(median=0, least=0, greatest=0)
    assert "<rect" in svg.bars("t", "s", {"g": {"a": zero}})

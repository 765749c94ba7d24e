"""The results as one page: goals, noise, plots, tables. Pure; everything on it comes from the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from bench import svg
from bench.goals import COMPARED, goals
from bench.plan import FLOORS
from bench.results import Results
from bench.stats import Summary

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #24292f }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 } svg { margin: 1em 0; max-width: 100% }
th, td { border: 1px solid #d0d7de; padding: 2px 8px; text-align: right } th { background: #f6f8fa }
td:first-child, th:first-child { text-align: left } .met { color: #1a7f37 } .missed { color: #d1242f }
"""
BARS = (
    ("Time until all children exist", "s", "create: children exist s", False),
    ("Time until all are ready", "s", "create: ready s", False),
    ("Writes for each new resource", "requests", "create: writes", True),
    ("Processor time for each new resource", "s", "create: cpu s", True),
    ("Time until all have a changed field", "s", "change: children changed s", False),
    ("Time until children that were deleted are back", "s", "restore: children exist s", False),
    ("Time until nothing is left", "s", "delete: all gone s", False),
)
PHASES = ("create", "rest", "restart", "change", "restore", "delete")
NOTES = """
<p>Each subject has its turn in each round, another one first each time, on one API server; all come as
ServiceAccounts of their own, and requests are those of the API server's audit log. Nodes and Pods are
KWOK's, and etcd does not wait for the disk: what is compared is programs. The Go operator makes the same
children as ours, in the manner of kubebuilder's scaffold and example. The floor is a bare client that
creates the same resources and then applies the same children, with no operator there; the lower floor
creates the children, too.</p>
<p>Postgresql would be ready only with a real server to log in to: of it, the children and the writes are
measured. A PulsarConsumer is as ready as its Pods are said to be; here none connects to anything.
A resource is called ready too early if that version of it is older than the version at which its last Pod
became ready, or its Deployment said that it is available.
Times of a single resource count from the moment at which it was there.</p>
"""


def render(found: Mapping[str, Any]) -> str:
    """HTML; of a run that has only begun, with what there is."""
    return "\n".join(_parts(Results(found)))


def _parts(results: Results) -> Iterator[str]:
    found = results.found
    yield '<!doctype html><html lang="en"><meta charset="utf-8"><title>Kindling: figures</title>'
    beside = " beside the Go operators" if COMPARED in results.kinds else ""
    yield f"<style>{STYLE}</style><h1>Our operator{beside}</h1>"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield (
        f"<p>{escape(found['machine'])}; {escape(versions)}. Medians of all rounds, with the "
        f"least and the greatest. Requests in flight of the bare client: {found['in_flight']}.</p>"
    )
    if not results.cells:
        return
    yield from _goals(results)
    yield from _noise(results)
    yield NOTES
    yield from _plots(results)
    for kind in results.kinds:
        for count in results.counts:
            if rounds := results.rounds_said(kind, count):
                yield f"<h2>{escape(kind)}, {count}, in {rounds}</h2>"
                yield from _figures(results, kind, count)
                yield from _requests(results, kind, count)


def _goals(results: Results) -> Iterator[str]:
    words = {True: '<span class="met">yes</span>', False: '<span class="missed">no</span>', None: ""}
    rows = [(escape(goal.text), escape(goal.measured), words[goal.met]) for goal in goals(results)]
    yield "<h2>Goals</h2>" + _table(("goal", "measured", "met"), rows)


def _noise(results: Results) -> Iterator[str]:
    cpu, patches = results.calibration("cpu_seconds"), results.calibration("patches")
    memory, stolen = results.calibration("memory_seconds"), results.calibration("stolen")
    yield (
        "<h2>How noisy the run was</h2><p>Before each measurement: 512 MiB of SHA-256 on one core took "
        f"{svg.said(cpu)} s (spread {cpu.spread:.0%} of the median), 2^20 reads all over 64 MiB "
        f"{svg.said(memory)} s ({memory.spread:.0%}), the API server took "
        f"{svg.said(patches)} patches a second ({patches.spread:.0%}); the host gave at most "
        f"{stolen.greatest:.1%} of a core to others.</p>"
    )
    failed = [cell for cell in results.cells if cell["failed"]]
    for cell in failed:
        who = f"round {cell['round']}, {cell['count']} {cell['kind']}, {cell['subject']}"
        yield f'<p class="missed">Not ended: {escape(who)}: {escape(cell["failed"])}.</p>'


def _plots(results: Results) -> Iterator[str]:
    subjects = results.subjects("memcached")
    for title, unit, figure, each in BARS:
        groups = {}
        for count in results.counts:
            items = {
                subject: results.figure(figure, subject=subject, count=count, each=each)
                for subject in subjects
            }
            known = {name: item for name, item in items.items() if item is not None}
            if known:
                groups[f"{count} memcached"] = known
        yield svg.bars(title, unit, groups, names=subjects)
    for title, unit, figure in (
        ("Peak memory", "MiB", "first process: peak MiB"),
        ("Processor time to create them", "s", "create: cpu s"),
    ):
        yield svg.lines(title, unit, dict(_growth(results, figure)), names=subjects)


def _growth(results: Results, figure: str) -> Iterator[tuple[str, dict[int, float]]]:
    for kind in results.kinds:
        for subject in results.subjects(kind):
            found = {
                count: results.figure(figure, subject=subject, count=count, kind=kind)
                for count in results.counts
            }
            points = {count: item.median for count, item in found.items() if item is not None}
            if points:
                yield f"{subject}: {kind}" if kind != "memcached" else subject, points


def _figures(results: Results, kind: str, count: int) -> Iterator[str]:
    subjects = results.subjects(kind)
    rows = []
    for name in results.figures(kind):
        items = [results.figure(name, subject=subject, count=count, kind=kind) for subject in subjects]
        rows.append((escape(name), *map(_cell, items)))
    yield _table(("", *map(escape, subjects)), rows)


def _requests(results: Results, kind: str, count: int) -> Iterator[str]:
    """What each asks for one resource, by verb; what comes but once in a while is left to the JSON."""
    subjects = [name for name in results.subjects(kind) if name not in FLOORS]
    rows = []
    for phase in PHASES:
        found = [results.requests(subject=name, count=count, kind=kind, phase=phase) for name in subjects]
        for request in sorted({name for requests in found for name in requests}):
            numbers = [requests.get(request, 0.0) for requests in found]
            if max(numbers) >= 0.05:
                rows.append((f"{phase}: {escape(request)}", *(f"{number:.2f}" for number in numbers)))
    yield "<h3>Requests for each resource</h3>"
    yield _table(("", *map(escape, subjects)), rows)


def _cell(item: Summary | None) -> str:
    return "" if item is None else svg.said(item)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "".join(f"<th>{word}</th>" for word in head)
    body = "".join("<tr>" + "".join(f"<td>{word}</td>" for word in row) + "</tr>" for row in rows)
    return f"<table><tr>{first}</tr>{body}</table>"

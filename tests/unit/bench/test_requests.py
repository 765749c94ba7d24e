"""The audit log as counts: each request once, by whom, and nothing read twice or by half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.requests import Asked, Log, count, policy
from bench.result import RequestCounter, Result

USER = "system:serviceaccount:ns:one"


def line(verb: str, resource: str, **more: Any) -> bytes:
    about = {"resource": resource, "subresource": more.pop("subresource", "")}
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": USER},
        "objectRef": about,
        "responseStatus": {"code": 200},
    }
    return json.dumps(event | more).encode() + b"\n"


def test_counts_by_user_verb_resource_and_answer() -> None:
    other = {"username": "other"}
    lines = [
        line("patch", "deployments"),
        line("patch", "deployments"),
        line("patch", "memcacheds", subresource="status"),
        line("patch", "deployments", user=other),
        line("update", "memcacheds", responseStatus={"code": 409}),
    ]
    assert count(lines) == {
        Asked(USER, "patch", "deployments", True): 2,
        Asked(USER, "patch", "memcacheds/status", True): 1,
        Asked("other", "patch", "deployments", True): 1,
        Asked(USER, "update", "memcacheds", False): 1,
    }


def test_a_watch_counts_once_when_it_starts() -> None:
    started, ended = line("watch", "pods", stage="ResponseStarted"), line("watch", "pods")
    assert count([started]).total() == count([started, ended]).total() == 1


def test_what_names_no_resource_counts_too() -> None:
    assert count([line("get", "", objectRef=None)]) == {Asked(USER, "get", "", True): 1}


def test_writes_leave_out_reads_events_and_leases() -> None:
    lines = [line(verb, "deployments") for verb in ("get", "list", "watch", "create", "delete")]
    lines += [line("create", "events"), line("patch", "leases")]
    assert sorted(asked.verb for asked in count(lines) if asked.write) == ["create", "delete"]


def test_the_log_is_read_on_from_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = Log(path)
    assert not log.more()
    whole = line("create", "pods")
    path.write_bytes(whole + whole[:20])
    assert log.more().total() == 1
    with path.open("ab") as audit:
        audit.write(whole[20:])
    assert log.more().total() == 1
    assert not log.more()


def test_phases_hold_their_own_requests_and_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    tally, result = RequestCounter(Log(path), user=USER), Result()
    path.write_bytes(line("create", "pods"))
    tally.forget()
    with path.open("ab") as audit:
        audit.write(line("create", "services") + line("create", "pods", user={"username": "other"}))
        audit.write(line("get", "pods") + line("create", "events"))
    assert tally.wrote()
    assert not tally.wrote()
    with path.open("ab") as audit:
        audit.write(line("update", "services", responseStatus={"code": 409}))
    tally.close(result, "one")
    tally.close(result, "two")
    assert result.requests == {
        "one": {"create events": 1, "create services": 1, "get pods": 1, "update services": 1},
        "two": {},
    }
    assert result.figures == {
        "one: writes": 2,
        "one: writes refused": 1,
        "two: writes": 0,
        "two: writes refused": 0,
    }


def test_the_policy_logs_these_users_alone() -> None:
    first, last = policy(["a", "b"])["rules"]
    assert (first["level"], first["users"], last) == ("Metadata", ["a", "b"], {"level": "None"})

"""The screen: every part of a resource, the table of a namespace, a width, and nothing a terminal obeys."""

from __future__ import annotations

import pytest
from kubectl_kindling import screen, table
from kubectl_kindling.failures import missing_rights
from kubectl_kindling.screen import View

from tests.unit.plugin import recordings
from tests.unit.plugin.recordings import (
    FORBIDDEN,
    NOW,
    TYPES,
    Object,
    backup,
    healthy,
    items,
    mydb,
    run,
    type_of,
)


def view(resource: Object, **parts: object) -> View:
    return View(type_of(resource), resource, **parts)  # type: ignore[arg-type]


def lines(resource: Object, **parts: object) -> list[str]:
    return screen.one(view(resource, **parts), NOW)


def block(found: list[str], header: str) -> list[str]:
    """The table that begins with this column, its rows split."""
    start = next(place for place, line in enumerate(found) if line.strip().startswith(f"{header} "))
    rows = found[start + 1 :]
    end = rows.index("") if "" in rows else len(rows)
    return [" ".join(row.split()) for row in rows[:end]]


def test_what_waits_for_an_approval_has_a_table_and_the_command() -> None:
    database = healthy()
    database["status"]["approvals"] = [
        {"name": "3f9a1c07be", "disruption": "Restart", "message": "A change of the Pod waits."},
        {"name": "77aa00bb11", "disruption": "DataLost", "message": "Databases are dropped: shop."},
    ]
    found = lines(database)
    assert block(found, "APPROVAL") == [
        "3f9a1c07be Restart",
        "A change of the Pod waits.",
        "77aa00bb11 DataLost",
        "Databases are dropped: shop.",
        "`kubectl kindling approve mydb --namespace=shop` approves what is shown.",
    ]
    assert not any(line.strip().startswith("approvals ") for line in found)
    assert "APPROVAL" not in "\n".join(lines(healthy()))


def test_the_recorded_resource() -> None:
    found = lines(mydb(), children=items("children"), events=items("events"), backups=[backup()])
    assert found[:7] == [
        "Postgresql mydb",
        "  type        postgresqls.database.db.example.com/v1",
        "  namespace   shop",
        "  generation  5, observed 5",
        "  phase       Failed",
        "  ready       False (LoginFailed)",
        "  age         21m",
    ]
    conditions = block(found, "CONDITION")
    assert conditions[0].startswith("Ready False LoginFailed ")
    assert conditions[1].startswith("No login through mydb.shop.svc:5432 yet")
    # The same words are printed once.
    assert conditions.count("as Ready") == 3
    assert block(found, "ROLE") == ["app not ready Reconciling mydb-role-app"]
    assert block(found, "DATABASE") == ["orders not ready Reconciling"]
    assert block(found, "CHILD")[0] == "PersistentVolumeClaim/mydb-data 21m ! Pending 1Gi"
    assert block(found, "EVENT")[-1].startswith("14m Warning LoginFailed Postgresql: No login through")
    assert len(found) < 60


def test_a_healthy_one() -> None:
    found = lines(healthy())
    assert "  ready       True (LoginSucceeded)" in found
    assert "  version  17.6" in found
    assert "  binding  name mydb-binding" in found
    assert block(found, "DATABASE") == [
        "orders not ready NameConflict",
        "A database orders exists and is not the operator's.",
    ]
    assert "Not all could be read:" not in found


def test_a_resource_that_nobody_has_reconciled() -> None:
    new = mydb()
    new["status"] = {"observedGeneration": -1}
    found = lines(new)
    assert "  generation  5, observed none" in found
    assert "  ready       Unknown (NotObserved)" in found
    assert "Conditions: none; the operator has not reported on it yet" in found


def test_what_the_spec_sets_and_a_deletion() -> None:
    found = mydb()
    found["spec"] |= {"paused": True, "hibernate": False, "hibernateAfter": "30m", "deletionProtection": True}
    found["metadata"]["deletionTimestamp"] = "2026-11-24T22:20:00Z"
    printed = lines(found)
    assert "  spec sets   paused, hibernateAfter, deletionProtection" in printed
    assert "  deleted     10m ago, and not gone yet" in printed


def test_a_plan_is_on_the_screen_of_a_resource_that_has_one() -> None:
    found = mydb()
    assert "Plan" not in "\n".join(lines(found))
    found["spec"]["mode"] = "Plan"
    item = {"action": "Update", "object": "StatefulSet/mydb", "disruption": "Stop", "message": "it stops"}
    found["status"]["plan"] = {"disruption": "Stop", "items": [item | {"fields": ["spec.hibernate"]}]}
    printed = lines(found)
    assert "  spec sets   mode" in printed
    assert printed[printed.index("Plan: Stop") + 1] == "  spec.hibernate: it stops (StatefulSet/mydb)"
    found["status"]["plan"] = {"disruption": "None", "items": []}
    assert "Plan: nothing to do" in lines(found)


def test_the_backups_of_a_database() -> None:
    good = backup(run("nightly-1", "backup", "Succeeded", stoppedAt="2026-11-24T03:30:00Z"))
    never = backup()
    never["status"] |= {"lastVerifiedTime": None, "nextScheduledTime": None, "dataLossWindow": None}
    assert block(lines(mydb(), backups=[good, never]), "BACKUP") == [
        "nightly Succeeded 19h 2h in 4h 1m False SecretNotFound",
        "nightly none never none unknown False SecretNotFound",
    ]


def test_the_runs_of_a_backup() -> None:
    failed = run("b", "backup", "Failed", reason="StoreUnreachable", message="The store does not answer.")
    found = lines(backup(failed, *(run(str(n), "verify", "Succeeded") for n in range(5))))
    assert block(found, "RUN") == [
        "b backup Failed 19h StoreUnreachable",
        "0 verify Succeeded 19h",
        "1 verify Succeeded 19h",
        "The store does not answer.",
    ]


def test_many_children_and_events_are_bounded() -> None:
    pod = next(each for each in items("children") if each["kind"] == "Pod")
    pods = [{**pod, "metadata": {**pod["metadata"], "uid": str(n)}} for n in range(50)]
    event = items("events")[0]
    many = [{**event, "metadata": {**event["metadata"], "uid": str(n)}} for n in range(50)]
    found = lines(mydb(), children=pods, events=many)
    assert block(found, "CHILD")[-1] == "and 30 more"
    assert len(block(found, "CHILD")) == 21
    assert len(block(found, "EVENT")) == 10


def test_what_could_not_be_read_is_named() -> None:
    found = lines(mydb(), missing=missing_rights(FORBIDDEN), others=["the store is away"])
    at = found.index("Not all could be read:")
    text = " ".join(line.strip() for line in found[at + 1 :])
    assert text.startswith("- you lack the right `list` in namespace `shop` on `statefulsets.apps`, ")
    assert text.endswith("- the store is away")


def table_of(*, namespaces: bool = False) -> list[str]:
    return screen.all_of(recordings.namespace(), TYPES, NOW, namespaces=namespaces)


def test_the_table_has_those_that_are_not_ready_first_with_their_messages() -> None:
    found = [line for line in table_of() if not line.startswith("    ")]
    assert [line.split() for line in found] == [
        ["RESOURCE", "READY", "REASON", "OBSERVED", "AGE"],
        ["backup/nightly", "False", "SecretNotFound", "1/1", "21m"],
        ["pge/mydb", "False", "LoginFailed", "5/5", "21m"],
        ["pge/twice", "False", "LoginFailed", "1/1", "21m"],
        ["pgt/twice", "False", "NameConflict", "1/1", "21m"],
        ["memcached/cache", "True", "ReplicasReady", "1/1", "21m"],
        ["mycustomresource/friend", "True", "FriendMissing", "1/1", "21m"],
    ]
    text = "\n".join(table_of())
    assert "spec.credentialsSecretRef.name 'store'" in text
    assert "There is no Pod named" not in text, "those that are Ready need no words"


def test_the_table_of_all_namespaces() -> None:
    found = table_of(namespaces=True)
    assert found[0].split() == ["NAMESPACE", "RESOURCE", "READY", "REASON", "OBSERVED", "AGE"]
    assert found[1].split()[:2] == ["shop", "backup/nightly"]


def test_columns_are_aligned() -> None:
    found = table.columns(("A", "B", "C"), [("long one", "x", "y"), ("s", "yy", "z")])
    assert found == ["A         B   C", "long one  x   y", "s         yy  z"]


def test_no_line_is_wider_than_the_screen() -> None:
    wordy = mydb()
    wordy["status"]["conditions"][0]["message"] = "many words " * 200
    everything = [
        *lines(wordy, children=items("children"), events=items("events"), backups=[backup()]),
        *lines(mydb(), missing=missing_rights(FORBIDDEN)),
        *table_of(namespaces=True),
    ]
    assert max(map(len, everything)) <= table.WIDTH


def test_a_word_that_is_wider_stays_whole_to_be_copied() -> None:
    word = "x" * 150
    assert table.wrapped(f"see {word} there") == ["see", word, "there"]


@pytest.mark.parametrize("text", ["\x1b[2J\x1b[31mred", "bell\a", "back\b\b", "line\r\nother\x00"])
def test_nothing_is_printed_that_a_terminal_obeys(text: str) -> None:
    hostile = mydb()
    hostile["metadata"]["name"] = hostile["metadata"]["namespace"] = text
    hostile["status"]["pgPhase"] = hostile["status"]["version"] = text
    for item in (*hostile["status"]["conditions"], *hostile["status"]["roles"]):
        item["message"] = item["reason"] = text
    event = {**items("events")[0], "message": text, "reason": text}
    children = [{**each, "metadata": {**each["metadata"], "name": text}} for each in items("children")]
    rows = [(type_of(hostile), hostile)]
    printed = [
        *lines(hostile, children=children, events=[event], backups=[hostile], others=[text]),
        *screen.all_of(rows, TYPES, NOW, namespaces=True),
    ]
    assert all(line.isprintable() for line in printed)

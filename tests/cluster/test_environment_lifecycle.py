"""The environment as a whole: nothing to change means nothing changed, destroy means gone, twice."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.stack import STACK, Environment


def test_a_second_up_changes_nothing(environment: Environment) -> None:
    environment.ok("exec", "--stack", STACK, "pulumi", "up", "--yes", "--expect-no-changes", "--skip-preview")


def test_the_operator_is_where_the_readme_says(environment: Environment) -> None:
    deployment = environment.get("deployment/kindling-operator", "-n", "kindling-system")
    assert deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"]


def test_the_other_kinds_are_served_and_their_samples_applied(environment: Environment) -> None:
    for resource in ("memcacheds.cache.example.com", "pulsarconsumers", "mycustomresources"):
        assert len(environment.get(resource)["items"]) == 1


def test_a_preview_sees_no_change(environment: Environment) -> None:
    assert "unchanged" in environment.ok("preview", STACK)


def test_the_state_holds_no_password_in_clear(environment: Environment) -> None:
    files = [file for file in Path(environment.state).rglob("*") if file.is_file()]
    assert [f for f in files if f.suffix == ".json"]
    for file in files:
        assert b"password123" not in file.read_bytes(), file

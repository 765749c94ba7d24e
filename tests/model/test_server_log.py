"""spec.logging of a Postgresql: a plan names an edit of it, which restarts the server once."""

from __future__ import annotations

import pytest

from tests.model.test_plan import items
from tests.model.test_postgresql_model import CR, ready, with_database

JSON, TEXT = {"format": "JSON"}, {"format": "Text"}


def test_a_plan_names_the_field_and_the_one_restart_both_ways() -> None:
    world = with_database()
    found = items(world, logging=JSON)
    assert list(found) == ["StatefulSet/db"]
    assert found["StatefulSet/db"]["fields"] == ["spec.logging.format"]
    assert found["StatefulSet/db"]["disruption"] == "Restart"
    world.api.edit(CR, {"spec": {"mode": "Apply"}})
    world.settle()
    assert items(world) == {}
    found = items(world, logging=TEXT)
    assert found["StatefulSet/db"]["fields"] == ["spec.logging.format"]
    assert found["StatefulSet/db"]["disruption"] == "Restart"


def test_text_is_what_a_server_without_the_field_logs() -> None:
    world = with_database()
    assert items(world, logging=TEXT) == {}


@pytest.mark.parametrize("name", ["log_destination", "logging_collector", "log_directory"])
def test_a_parameter_that_sends_the_log_elsewhere_is_refused_beside_json(name: str) -> None:
    """Where the rules of the CRD were taken away, the operator says it."""
    world = with_database()
    world.api.edit(CR, {"spec": {"logging": JSON, "parameters": {name: "x"}}})
    world.settle()
    condition = ready(world)
    assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
    assert f"spec.parameters.{name} says where the log goes" in condition["message"]
    world.api.edit(CR, {"spec": {"logging": TEXT}})
    world.settle()
    assert ready(world)["reason"] != "InvalidSpec"

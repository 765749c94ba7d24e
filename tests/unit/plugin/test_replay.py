"""`kubectl kindling replay` writes one moment, which it was given or which is so long ago."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from kubectl_kindling import cli
from kubectl_kindling.commands import replay
from kubectl_kindling.errors import FAILED, FINE, USAGE, PluginError

from tests.unit.plugin.fake_kubectl import FakeKubectl
from tests.unit.plugin.recordings import Object
from tests.unit.plugin.test_commands import error, patched
from tests.unit.plugin.test_dead_letters import TYPE

Printed = pytest.CaptureFixture[str]
NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)


def consumer(**spec: Any) -> Object:
    return {
        "apiVersion": "pulsar.pulsarconsumer.krvarma.com/v1",
        "kind": "PulsarConsumer",
        "metadata": {"name": "orders", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"topic": "orders", "subscriptionName": "workers", "adminURL": "http://broker:8080", **spec},
        "status": {"conditions": []},
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("2026-11-24T06:45:00Z", "2026-11-24T06:45:00Z"),
        ("2026-11-24T07:45:00+01:00", "2026-11-24T06:45:00Z"),
        ("2026-11-24T06:45:00.5Z", "2026-11-24T06:45:00.500000Z"),
        ("2h", "2026-11-24T06:00:00Z"),
        ("90s", "2026-11-24T07:58:30Z"),
        ("1d", "2026-11-23T08:00:00Z"),
    ],
)
def test_a_moment_is_a_time_with_its_zone_or_an_age(given: str, wanted: str) -> None:
    assert replay.moment(given, now=NOW) == wanted


@pytest.mark.parametrize(
    "given",
    [
        "",
        "yesterday",
        "2026-11-24T06:45:00",
        "2026-11-24T08:00:01Z",
        "2w",
        "-1h",
        "999999d",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_what_is_none_is_a_usage_error(given: str) -> None:
    with pytest.raises(PluginError) as found:
        replay.moment(given, now=NOW)
    assert found.value.status == USAGE
    assert repr(given) in str(found.value)


def test_of_a_pattern_nothing_is_replayed(kubectl: FakeKubectl, capsys: Printed) -> None:
    found = consumer(topicsPattern="persistent://a/b/c.*")
    del found["spec"]["topic"]
    kubectl.has(TYPE, "orders", one=found)
    assert cli.run(["replay", "orders", "--from", "2026-11-24T06:45:00Z", "--yes"]) == FAILED
    assert "spec.topicsPattern names no topic" in " ".join(capsys.readouterr().err.split())
    assert kubectl.commands("patch") == []


def test_all_topics_that_begin_again_are_named(kubectl: FakeKubectl, capsys: Printed) -> None:
    found = consumer(topics=["a", "b"])
    del found["spec"]["topic"]
    kubectl.has(TYPE, "orders", one=found)
    kubectl.say("patch")
    assert cli.run(["replay", "orders", "--from", "2026-11-24T06:45:00Z", "--yes"]) == FINE
    assert "published to topics a, b from 2026-11-24" in " ".join(capsys.readouterr().out.split())


def test_it_sets_the_field_and_says_which_messages_come_again(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has(TYPE, "orders", one=consumer())
    kubectl.say("patch")
    assert cli.run(["replay", "orders", "--from", "2026-01-01T00:00:00Z", "--yes"]) == FINE
    assert patched(kubectl) == [{"spec": {"replay": {"from": "2026-01-01T00:00:00Z"}}}]
    printed = " ".join(capsys.readouterr().out.split())
    assert "published to topic orders from 2026-01-01T00:00:00Z on" in printed
    assert "may set spec.replay back" in printed


def test_a_moment_that_is_there_is_not_written_again(kubectl: FakeKubectl) -> None:
    kubectl.has(TYPE, "orders", one=consumer(replay={"from": "2026-01-01T00:00:00Z"}))
    assert cli.run(["replay", "orders", "--from", "2026-01-01T00:00:00Z", "--yes"]) == FINE
    assert kubectl.commands("patch") == []


def test_without_an_admin_api_nothing_is_written(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.has(TYPE, "orders", one=consumer(adminURL=None))
    assert cli.run(["replay", "orders", "--from", "1h", "--yes"]) == FAILED
    assert "spec.adminURL is not set" in error(capsys)
    assert kubectl.commands("patch") == []

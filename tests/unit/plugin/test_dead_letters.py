"""`dead-letters` and `redrive`: what a consumer's container is asked, and what is printed of its answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from kubectl_kindling import cli
from kubectl_kindling.errors import FAILED, FINE, USAGE

from tests.unit.plugin.fake_kubectl import FakeKubectl

TYPE = "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com"
MODULE = ["python3", "-m", "pulsar_consumer.dead_letters"]
Printed = pytest.CaptureFixture[str]


def serve(
    kubectl: FakeKubectl,
    *,
    dead_letter: str | None = "dead",
    keep: bool = True,
    replicas: int = 1,
    **topics: Any,
) -> None:
    spec: dict[str, Any] = topics or {"topic": "orders-in"}
    if dead_letter:
        spec["deadLetter"] = {"topic": dead_letter, "keep": keep}
    consumer = {
        "apiVersion": "pulsar.pulsarconsumer.krvarma.com/v1",
        "kind": "PulsarConsumer",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": spec,
        "status": {"replicas": replicas},
    }
    kubectl.has(TYPE, "orders", one=consumer)


def answer(kubectl: FakeKubectl, *letters: dict[str, Any], sent: int = 0) -> None:
    lines = [*letters, {"found": len(letters), "sent": sent}]
    kubectl.say("exec", stdout="".join(f"{json.dumps(line)}\n" for line in lines))


def letter(number: int, error: str = "ValueError: two") -> dict[str, Any]:
    return {
        "id": f"5:{number}:-1", "reason": "MaxDeliveries", "error": error, "deliveries": "3",
        "origin": "1:1:-1", "key": "", "publishTime": int((time.time() - 180) * 1000), "size": 7,
        "payload": "hello 2",
    }  # fmt: skip


def inside(kubectl: FakeKubectl) -> list[str]:
    (words,) = kubectl.commands("exec")
    assert words[:4] == ["exec", "--namespace=shop", "deployment/orders-deployment", "--container=consumer"]
    assert words[4] == "--"
    return words[5:]


def test_they_are_shown_with_why_and_how_often(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    answer(kubectl, letter(1), letter(2, "a\x1b[31m\nword"))
    assert cli.run(["dead-letters", "orders"]) == FINE
    assert inside(kubectl) == [*MODULE, "list", "--most=100"]
    header, first, second, *rest = capsys.readouterr().out.splitlines()
    assert header.split() == ["ID", "REASON", "DELIVERIES", "AGE", "BYTES", "ERROR"]
    assert first.split() == ["5:1:-1", "MaxDeliveries", "3", "3m", "7", "ValueError:", "two"]
    assert "\x1b" not in second
    assert "`kubectl kindling redrive orders` sends them back to topic orders-in." in " ".join(rest)


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ({"topics": ["a", "b"]}, "the topic of each, of topics a, b"),
        ({"topics": ["a", "b", "c", "d", "e"]}, "the topic of each, of topics a, b, c and 2 more"),
        (
            {"topicsPattern": "persistent://x/y/z.*"},
            "the topic of each, of the topics that match persistent://x/y/z.*",
        ),
    ],
)
def test_of_several_topics_each_has_its_own_and_goes_back_there(
    kubectl: FakeKubectl, capsys: Printed, topics: dict[str, Any], words: str
) -> None:
    serve(kubectl, **topics)
    answer(kubectl, letter(1) | {"topic": "persistent://public/default/b"})
    assert cli.run(["dead-letters", "orders"]) == FINE
    header, first, *rest = capsys.readouterr().out.splitlines()
    assert header.split() == ["ID", "REASON", "DELIVERIES", "AGE", "BYTES", "TOPIC", "ERROR"]
    assert first.split()[5:7] == ["persistent://public/default/b", "ValueError:"]
    assert f"`kubectl kindling redrive orders` sends them back to {words}." in " ".join(
        " ".join(rest).split()
    )


def test_as_json_they_have_what_is_in_them(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    answer(kubectl, letter(1))
    assert cli.run(["dead-letters", "orders", "--reason", "Rejected", "--most", "5", "-o", "json"]) == FINE
    assert inside(kubectl) == [*MODULE, "list", "--most=5", "--reason=Rejected"]
    found = json.loads(capsys.readouterr().out)
    assert found["topic"] == "dead"
    assert [each["payload"] for each in found["deadLetters"]] == ["hello 2"]


def test_where_there_are_none_it_says_so(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    answer(kubectl)
    assert cli.run(["dead-letters", "orders"]) == FINE
    assert capsys.readouterr().out == "PulsarConsumer orders has no dead letters in topic dead.\n"


def test_that_there_may_be_more_is_said(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    answer(kubectl, letter(1), letter(2))
    assert cli.run(["dead-letters", "orders", "--most", "2"]) == FINE
    assert "These are the first 2; --most shows more" in capsys.readouterr().out


def test_all_are_sent_back_once_somebody_says_yes(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    answer(kubectl, letter(1), letter(2), sent=2)
    assert cli.run(["redrive", "orders"]) == USAGE
    assert kubectl.commands("exec") == []
    assert cli.run(["redrive", "orders", "--yes"]) == FINE
    assert inside(kubectl) == [*MODULE, "redrive", "--most=1000000000"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "Every subscription of topic orders-in gets what is sent back" in printed
    assert printed.endswith("Sent back: 2.")


@pytest.mark.parametrize("words", [("dead-letters", "orders"), ("redrive", "orders", "--yes")], ids=str)
@pytest.mark.parametrize(
    ("served", "said"),
    [
        ({"dead_letter": None}, "has no topic for dead letters"),
        ({"keep": False}, "spec.deadLetter.keep is false"),
        ({"replicas": 0}, "set spec.replicas to 1 or more"),
    ],
)
def test_what_cannot_be_asked_for_is_said(
    words: tuple[str, ...], served: dict[str, Any], said: str, kubectl: FakeKubectl, capsys: Printed
) -> None:
    serve(kubectl, **served)
    assert cli.run(list(words)) == FAILED
    assert said in capsys.readouterr().err
    assert kubectl.commands("exec") == []


def test_what_the_container_says_is_said(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    kubectl.say(
        "exec", stderr="SubscriptionBusy: another reader looks at the dead letters of dead now", status=1
    )
    assert cli.run(["dead-letters", "orders"]) == FAILED
    assert "another reader looks at the dead letters" in " ".join(capsys.readouterr().err.split())


def test_another_output_than_dead_letters(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    kubectl.say("exec", stdout="hello\n")
    assert cli.run(["dead-letters", "orders"]) == FAILED
    assert "its image may be of another release" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("most", ["0", "-1", "x"])
def test_how_many_is_a_number(most: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.run(["dead-letters", "orders", "--most", most])
    assert ended.value.code == USAGE

"""`dead-letters` and `redrive`: what a PulsarConsumer gave up, and back to its topic with it.

By `kubectl exec` into a consumer's container, which has the broker's address, the token and the client.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kubectl_kindling import facts, kinds, resources, table, topics
from kubectl_kindling.arguments import Command
from kubectl_kindling.commands.server import say
from kubectl_kindling.confirmation import confirm
from kubectl_kindling.errors import FAILED, FINE, PluginError
from kubectl_kindling.failures import error_of
from kubectl_kindling.kubectl import Kubectl, Object

KIND = "PulsarConsumer"
CONTAINER = "consumer"
MODULE = "pulsar_consumer.dead_letters"
SECONDS = 1800.0
"""For all that is sent back."""
ALL = 10**9


def show(command: Command, kubectl: Kubectl) -> int:
    """Raises `PluginError` where there is no topic for them, or no consumer that could be asked."""
    resource, topic = _find(command, kubectl)
    most = command.most or 100
    letters, _ = _ask(command, kubectl, resource, "list", most)
    if command.json:
        print(json.dumps({"topic": topic, "deadLetters": letters}, indent=2))
        return FINE
    name = facts.name_of(resource)
    if not letters:
        say(f"{KIND} {name} has no dead letters in topic {topic}.")
        return FINE
    now = datetime.now(UTC)
    headers: tuple[str, ...] = ("ID", "REASON", "DELIVERIES", "AGE", "BYTES", "ERROR")
    rows: list[tuple[Any, ...]] = [
        (each["id"], each["reason"], each["deliveries"], _age(each, now), each["size"], each["error"])
        for each in letters
    ]
    if topics.are_several(_spec(resource)):
        # Last but one: what an error says has blanks.
        headers = (*headers[:-1], "TOPIC", headers[-1])
        rows = [(*row[:-1], each.get("topic", ""), row[-1]) for row, each in zip(rows, letters, strict=True)]
    print("\n".join(table.columns(headers, rows)))
    print()
    if len(letters) == most:
        say(f"These are the first {most}; --most shows more, and -o json what is in them.")
    say(f"`kubectl kindling redrive {name}` sends them back to {topics.back(_spec(resource))}.")
    return FINE


def redrive(command: Command, kubectl: Kubectl) -> int:
    """Each is sent before it is acknowledged as a dead letter: interrupted, it can be there twice."""
    resource, topic = _find(command, kubectl)
    name, back = facts.name_of(resource), topics.back(_spec(resource))
    what = f"dead letters with the reason {command.reason}" if command.reason else "dead letters"
    say(f"Every subscription of {back} gets what is sent back, not {KIND} {name} alone.")
    confirm(f"Send {what} of {KIND} {name} back from topic {topic} to {back}?", yes=command.yes)
    _, end = _ask(command, kubectl, resource, "redrive", command.most or ALL)
    say(f"Sent back: {end.get('sent', 0)}.")
    return FINE


def _find(command: Command, kubectl: Kubectl) -> tuple[Object, str]:
    _, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), KIND, command.target)
    name = facts.name_of(resource)
    dead_letter = _spec(resource).get("deadLetter") or {}
    topic = dead_letter.get("topic")
    if topic and dead_letter.get("keep") is False:
        raise PluginError(
            f"the dead letters of {KIND} {name} are not kept",
            why="spec.deadLetter.keep is false: whoever reads the topic has them",
            remedy=f"read topic {topic}, or leave keep out, which is for dead letters to come.",
            status=FAILED,
        )
    if not topic:
        raise PluginError(
            f"{KIND} {name} has no topic for dead letters",
            why="without spec.deadLetter nothing is given up: each message is retried",
            remedy="set spec.deadLetter.topic.",
            status=FAILED,
        )
    if not facts.status_of(resource).get("replicas"):
        raise PluginError(
            f"{KIND} {name} has no consumer that could be asked",
            why=facts.ready(resource).message or "it has no Pods",
            remedy="set spec.replicas to 1 or more.",
            status=FAILED,
        )
    return resource, str(topic)


def _ask(
    command: Command, kubectl: Kubectl, resource: Object, action: str, most: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the consumer's container prints: the dead letters, and how many there were."""
    words = [
        "exec", f"--namespace={facts.namespace_of(resource)}",
        f"deployment/{facts.name_of(resource)}-deployment", f"--container={CONTAINER}", "--",
        "python3", "-m", MODULE, action, f"--most={most}",
    ]  # fmt: skip
    if command.reason:
        words.append(f"--reason={command.reason}")
    done = kubectl.ask(*words, seconds=SECONDS)
    if done.status != 0:
        raise error_of(tuple(words[:3]), done.status, done.stderr)
    try:
        *letters, end = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError:
        raise PluginError(
            "the consumer's container printed something else than dead letters",
            why=table.plain(done.stdout)[:200] or "it printed nothing",
            remedy="its image may be of another release: `kubectl kindling version` shows them.",
            status=FAILED,
        ) from None
    return letters, end


def _age(letter: dict[str, Any], now: datetime) -> str:
    at = datetime.fromtimestamp(int(letter.get("publishTime") or 0) / 1000, UTC)
    return facts.duration(max(0, int((now - at).total_seconds())))


def _spec(resource: Object) -> dict[str, Any]:
    return resource.get("spec") or {}

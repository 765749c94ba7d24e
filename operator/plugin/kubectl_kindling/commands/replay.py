"""`replay`: messages that a PulsarConsumer has had since a moment come again, as `spec.replay` has it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kubectl_kindling import facts, gitops, kinds, resources, topics
from kubectl_kindling.arguments import Command
from kubectl_kindling.commands.server import merge, say
from kubectl_kindling.confirmation import confirm
from kubectl_kindling.errors import FAILED, FINE, USAGE, PluginError
from kubectl_kindling.kubectl import Kubectl

KIND = "PulsarConsumer"
_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def run(command: Command, kubectl: Kubectl) -> int:
    """Sets spec.replay.from, and nothing where it has that moment."""
    since = moment(command.since, now=datetime.now(UTC))
    type, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), KIND, command.target)
    name, namespace = facts.name_of(resource), facts.namespace_of(resource)
    spec = resource.get("spec") or {}
    subscription = spec.get("subscriptionName")
    if spec.get("topicsPattern"):
        raise PluginError(
            f"{KIND} {name} cannot replay; nothing was changed",
            why="spec.topicsPattern names no topic, and a replay is done topic by topic",
            remedy="name the topics in spec.topics.",
            status=FAILED,
        )
    if not spec.get("adminURL"):
        raise PluginError(
            f"{KIND} {name} cannot replay; nothing was changed",
            why="spec.adminURL is not set, and only the broker's admin API can set a subscription back",
            remedy="set it.",
            status=FAILED,
        )
    if (spec.get("replay") or {}).get("from") == since:
        say(f"spec.replay.from of {KIND} {name} is {since} already; nothing was changed.")
        return FINE
    say(
        f"Subscription {subscription} begins again with what was published to {topics.words(spec)} from "
        f"{since} on, as far as the broker still has it: its consumers get messages again that they "
        "have handled.",
        gitops.note(resource, field="spec.replay"),
    )
    confirm(f"Replay {KIND} {name} in namespace {namespace} from {since}?", yes=command.yes)
    merge(kubectl, type, resource, {"spec": {"replay": {"from": since}}})
    say(
        f"Requested. `kubectl wait {type.full}/{name} --namespace {namespace} --for=condition=Replayed` "
        "waits for the broker."
    )
    return FINE


def moment(text: str, *, now: datetime) -> str:
    """The moment in UTC, of a time with its zone or of an age such as 2h.

    :raises PluginError: when it is neither, or one that is later than `now`.
    """
    found = _moment(text, now=now)
    if found is None:
        raise PluginError(
            f"--from {text!r} is no moment",
            why="it is neither a time with its zone nor an age",
            remedy="write 2026-11-24T06:45:00Z, or 2h for two hours ago.",
            status=USAGE,
        )
    if found > now:
        raise PluginError(
            f"--from {text!r} is yet to come",
            why="the subscription would skip all that waits",
            remedy="name a moment that has passed; to skip messages, edit spec.replay.from.",
            status=USAGE,
        )
    return found.replace(tzinfo=None).isoformat() + "Z"


def _moment(text: str, *, now: datetime) -> datetime | None:
    """In UTC; None for what is neither, and for what is before the calendar begins."""
    try:
        if age := _AGE.fullmatch(text):
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None

"""Which topics are read: one, several by name, or those of a namespace that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pulsar_consumer.errors import BadSetting

SHARE = 10
"""How many topics a pattern is expected to match, as far as memory is concerned."""
_DOMAIN = "persistent://"


@dataclass(frozen=True, kw_only=True)
class Topics:
    """`names` as they were given, or a `pattern`."""

    names: tuple[str, ...] = ()
    pattern: str = ""

    @staticmethod
    def load(env: Mapping[str, str]) -> Topics:
        """:raises BadSetting: unless exactly one of the three variables is set, to what can be used."""
        found = {
            name: value
            for name in ("PULSAR_TOPIC", "PULSAR_TOPICS", "PULSAR_TOPICS_PATTERN")
            if (value := env.get(name, ""))
        }
        if not found:
            raise BadSetting(
                "PULSAR_TOPIC='': it must be set, or PULSAR_TOPICS or PULSAR_TOPICS_PATTERN in its place"
            )
        if len(found) > 1:
            raise BadSetting(f"{' and '.join(found)}: set one of them alone")
        [(name, value)] = found.items()
        if name == "PULSAR_TOPIC":
            return Topics(names=(value,))
        if name == "PULSAR_TOPICS":
            # The client leaves a consumer behind for a topic that is named twice.
            names: dict[str, str] = {}
            for each in filter(None, value.split(" ")):
                names.setdefault(plain(each), each)
            return Topics(names=tuple(names.values()))
        if not value.startswith(_DOMAIN) or value.count("/") != 4:
            words = "set it to persistent://TENANT/NAMESPACE/PATTERN"
            raise BadSetting(f"PULSAR_TOPICS_PATTERN={value!r}: {words}")
        try:
            re.compile(value)
        except re.error as error:
            words = f"it is no regular expression: {error}"
            raise BadSetting(f"PULSAR_TOPICS_PATTERN={value!r}: {words}") from None
        return Topics(pattern=value)

    @property
    def several(self) -> bool:
        return len(self.names) != 1

    @property
    def to_subscribe(self) -> str | list[str] | re.Pattern[str]:
        """What the client takes. One topic alone stays one, as it was before there were several."""
        if self.pattern:
            return re.compile(self.pattern)
        return list(self.names) if self.several else self.names[0]

    @property
    def given(self) -> list[str]:
        """As they were given, the pattern as one."""
        return list(self.names) or [self.pattern]

    def prefetch(self, messages: int) -> int:
        """Of each topic, where so many are to be held of all: the client has a queue for each."""
        return max(1, messages // (SHARE if self.pattern else len(self.names)))

    def name_of(self, topic: str) -> str | None:
        """By which name messages are sent to this topic, which may be a partition; None if it is not read."""
        wanted = plain(topic)
        if self.pattern:
            matches = self._expression.fullmatch(wanted) and not topic.startswith("non-persistent:")
            return _DOMAIN + wanted if matches else None
        return self._by_plain.get(wanted)

    @cached_property
    def _by_plain(self) -> dict[str, str]:
        return {plain(name): name for name in self.names}

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern.removeprefix(_DOMAIN), re.ASCII)


def plain(topic: str) -> str:
    """TENANT/NAMESPACE/TOPIC, of a partition too."""
    rest = topic.partition("://")[2] or topic
    name, _, number = rest.rpartition("-partition-")
    rest = name if name and number.isdecimal() else rest
    return rest if "/" in rest else f"public/default/{rest}"

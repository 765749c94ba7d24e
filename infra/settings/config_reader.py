"""Where a stack's settings come from, as text by key, and what is said of one that is wrong.

Apart from `settings`, which knows what each key means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from infra.errors import KindlingError
from infra.project import PROJECT
from infra.settings import validators

Value = TypeVar("Value")
Get = Callable[[str], str | None]


class ConfigReader:
    """Reads values and names key, value, stack and what is allowed when one is wrong."""

    def __init__(self, get: Get, *, stack: str, default: Get) -> None:
        self._get, self._stack, self._default = get, stack, default

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        return self.parsed(key, lambda text: text if text in allowed else None, ", ".join(allowed))

    def enabled(self, key: str) -> bool:
        return self.one_of(key, ("true", "false")) == "true"

    def number(self, key: str, least: int, most: int) -> int:
        def parse(text: str) -> int | None:
            value = validators.whole(text)
            return value if value is not None and least <= value <= most else None

        return self.parsed(key, parse, f"a whole number from {least} to {most}")

    def parsed(self, key: str, parse: Callable[[str], Value | None], allowed: str) -> Value:
        text = self._get(key)
        value = None if text is None else parse(text)
        if value is None:
            self.wrong(key, allowed)
        return value

    def wrong(self, key: str, allowed: str) -> NoReturn:
        """Raise the error for what the key is set to, or not set to."""
        text = self._get(key)
        unset = text is None or text == self._default(key) == ""
        state = "is not set" if unset else f"cannot be `{text}`"
        raise KindlingError(
            f"{PROJECT}:{key} of stack `{self._stack}` {state}",
            why=f"allowed: {allowed}",
            remedy=f"set it in Pulumi.{self._stack}.yaml.",
        )

    def refuse(self, keys: Sequence[str], *, where: str) -> None:
        """Raise for the first of the keys that is set, to something else than its default."""
        for key in keys:
            if self._get(key) not in (None, self._default(key)):
                raise KindlingError(
                    f"{PROJECT}:{key} of stack `{self._stack}` means nothing here",
                    why=where,
                    remedy=f"remove it from Pulumi.{self._stack}.yaml.",
                )

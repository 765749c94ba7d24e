"""An HTTP request to a member, as a probe or an external action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LONGEST_BODY = 4096
"""Characters of an answer that are kept; more than that, and the rest is not read."""


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """A request without credentials. `ok` is an answer with a status below 400.

    The facts of a result are `status`, a number, and `body`, text.
    """

    namespace: str
    host: str
    port: int
    pod: str = ""
    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET"
    path: str = "/"

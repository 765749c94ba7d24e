"""An HTTP request to a member, as a probe or an external action."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from kindling.kinds.base import ExternalResult
from kindling.kube.resources import Object

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


def answered(result: ExternalResult) -> Object | None:
    """The JSON object of an answer, whatever is in it; None where it is none."""
    try:
        found = json.loads(result.facts["body"]) if result.ok else None
    except (ValueError, LookupError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

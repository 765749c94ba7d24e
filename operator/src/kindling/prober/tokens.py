"""Access tokens that workers got, for as long as they are good: issuers count, and some bill, each.

A worker has one job and ends; so its answer brings the token, and the pool keeps it for the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer.backlog import SubscriptionRequest
from kindling.prober.jobs import Job

TOKEN = "token"
"""Of a request's `oauth2`: the token, where there is one."""
ANSWER = "access_token"
"""Of a worker's answer, beside the result: the token, and for how many seconds it is good."""
LONGEST_TOKEN = 2**14
MOST = 1024
USED_FOR = 0.8
"""Of a token's life."""


class TokenCache:
    """By everything that a token was asked for with, the client's secret included."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: dict[tuple[tuple[str, str], ...], tuple[str, float]] = {}

    def with_token(self, job: Job) -> Job:
        """The job with a token, where it needs one and there is one."""
        request = job.request
        if not isinstance(request, SubscriptionRequest) or not request.oauth2:
            return job
        token, until = self._tokens.get(_key(request), ("", 0.0))
        if self._clock() >= until:
            self._tokens.pop(_key(request), None)
            return job
        return replace(job, request=replace(request, oauth2={**request.oauth2, TOKEN: token}))

    def keep(self, job: Job, line: bytes, result: ExternalResult) -> None:
        """What a worker's answer brings; a token that was refused is forgotten."""
        request = job.request
        if not isinstance(request, SubscriptionRequest) or not request.oauth2:
            return
        key = _key(request)
        if result.reason == reasons.NOT_AUTHORIZED:
            self._tokens.pop(key, None)
        elif (found := _token_in(line)) is not None:
            token, seconds = found
            while len(self._tokens) >= MOST:
                self._tokens.pop(next(iter(self._tokens)))
            self._tokens[key] = token, self._clock() + USED_FOR * seconds


def _key(request: SubscriptionRequest) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in request.oauth2.items() if name != TOKEN))


def _token_in(line: bytes) -> tuple[str, int] | None:
    try:
        answer: Any = orjson.loads(line)
        token, seconds = answer[ANSWER]
    except (ValueError, TypeError, LookupError):
        return None
    good = isinstance(token, str) and len(token) <= LONGEST_TOKEN and type(seconds) is int and seconds > 0
    return (token, seconds) if good else None

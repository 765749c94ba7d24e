"""GitHub's REST API as far as the workflows call it, on the loopback: comments of pull requests.

Whoever calls has the token of a job, and that job's rights. What is not known here is refused by name.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

MOST_CHARACTERS = 65_536
BOT = {"login": "github-actions[bot]", "type": "Bot"}
_OF_ISSUE = re.compile(r"/repos/([^/]+/[^/]+)/issues/(\d+)/comments")
_ONE = re.compile(r"/repos/([^/]+/[^/]+)/issues/comments/(\d+)")


@dataclass
class GitHub:
    """`comments` are those of each issue or pull request, by its number; `rights` those of each token."""

    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    rights: dict[str, Mapping[str, str]] = field(default_factory=dict)
    url: str = ""

    def say(self, number: int, body: str, *, user: Mapping[str, str] | None = BOT) -> None:
        """A comment that is there; one whose author's account is deleted has no user."""
        made = sum(len(comments) for comments in self.comments.values())
        self.comments.setdefault(number, []).append({"id": made + 1, "user": user, "body": body})

    def answer(self, method: str, target: str, token: str, content: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers."""
        parts = urlsplit(target)
        if token not in self.rights:
            return 401, {"message": "Bad credentials"}, {}
        needed = ("read", "write") if method == "GET" else ("write",)
        rights = self.rights[token]
        if not {rights.get("issues"), rights.get("pull-requests")} & set(needed):
            return 403, {"message": "Resource not accessible by integration"}, {}
        if method != "GET" and len(content["body"]) > MOST_CHARACTERS:
            return 422, {"message": f"Body is too long (maximum is {MOST_CHARACTERS} characters)"}, {}
        if match := _OF_ISSUE.fullmatch(parts.path):
            number = int(match[2])
            if method == "POST":
                self.say(number, content["body"])
                return 201, self.comments[number][-1], {}
            return self._page(
                number, {key: int(each[0]) for key, each in parse_qs(parts.query).items()}, parts
            )
        if method == "PATCH" and (match := _ONE.fullmatch(parts.path)):
            for comment in (each for comments in self.comments.values() for each in comments):
                if comment["id"] == int(match[2]):
                    comment["body"] = content["body"]
                    return 200, comment, {}
        return 404, {"message": f"Not Found: {method} {parts.path}"}, {}

    def _page(self, number: int, query: Mapping[str, int], parts: Any) -> tuple[int, Any, dict[str, str]]:
        size, page = query.get("per_page", 30), query.get("page", 1)
        found = self.comments.get(number, [])
        more = f'<{self.url}{parts.path}?per_page={size}&page={page + 1}>; rel="next"'
        headers = {"Link": more} if len(found) > size * page else {}
        return 200, found[size * (page - 1) : size * page], headers


@contextmanager
def served() -> Iterator[GitHub]:
    """One that answers until the end of this."""
    github = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(length)) if length else None
            token = self.headers.get("Authorization", "").partition(" ")[2]
            status, answer, headers = github.answer(self.command, self.path, token, content)
            body = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json; charset=utf-8",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, *_: Any) -> None:
            """Nothing on the tests' own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()

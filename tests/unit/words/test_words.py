"""Names, messages and documents use the glossary's terms: one word for one thing, and no private vocabulary.

`CODE` and `DOCUMENTS` list the covered files; add what has been cleaned, and never remove anything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from infra.paths import REPOSITORY

OPERATOR = Path("operator/src/kindling")
CODE = (
    OPERATOR,
    Path("infra"),
    Path("bench"),
    Path("tests"),
    Path("selftest"),
    Path("operator/images"),
    Path("operator/plugin"),
    Path("operator/client"),
)
"""Folders whose identifiers, messages, docstrings and comments are covered."""
EXCEPT = (Path("tests/unit/words"),)  # It holds the words.
DOCUMENTS = (
    *(
        Path(name)
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
            "tests/README.md",
            "bench/README.md",
        )
    ),
    # Decisions keep the words of their time.
    *sorted(
        path.relative_to(REPOSITORY) for path in REPOSITORY.glob("docs/*.md") if path.stem != "decisions"
    ),
    *sorted(path.relative_to(REPOSITORY) for path in REPOSITORY.glob("docs/[gr]*/*.md")),
)

INSTEAD = {
    "anew": "again",
    "deaf": "stalled",
    "ghost": "missed delete",
    "ghosts": "missed deletes",
    "glue": "KopfWatcher",
    "grave": "tombstone",
    "graves": "tombstones",
    "heard": "last_result",
    "inquire": "probe",
    "inquiry": "probe",
    "memo": "cache_key",
    "mend": "fix",
    "mended": "fixed",
    "mends": "fixes",
    "obstacle": "problem",
    "patience": "deadline, or a name of its own for what is waited for",
    "room": "kind package",
    "rooms": "kinds_by_name",
    "seek": "watch",
    "seekers": "watchers",
    "seeks": "watched_objects",
    "sight": "watch",
    "sights": "watches",
    "sought": "watched",
    "story": "scenario",
    "tell": "report",
    "tells": "reports",
    "told": "reported",
    "tunneled": "port-forwarded",
}
"""Words that are not used, by what is used for the thing."""
OF_THE_LIBRARY = {"seek", "tell", "SEEK_END"}
"""Names of Python's files and of `io`."""
PHRASES = {
    "can not": "cannot",
    "is to be had": "is available",
    "be had": "be obtained",
    "made anew": "created again",
    "somebody else": "another writer",
    "tried again": "retried",
    "taken up": "observed",
    "gone well": "succeeded",
}
"""The same for more than one word, in messages and documents."""
CLASSES = {
    "After": "RequeueAfter",
    "Answer": "ExternalResult",
    "ExternalSync": "ExternalAction, Probe",
    "Findings": "SyncResult",
    "Follower": "Reflector",
    "Gone": "ResourceDeleted",
    "Inquiry": "Probe",
    "Invalid": "Terminal",
    "Lease": "LeaderElector",
    "Outcome": "Result",
    "Ports": "Dependencies",
    "Refused": "Rejected",
    "Report": "StatusReport",
    "Sought": "WatchedObject",
    "Tunnel": "PortForwarder",
}
"""Classes that had another name: one term per concept."""
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _files(places: tuple[Path, ...]) -> Iterator[Path]:
    for place in places:
        path = REPOSITORY / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if not any(file.is_relative_to(REPOSITORY / left_out) for left_out in EXCEPT):
                yield file


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case (
                ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name))
            ):
                yield node.lineno, name
            case ast.alias(name=name):
                yield node.lineno, name.rpartition(".")[2]


def _docstrings(tree: ast.Module) -> set[int]:
    """The ids of the constants that are statements: docstrings, also those of variables."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    skipped = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


@cache
def wrong_in_name(name: str) -> list[str]:
    if name in OF_THE_LIBRARY:
        return []
    parts = [part.lower() for part in _PART.findall(name)]
    return [f"{name}: say {INSTEAD[part]}" for part in parts if part in INSTEAD] + (
        [f"{name}: it is {CLASSES[name]}"] if name in CLASSES else []
    )


def wrong_in_text(text: str) -> list[str]:
    """In prose; what is quoted as code is not ours to choose."""
    prose = re.sub(r"`[^`]*`|\.(seek|tell)\(|\bio\.SEEK_END\b", "", text)
    found = [word for word in re.findall(r"[A-Za-z]+", prose) if word.lower() in INSTEAD]
    phrases = [phrase for phrase in PHRASES if re.search(rf"\b{phrase}\b", prose, flags=re.IGNORECASE)]
    return [f"{word!r}: say {INSTEAD[word.lower()]!r}" for word in found] + [
        f"{phrase!r}: say {PHRASES[phrase]!r}" for phrase in phrases
    ]


def test_identifiers_use_the_terms() -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line}: {why}"
        for path in _files(CODE)
        for line, name in _identifiers(_tree(path))
        for why in wrong_in_name(name)
    ]
    assert sorted(set(wrong)) == []


def test_files_are_named_by_the_terms() -> None:
    assert [why for path in _files(CODE) for why in wrong_in_name(path.stem)] == []


def test_messages_use_the_terms() -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line}: {why}"
        for path in _files(CODE)
        for line, text in _messages(_tree(path))
        for why in wrong_in_text(text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "place", [*(path.relative_to(REPOSITORY) for path in _files(CODE)), *DOCUMENTS], ids=str
)
def test_documents_docstrings_and_comments_use_the_terms(place: Path) -> None:
    lines = (REPOSITORY / place).read_text().splitlines()
    assert [f"{number}: {why}" for number, line in enumerate(lines, 1) for why in wrong_in_text(line)] == []


def test_the_glossary_is_in_order_and_each_term_has_a_sentence() -> None:
    text = (REPOSITORY / "docs/glossary.md").read_text()
    rows = re.findall(r"^\| ([^|`-][^|]*) \| ([^|]+) \| ([^|]*)\|$", text, flags=re.MULTILINE)[1:]
    terms = [term for term, _, _ in rows]
    assert len(terms) > 24
    assert len(set(terms)) == len(terms)
    assert terms == sorted(terms, key=str.lower)
    for term, meaning, _ in rows:
        assert meaning.endswith("."), term
        assert term.lower() not in INSTEAD


def test_a_wrong_word_is_found_wherever_it_stands() -> None:
    assert wrong_in_name("_last_heard") == ["_last_heard: say last_result"]
    assert wrong_in_name("RoomsByName") == ["RoomsByName: say kinds_by_name"]
    assert wrong_in_name("Findings") == ["Findings: it is SyncResult"]
    assert wrong_in_name("watches") == []
    assert wrong_in_text("Mend it; it can not be had.") == [
        "'Mend': say 'fix'", "'can not': say 'cannot'", "'be had': say 'be obtained'"
    ]  # fmt: skip
    assert wrong_in_text("the annotation `kindling.dev/told` stays") == []

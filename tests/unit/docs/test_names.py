"""Each name in CamelCase that a document quotes exists: a reason, a condition, a class, an alert, a value.

A reason of before, say, sends its reader on a search that ends nowhere.
"""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import pytest

from infra import yaml_text
from tests.unit.docs.pages import DOCS

REPOSITORY = Path(__file__).parents[3]
PAGES = [
    REPOSITORY / "README.md",
    *(path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "decisions"),
]
NAME = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`")
SOURCES = ("crds", "infra", "integrations", "operator", "tests/authority.py", "tests/issuer.py")
OF_OTHERS = frozenset(
    {
        # Kubernetes
        "WaitForFirstConsumer",
        # client-go
        "DeletedFinalStateUnknown",
        "GroupKind",
        "HasSynced",
        # controller-runtime
        "TerminalError",
        # Crossplane's runtime
        "ExternalClient",
    }
)


def known() -> set[str]:
    found = set(dir(builtins))
    for file in (REPOSITORY / "crds").glob("*.yaml"):
        kind = yaml_text.load(file.read_text())["spec"]["names"]["kind"]
        found |= {f"{kind}Spec", f"{kind}Status"}  # the typed models, which are generated
    for name in SOURCES:
        place = REPOSITORY / name
        files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
        for file in files:
            if file.suffix in (".py", ".yaml", ".lua", ".json", ".go", ".md"):
                found.update(re.findall(r"\b[A-Z][a-zA-Z]+\b", file.read_text()))
    return found


@pytest.fixture(scope="module")
def names() -> set[str]:
    return known()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_quoted_name_exists(page: Path, names: set[str]) -> None:
    assert set(NAME.findall(page.read_text())) - names - OF_OTHERS == set()


def test_what_is_of_others_is_quoted_and_not_ours(names: set[str]) -> None:
    quoted = {name for page in PAGES for name in NAME.findall(page.read_text())}
    assert quoted - names >= OF_OTHERS


def test_a_reason_of_before_is_found(names: set[str]) -> None:
    assert {"InLine", "LineHalted"}.isdisjoint(names)

"""The site is built of every page, strictly, and its pages load nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from infra import bootstrap
from infra.paths import REPOSITORY
from tests.unit.docs.pages import DOCS, text

REQUIREMENTS = "requirements-docs.txt"
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    python = bootstrap.virtualenv.ensure(REQUIREMENTS)
    done = subprocess.run(
        # Not --quiet: with it, warnings do not count.
        [python, "-m", "mkdocs", "build", "--strict", "--site-dir", target],
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


class Loaded(HTMLParser):
    """`addresses` is what a browser fetches to show the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADING.get(tag, ""))
        if address and given.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(address)


def pages_of(site: Path) -> Iterator[Path]:
    return (path for path in site.rglob("*.html") if path.name != "404.html")


def test_every_page_is_in_it(site: Path) -> None:
    expected = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    assert {path.relative_to(site).with_suffix("") for path in pages_of(site)} == expected


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in pages_of(site):
        for address in Loaded(path.read_text()).addresses:
            assert not re.match(r"(?:\w+:)?//", address), (path.name, address)
            assert (path.parent / address.partition("?")[0]).exists(), (path.name, address)
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?(?:https?:)?//", styles)


def test_diagrams_are_drawn_by_the_copy_of_mermaid(site: Path) -> None:
    page = (site / "architecture.html").read_text()
    assert page.count('class="mermaid"') == text("architecture.md").count("```mermaid")
    assert "assets/mermaid.js" in Loaded(page).addresses
    assert "flowchart" in (site / "assets" / "mermaid.js").read_text()
    assert (site / "assets" / "mermaid.LICENSE.txt").read_text().startswith("The MIT License")

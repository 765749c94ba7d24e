"""Every page: its links lead to what exists, and its commands are those of kubectl and of `infra`."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from kubectl_kindling import arguments
from kubectl_kindling import cli as plugin

from infra import yaml_text
from infra.cli.arguments import parse
from infra.paths import REPOSITORY
from tests.unit.docs.pages import PAGES, slug

NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]
# kubectl's commands that the pages use, and the types that they name beside our own.
VERBS = frozenset({
    "annotate", "api-resources", "apply", "create", "delete", "describe", "drain", "exec", "get",
    "kustomize", "label", "krew", "logs", "patch", "port-forward", "rollout", "scale", "taint", "wait",
})  # fmt: skip
# Options that are followed by a value.
VALUED = (
    "-f", "-k", "-o", "-n", "-l", "-c", "--namespace", "--filename", "--selector", "--container", "--stack",
)  # fmt: skip
TYPES = frozenset({
    "certificate", "certificaterequest",  # cert-manager's.
    "configmap", "cronjobs", "csidrivers", "deployment", "events", "greetings", "job", "jobs", "kindling",
    "lease", "mutatingwebhookconfigurations", "namespace", "node", "nodes", "pod", "pods", "pv", "pvc",
    "replicaset", "resourcequota",
    "secret", "service", "statefulset", "storageclasses", "validatingadmissionpolicies", "volumeattachments",
})  # fmt: skip


@cache
def kinds() -> set[str]:
    """The names by which kubectl knows our kinds."""
    found: set[str] = set()
    for path in sorted((REPOSITORY / "crds").glob("*.yaml")):
        spec = yaml_text.load(path.read_text())["spec"]
        names = spec["names"]
        found |= {names["plural"], names["singular"], f"{names['plural']}.{spec['group']}"}
        found |= set(names.get("shortNames", ()))
    return found


def anchors(page: Path) -> set[str]:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_pages_and_headings_that_exist(name: str) -> None:
    page = REPOSITORY / name
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{name}: {target}"


def commands(page: Path) -> list[str]:
    """Every command with kubectl or our own command line, in a block or in a line of text."""
    text = page.read_text()
    found = []
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE):
        if language == "console":  # in a list, it is indented
            found += [line.strip().removeprefix("$ ") for line in block.splitlines()]
        elif not language:
            found += block.splitlines()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return [line for line in found if line.startswith(("kubectl ", "python3 -m infra "))]


def words_of(line: str) -> list[str]:
    """The words of one command, up to a pipe."""
    lexer = shlex.shlex(line.replace("…", ""), posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    words = list(lexer)
    return words[: words.index("|")] if "|" in words else words


@pytest.mark.parametrize("name", NAMES)
def test_commands_name_verbs_and_types_that_exist(name: str) -> None:
    for line in commands(REPOSITORY / name):
        words = words_of(line)
        if words[0] == "python3":
            # In a table, what may be left out is in brackets, and TOOL is any of the tools.
            plain = [word.strip("[]").replace("TOOL", "kubectl") for word in words[3:]]
            command = parse(plain)
            if command.tool != "kubectl":
                continue
            words = ["kubectl", *command.rest]
        if not words[1:] or words[1].isupper():
            continue
        if words[1] == "kindling":
            assert_plugin(words[2:], f"{name}: {line}")
            continue
        assert_kubectl(words[1:], f"{name}: {line}")


def assert_kubectl(words: list[str], line: str) -> None:
    plain = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in VALUED
    ]
    if not plain:
        return
    assert plain[0] in VERBS, line
    files = ("apply", "create", "drain", "exec", "krew", "kustomize", "logs", "wait")
    skip = {**dict.fromkeys(files, 9), "rollout": 2, "top": 1}
    place = skip.get(plain[0], 1)
    if place < len(plain) and "--raw" not in words:
        for type in plain[place].partition("/")[0].split(","):
            assert type in kinds() | TYPES or type.isupper(), line


def assert_plugin(words: list[str], line: str) -> None:
    """A command of the plugin, alone or with all that it takes."""
    if len(words) < 2:
        assert {*words} <= plugin.COMMANDS.keys(), line
        return
    try:
        target = arguments.parse(words).target
    except SystemExit:
        raise AssertionError(line) from None
    if "/" in target and not target.partition("/")[0].isupper():
        assert target.partition("/")[0] in kinds(), line


@pytest.mark.parametrize("name", NAMES)
def test_files_that_are_named_exist(name: str) -> None:
    folders = "bench|crds|docs|infra|integrations|operator|policy|samples|tests|website"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", (REPOSITORY / name).read_text()):
        if not any(part.isupper() for part in path.split("/")):  # in capitals it stands for several
            assert (REPOSITORY / path).exists(), f"{name}: {path}"


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_table_have_as_many_cells_as_its_head(name: str) -> None:
    """Markdown drops what is too much and leaves empty what is too little, without a word."""
    prose = re.sub(r"```.*?```", "", (REPOSITORY / name).read_text(), flags=re.DOTALL)
    head = 0
    for line in prose.splitlines():
        if not line.startswith("|"):
            head = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line.strip()))) - 1
        head = head or cells
        assert cells == head, f"{name}: {line}"

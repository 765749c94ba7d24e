"""A program in kubectl's place that prints what a test says, and writes down what it was asked.

For what the plugin does with kubectl's words; what kubectl really says is tested in tests/apiserver.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.plugin.recordings import RECORDED

PROGRAM = """\
#!{python} -IS
import json, sys
folder = {folder!r}
words = sys.argv[1:]
with open(folder + "/asked", "a") as asked:
    asked.write(json.dumps(words) + "\\n")
if "--filename=-" in words:
    with open(folder + "/given", "a") as given:
        given.write(sys.stdin.read() + "\\n")
for said in json.load(open(folder + "/says")):
    if all(word in words for word in said["words"]):
        sys.stdout.write(said["stdout"])
        sys.stderr.write(said["stderr"])
        sys.exit(said["status"])
sys.stderr.write("error: the test says nothing of " + " ".join(words) + "\\n")
sys.exit(9)
"""


@dataclass
class FakeKubectl:
    """`bin` is the folder for PATH. What is said first to a command with all of some words wins."""

    folder: Path
    says: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bin.mkdir(parents=True)
        program = self.bin / "kubectl"
        program.write_text(PROGRAM.format(python=sys.executable, folder=str(self.folder)))
        program.chmod(0o755)
        self.say("api-resources", stdout=(RECORDED / "api-resources.txt").read_text())

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def say(self, *words: str, stdout: str = "", stderr: str = "", status: int = 0) -> None:
        self.says.append({"words": words, "stdout": stdout, "stderr": stderr, "status": status})
        (self.folder / "says").write_text(json.dumps(self.says))

    def has(self, *words: str, items: list[Any] | None = None, one: Any = None) -> None:
        """`get` of these words prints this object, or a list of these."""
        found = one if one is not None else {"apiVersion": "v1", "kind": "List", "items": items or []}
        self.say("get", *words, stdout=json.dumps(found))

    def lacks(self, *words: str) -> None:
        """`get` of these words finds nothing."""
        self.say("get", *words, stderr='Error from server (NotFound): things "x" not found\n', status=1)

    @property
    def asked(self) -> list[list[str]]:
        """The arguments of each call so far."""
        file = self.folder / "asked"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def given(self) -> list[str]:
        """What was written to those that read a file from their input, a line for each."""
        file = self.folder / "given"
        return file.read_text().splitlines() if file.exists() else []

    def commands(self, *verbs: str) -> list[list[str]]:
        """The calls that have one of these verbs among their first words."""
        return [words for words in self.asked if {*verbs} & {*words[:6]}]

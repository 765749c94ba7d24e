"""The commands that docs/guides/kubectl-plugin.md prints: each is run, where what it needs is."""

from __future__ import annotations

import re

from infra.paths import REPOSITORY

GUIDE = REPOSITORY / "docs/guides/kubectl-plugin.md"
START = "kubectl kindling "
IN_A_CLUSTER = frozenset({"logs", "psql", "rotate"})
"""What needs a server that answers."""
AT_A_BROKER = frozenset({"dead-letters", "redrive", "replay"})
"""What needs a consumer that has handled messages and given some up."""


def commands(*, cluster: bool = False, broker: bool = False) -> list[str]:
    """Each line of a block that runs the plugin: those that need nodes, or a broker, or neither."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    plain = [text for language, text in blocks if not language]
    lines = [line for text in plain for line in text.splitlines() if line.startswith(START)]
    return [
        line
        for line in lines
        if (line.split()[2] in IN_A_CLUSTER, line.split()[2] in AT_A_BROKER) == (cluster, broker)
    ]


def planned_file() -> str:
    """The file of the guide that `plan` is run on."""
    (found,) = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    return str(found)

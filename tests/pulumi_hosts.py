"""What an ordinary Pulumi brings, where Pulumi is built from the pinned Go modules.

Its host for Python is then an older one, which takes Pulumi.yaml's `virtualenv` as words, where today's reads
the file. It is given these words; the rest is Pulumi's own.
"""

from __future__ import annotations

from pathlib import PurePath

import yaml

from infra.paths import REPOSITORY

_SCRIPT = """\
#!{python}
import os, sys
os.execv({program!r}, [{program!r}, *{words!r}, *sys.argv[1:]])
"""


def programs(*, host: PurePath, project: PurePath, python: PurePath) -> dict[str, str]:
    """Texts of executables, by name, for the folders of PATH: Python's host, and its dynamic providers.

    `host` is the built host, `project` the checkout; `python` runs the executables themselves.
    """
    settings = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text())
    virtualenv = settings["runtime"]["options"]["virtualenv"]
    inside = str(project / virtualenv / "bin" / "python")
    words = {
        "pulumi-language-python": (str(host), ["-root", str(project), "-virtualenv", virtualenv]),
        "pulumi-resource-pulumi-python": (inside, ["-u", "-m", "pulumi.dynamic"]),
    }
    return {
        name: _SCRIPT.format(python=python, program=program, words=given)
        for name, (program, given) in words.items()
    }

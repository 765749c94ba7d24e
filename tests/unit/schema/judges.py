"""What GitOps tools make of an object: Flux and Helm by kstatus, Argo CD by the checks that we give it.

Their own code judges: the library that Flux and Helm are built with, and the Lua that Argo CD runs.
"""

from __future__ import annotations

import json
from pathlib import Path

from kindling.kube.resources import Object

from infra import processes
from infra.bootstrap.toolchain import Toolchain
from tests.unit.schema.worlds import REPOSITORY

CHECKS = REPOSITORY / "integrations" / "argocd"


def check_of(group: str, kind: str) -> Path:
    return CHECKS / group / kind / "health.lua"


def judge(*objects: Object) -> list[tuple[str, str, str]]:
    """Of each object, as the API server hands it out: kstatus' word, Argo CD's, and its message."""
    program = Toolchain().ensure("kstatus")
    scripts = [check_of(one["apiVersion"].partition("/")[0], one["kind"]).read_text() for one in objects]
    asked = {"objects": list(objects), "scripts": scripts}
    found = json.loads(processes.run([program], stdin=json.dumps(asked), timeout=60))
    return [(one["kstatus"]["status"], one["argocd"]["status"], one["argocd"]["message"]) for one in found]

"""A stack's settings, for a command line that can not read YAML.

`python -m infra.cli.described STACK` runs in the environment that can and writes JSON; `describe` calls
it. A wrong value comes back as the error it is.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from infra import paths, processes, settings
from infra.errors import KindlingError


@dataclass(frozen=True)
class Described:
    """What the command line itself needs to know; `node_image` None means that it is ours to find."""

    api_server_port: int
    node_image: str | None
    workers: int
    samples: bool
    # Of an existing cluster; `served` None where the operator's rights reach everywhere.
    registry: str
    insecure_registry: bool
    served: tuple[str, ...] | None
    # The names of the definitions that the stack installs.
    definitions: tuple[str, ...]
    # What the stack grants to the operator and to users' roles, each as verb, resource, group, namespace.
    grants: tuple[tuple[str, str, str, str], ...] = ()


def describe(python: Path, stack: str) -> Described:
    """Read and check the stack's settings; raises `KindlingError` for the first wrong value."""
    answer = json.loads(
        processes.run([python, "-m", "infra.cli.described", stack], timeout=60, cwd=paths.REPOSITORY)
    )
    if "error" in answer:
        raise KindlingError(
            answer["error"]["what"], why=answer["error"]["why"], remedy=answer["error"]["remedy"]
        )
    served, definitions = answer.pop("served"), answer.pop("definitions")
    return Described(
        **{**answer, "grants": tuple(tuple(grant) for grant in answer["grants"])},
        served=None if served is None else tuple(served),
        definitions=tuple(definitions),
    )


def main(stack: str) -> None:
    """The other half, run by `describe`."""
    answer: dict[str, object]
    try:
        # Imported late: by then YAML can be read.
        from infra import rbac
        from infra.components import manifests

        found = settings.read(stack)
        definitions = [crd["metadata"]["name"] for crd in manifests.definitions(found.operator.kinds)]
    except KindlingError as error:
        answer = {"error": {"what": error.what, "why": error.why, "remedy": error.remedy}}
    else:
        image, operator = found.cluster.node_image, found.operator
        served = None if operator.scope == settings.CLUSTER_WIDE else operator.watch_namespaces
        answer = {
            "api_server_port": found.cluster.api_server_port,
            "node_image": None if image == settings.AUTO else image,
            "workers": found.cluster.workers,
            "samples": found.samples.enabled,
            "registry": found.images.registry,
            "insecure_registry": found.images.insecure,
            "served": served,
            "definitions": definitions,
            "grants": rbac.grants(operator.kinds, namespaces=served),
        }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])

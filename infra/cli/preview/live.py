"""What the operator of this checkout would do to the resources that run, beside what Pulumi would change.

`kindling.diff` decides that, with the variables that the previewed program gives to the operator. It only
reads; where it cannot, a sentence takes the place of what it found, and the preview goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from infra import bootstrap, paths, processes
from infra.bootstrap import Toolchain
from infra.cli.preview.events import UNKNOWN, parse
from infra.cli.stacks import kubectl
from infra.errors import KindlingError
from infra.progress import Progress
from infra.project import OPERATOR_NAMESPACE

DEPLOYMENT = "::operator-deployment"
"""How the URN of the operator's Deployment ends."""
REQUIREMENTS = "operator/requirements.txt"
SOURCE = paths.REPOSITORY / "operator" / "src"
PREFIX = "KINDLING_"
IMAGE = "KINDLING_IMAGE_"
SECONDS = 300.0


@dataclass(frozen=True)
class Live:
    """`found` is what `kindling.diff` wrote; without it, `missing` says in words why there is nothing.

    `images` are the variables of images whose references only `up` knows: they count as other ones.
    """

    found: Mapping[str, Any] | None = None
    missing: str = ""
    images: tuple[str, ...] = field(default=())


def ask(stack: str, lines: Iterable[str]) -> Live:
    """Of the events of a preview of the stack."""
    given = variables(lines)
    if given is None:
        return Live(missing="The stack has no operator yet, or will have none: nothing that runs is asked.")
    unknown = tuple(name for name, value in given.items() if UNKNOWN in value)
    later = [name for name in unknown if not name.startswith(IMAGE)]
    if later:
        return Live(missing=f"Not known before `up`: what the operator's {', '.join(later)} will be.")
    env = given | {name: placeholder(name) for name in unknown}
    try:
        return Live(found=_diff(stack, env), images=unknown)
    except KindlingError as error:
        return Live(missing=error.why or error.what)
    except (OSError, ValueError) as error:
        return Live(missing=str(error))


def placeholder(variable: str) -> str:
    """A reference that no image has, in place of one that is known later."""
    return f"known-later.invalid/{variable.removeprefix(IMAGE).lower().replace('_', '-')}"


def variables(lines: Iterable[str]) -> dict[str, str] | None:
    """The operator's variables in the previewed program; None unless it runs before and after."""
    for event in parse(lines):
        step = (event.get("resourcePreEvent") or {}).get("metadata") or {}
        if not str(step.get("urn", "")).endswith(DEPLOYMENT):
            continue
        if (step.get("old") or {}).get("inputs") and (new := (step.get("new") or {}).get("inputs")):
            return _variables(new)
    return None


def _variables(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Those that have a value: what is taken from the Pod is not ours."""
    try:
        containers = inputs["spec"]["template"]["spec"]["containers"]
        [container] = [one for one in containers if one["name"] == "operator"]
        return {
            item["name"]: str(item.get("value", ""))
            for item in container.get("env", [])
            if item["name"].startswith(PREFIX) and "valueFrom" not in item
        }
    except (KeyError, TypeError, ValueError):
        # Pulumi has one word for all of it where it does not know a part.
        return {"variables": UNKNOWN}


def _diff(stack: str, env: Mapping[str, str]) -> Mapping[str, Any]:
    """Raises `KindlingError` with what it, or kubectl, says."""
    progress = Progress()
    program = Toolchain(progress=progress).ensure("kubectl")
    python = bootstrap.virtualenv.ensure(REQUIREMENTS, progress=progress)
    with _kubeconfig(stack, program) as kubeconfig:
        output = processes.run(
            [python, "-m", "kindling.diff", "--output=json"],
            timeout=SECONDS,
            env={
                **env,
                "PYTHONPATH": str(SOURCE),
                "KUBECONFIG": str(kubeconfig),
                "KINDLING_NAMESPACE": OPERATOR_NAMESPACE,
                "KINDLING_PROBER": "",
            },
        )
    found: Mapping[str, Any] = json.loads(output)
    return found


@contextmanager
def _kubeconfig(stack: str, program: Path) -> Iterator[Path]:
    """The stack's context alone, in a file that only this user can read and that goes with this context."""
    text = kubectl.call(stack, program, "config", "view", "--minify", "--flatten", "--raw")
    with TemporaryDirectory(prefix="kindling-live-") as folder:
        path = Path(folder, "kubeconfig")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        yield path


def text(live: Live) -> str:
    """For a terminal."""
    if live.found is None:
        return f"What the operator would do to what runs is not known: {live.missing}\n"
    rows = [
        (_called(each), row) for each in live.found["resources"] if each["changes"] for row in each["rows"]
    ]
    lines = [f"Live: {live.found['summary']}"]
    for name, row in rows:
        lines.append("  " + "  ".join(filter(None, (name, row["object"], row["effect"]))))
        lines += [f"    {item['path']}: {item['old']} → {item['new']}" for item in row["fields"]]
    return "\n".join([*lines, *notes(live)]) + "\n"


def notes(live: Live) -> list[str]:
    """What has to be known beside the table."""
    found = live.found or {}
    listed = [f"The cluster has no definition of {name} yet." for name in found.get("notServed", ())]
    if live.images:
        listed.append(f"Known only after `up`, and taken for other images: {', '.join(live.images)}.")
    return [*listed, str(found.get("notCovered", ""))]


def _called(resource: Mapping[str, Any]) -> str:
    return f"{resource['kind']} {resource['namespace']}/{resource['name']}"

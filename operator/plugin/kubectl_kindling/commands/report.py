"""`report`: what somebody needs who looks into a ticket, in one file, without anything secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubectl_kindling import bundle, decisions, facts, kinds, redaction, resources, screen
from kubectl_kindling.arguments import Command
from kubectl_kindling.commands import status, version
from kubectl_kindling.errors import FINE, PluginError
from kubectl_kindling.failures import described
from kubectl_kindling.kinds import Type
from kubectl_kindling.kubectl import Kubectl, Object
from kubectl_kindling.screen import View

SECRETS_TEMPLATE = (
    '{{range .items}}{{$name := .metadata.name}}{{$type := .type}}{{$name}} {{$type}} -{{"\\n"}}'
    '{{range $key, $value := .data}}{{$name}} {{$key}} {{len (base64decode $value)}}{{"\\n"}}{{end}}{{end}}'
)
"""A line for each Secret, and one for each key: kubectl itself counts, and prints no content."""
LOG_LINES = 5000
NOT_READ = "not-read.txt"


def run(command: Command, kubectl: Kubectl) -> int:
    """Writes the file and prints its name; what could not be read is named in it and on the screen."""
    now = datetime.now(UTC)
    types = kinds.served(kubectl)
    type, resource = resources.find(kubectl, types, kinds.reference(command.target))
    view = resources.view(kubectl, type, resource, types)
    file = Path(command.output_file or _name(type, resource, now))
    if file.exists():
        raise PluginError(
            f"`{file}` is there already",
            why="a report is not written over another file",
            remedy="name another one with --file.",
        )
    folder = _name(type, resource, now).removesuffix(".tar.gz")
    texts = contents(kubectl, view, command.operator_namespace, now)
    bundle.write(file, texts, folder=folder, now=now)
    print(file)
    for line in screen.notes((), texts.get(NOT_READ, "").splitlines())[1:]:
        print(line)
    print("Read it before you send it: names, messages and queries of yours are in it.")
    return FINE


def _name(type: Type, resource: Object, now: datetime) -> str:
    place = f"{facts.namespace_of(resource)}-{facts.name_of(resource)}"
    return f"kindling-{type.kind.lower()}-{place}-{now.strftime('%Y%m%dT%H%M%SZ')}.tar.gz"


def contents(kubectl: Kubectl, view: View, operator_namespace: str, now: datetime) -> dict[str, str]:
    """Every file of the bundle by its path."""
    namespace = facts.namespace_of(view.resource)
    problems: list[str] = []
    texts = {
        "status.txt": redaction.line("\n".join(screen.one(view, now))),
        "status.json": _json(_redacted_document(view)),
        "resource.json": _json(redaction.redacted(view.resource)),
        "versions.json": _json(version.collect(kubectl, operator_namespace)),
        "events.json": _json(redaction.redacted(facts.events(view.events, most=len(view.events)))),
        "secrets.txt": _secrets(kubectl, view, namespace, problems),
        "operator.log": _log(kubectl, view, operator_namespace, problems),
    }
    if decided := _decisions(kubectl, view, operator_namespace, problems):
        texts["decisions.json"] = decided
    for child in view.children:
        texts[f"children/{child.get('kind')}-{facts.name_of(child)}.json"] = _json(redaction.redacted(child))
    for backup in view.backups:
        texts[f"backups/{facts.name_of(backup)}.json"] = _json(redaction.redacted(backup))
    if unread := [*described(view.missing), *view.others, *problems]:
        texts[NOT_READ] = "\n".join(dict.fromkeys(unread))
    return {path: text if text.endswith("\n") or not text else f"{text}\n" for path, text in texts.items()}


def _redacted_document(view: View) -> dict[str, Any]:
    document = status.document(view)
    return {name: redaction.redacted(value) for name, value in document.items()}


def _secrets(kubectl: Kubectl, view: View, namespace: str, problems: list[str]) -> str:
    """NAME TYPE -, and below it NAME KEY BYTES, of each Secret that is a child."""
    lines: list[str] = []
    for selector in resources.selectors(view.type, view.resource):
        found = kubectl.ask(
            "get", "secrets", f"--namespace={namespace}", f"--selector={selector}",
            "-o", f"go-template={SECRETS_TEMPLATE}",
        )  # fmt: skip
        if found.status != 0:
            missing, others = resources.troubles([found])
            problems += described(missing) + others
            break
        lines += found.stdout.splitlines()
    return "\n".join(lines)


def _log(kubectl: Kubectl, view: View, operator_namespace: str, problems: list[str]) -> str:
    """The operator's lines with the key of this resource; it writes them as JSON, without bodies."""
    found = kubectl.ask(
        "logs", f"--namespace={operator_namespace}", f"--selector={decisions.SELECTOR}",
        "--container=operator", f"--tail={LOG_LINES}", "--ignore-errors", "--request-timeout=60s",
        seconds=120,
    )  # fmt: skip
    if found.status != 0 or not found.stdout:
        missing, others = resources.troubles([found])
        said = others or ([] if missing else [found.stderr.strip() or "no Pod of the operator has one"])
        problems += [*described(missing), *(f"the operator's log: {text}" for text in said)]
        return ""
    key = _key(view)
    return "\n".join(redaction.line(line) for line in found.stdout.splitlines() if is_about(line, key))


def _decisions(kubectl: Kubectl, view: View, operator_namespace: str, problems: list[str]) -> str:
    """What the flight recorder has of this resource; the operator has taken out what is secret."""
    text, troubles = decisions.read(kubectl, operator_namespace, _key(view))
    missing, others = resources.troubles(troubles)
    problems += [*described(missing), *(f"the operator's decisions: {said}" for said in others)]
    return text


def _key(view: View) -> str:
    return f"{view.type.group_kind}/{facts.namespace_of(view.resource)}/{facts.name_of(view.resource)}"


def is_about(line: str, key: str) -> bool:
    """Whether a line of the operator's log has this key, in either of its formats."""
    try:
        loaded: Any = json.loads(line)
    except ValueError:
        return key in line.split()
    return isinstance(loaded, Mapping) and loaded.get("key") == key


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"

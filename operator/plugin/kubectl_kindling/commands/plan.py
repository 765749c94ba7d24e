"""`plan`: what would be done, before it is. The operator says it, of a resource that is only a plan.

What the resource would be is the API server's word: `kubectl apply --dry-run=server`, which also refuses what
the definitions and policies do. The one that asks is created, read and deleted; the real one is not touched.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from kubectl_kindling import facts, failures, kinds, plans, resources, table
from kubectl_kindling.arguments import Command
from kubectl_kindling.errors import FAILED, FINE, NOT_READY, USAGE, PluginError
from kubectl_kindling.kinds import Type
from kubectl_kindling.kubectl import REQUEST_SECONDS, Kubectl, Object, Output, items_of
from kubectl_kindling.plans import Planned

KIND = "Postgresql"
LIMIT = f"--request-timeout={REQUEST_SECONDS}s"
SECONDS = 30.0
"""How long the operator may take to answer."""
EVERY_SECONDS = 0.5
_REFUSED = ("is invalid", "ValidatingAdmissionPolicy")
"""What kubectl says where it is the resource that is refused, and not the user."""


def run(command: Command, kubectl: Kubectl) -> int:
    """NOT_READY where anything is refused, or more than a reload would be noticed."""
    if bool(command.target) == bool(command.input_file):
        raise PluginError(
            "one of KIND/NAME and --filename is needed",
            why="a plan is for what a file says, or for a resource as it is",
            remedy="`kubectl kindling plan -f FILE`, or `kubectl kindling plan postgresql/mydb`.",
            status=USAGE,
        )
    types = kinds.served(kubectl)
    refused: list[str] = []
    if command.target:
        type, live = resources.find(kubectl, types, kinds.reference(command.target))
        _require(type)
        found = [_planned(kubectl, type, live, live)]
    else:
        wanted, refused = _dry_run(command, kubectl, types)
        found = [_planned(kubectl, type, each, _live(kubectl, type, each)) for type, each in wanted]
    if command.json:
        print(json.dumps(plans.document(found, refused), indent=2))
    else:
        _show(found, refused)
    return FINE if all(each.gentle for each in found) and not refused else NOT_READY


def _show(found: Sequence[Planned], refused: Sequence[str]) -> None:
    for each in found:
        print("\n".join(plans.lines(each)))
    for text in refused:
        print("\n".join(table.wrapped(f"refused: {text}", indent="  ", first="")))


def _require(type: Type) -> None:
    if type.kind != KIND:
        raise PluginError(
            f"{type.kind} has no plan",
            why=f"plans are for {KIND} alone",
            remedy="name one of that kind.",
            status=USAGE,
        )


def _dry_run(
    command: Command, kubectl: Kubectl, types: Sequence[Type]
) -> tuple[list[tuple[Type, Object]], list[str]]:
    """What the file's resources would be, and what the API server says against them."""
    words = ["apply", "--dry-run=server", f"--filename={command.input_file}", "-o", "json", LIMIT]
    if command.server_side:
        words += ["--server-side", "--force-conflicts", f"--field-manager={command.field_manager}"]
    given = sys.stdin.read() if command.input_file == "-" else None
    output = kubectl.ask(*words, given=given)
    refused = _refusals(output)
    if output.status != 0 and not refused:
        raise failures.error_of(words, output.status, output.stderr)
    ours = [
        (type, each)
        for each in items_of(output)
        for type in types
        if type.kind == KIND and each.get("apiVersion") == f"{type.group}/{type.version}"
        if each.get("kind") == KIND
    ]
    if not ours and not refused:
        raise PluginError(
            f"`{command.input_file}` has no {KIND}",
            why=f"plans are for {KIND} alone",
            remedy="name a file that has one.",
            status=USAGE,
        )
    return ours, refused


def _refusals(output: Output) -> list[str]:
    """The API server's words, of those that are not about the user's rights."""
    if output.status == 0 or failures.missing_rights(output.stderr):
        return []
    texts = [line for line in output.stderr.strip().splitlines() if not line.startswith("Warning:")]
    text = " ".join(texts)
    return [table.plain(text)] if any(word in text for word in _REFUSED) else []


def _live(kubectl: Kubectl, type: Type, wanted: Object) -> Object | None:
    output = kubectl.get(type.full, facts.name_of(wanted), f"--namespace={facts.namespace_of(wanted)}")
    if output.status != 0 and not failures.is_not_found(output.stderr):
        raise failures.error_of(("get", type.full), output.status, output.stderr)
    return next(iter(items_of(output)), None) if output.status == 0 else None


def _planned(kubectl: Kubectl, type: Type, wanted: Object, live: Object | None) -> Planned:
    namespace = facts.namespace_of(wanted)
    # Strict: a definition without plans would drop the fields that keep this one from being real.
    words = ("create", "--filename=-", "--validate=strict", "-o", "json", LIMIT)
    made = kubectl.ask(*words, given=json.dumps(plans.asker(type, wanted)))
    if made.status != 0:
        raise failures.error_of(words, made.status, made.stderr)
    (asked,) = items_of(made)
    where = (type.full, facts.name_of(asked), f"--namespace={namespace}")
    try:
        plan = _answer(kubectl, where)
    finally:
        kubectl.ask("delete", *where, "--ignore-not-found", "--wait=false", LIMIT)
    if plan is None:
        raise PluginError(
            f"the operator has not answered within {SECONDS:.0f} s",
            why="it is busy or does not run, or it watches other namespaces",
            remedy="`kubectl kindling version` shows whether it runs.",
            status=FAILED,
        )
    return Planned(type, namespace, facts.name_of(wanted), plan, plans.notes(wanted, live), live is None)


def _answer(kubectl: Kubectl, where: tuple[str, ...]) -> dict[str, object] | None:
    """The plan, complete if the server can be compared in time."""
    until = time.monotonic() + SECONDS
    while True:
        output = kubectl.get(*where)
        if output.status != 0:
            raise failures.error_of(("get", *where), output.status, output.stderr)
        (asked,) = items_of(output)
        plan = plans.answer(asked)
        if plan is not None and (not plans.is_open(plan) or time.monotonic() > until - SECONDS / 2):
            return dict(plan)
        if time.monotonic() > until:
            return None
        time.sleep(EVERY_SECONDS)

"""`restore` and `undo`: the data of a Backup in a new Postgresql, or in place, and back; databases of it; or
a copy that is checked.

What it makes is a Restore, as a manifest would: the operator does the work, and it is there to be looked at.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from kubectl_kindling import facts, failures, kinds, resources
from kubectl_kindling.arguments import Command
from kubectl_kindling.commands.backup import dated
from kubectl_kindling.commands.server import LIMIT, merge, say
from kubectl_kindling.confirmation import confirm
from kubectl_kindling.errors import FAILED, FINE, USAGE, PluginError
from kubectl_kindling.kubectl import Kubectl, Object, items_of

LONGEST_NAME = 40
"""Of a Restore."""
_DONE = ("Completed", "Restored")


def restore(command: Command, kubectl: Kubectl) -> int:
    """Creates a Restore; one in place is asked for first."""
    if [bool(command.to), command.in_place, bool(command.databases), command.verify].count(True) != 1:
        raise PluginError(
            "one of --to, --in-place, --database and --verify is needed",
            why="the data goes into a new Postgresql, into the one that is backed up, or into a copy",
            remedy="`--to NAME` makes one of that name; `--in-place` replaces what that one has; `--database "
            "NAME` adds a database to it; `--verify` checks a copy.",
            status=USAGE,
        )
    types = kinds.served(kubectl)
    _, backup = resources.find_of_kind(kubectl, types, "Backup", command.target)
    body = manifest(backup, command, now=datetime.now(UTC))
    database = body["spec"]["databaseRef"]["name"]
    if command.in_place:
        moment = command.at or "the newest there is"
        say(
            f"The server of Postgresql {database} is stopped until the data is restored, and then has what "
            f"was there as of {moment}. What it has now stays on its volume until the Restore is deleted; "
            "`kubectl kindling undo` brings it back."
        )
        confirm(f"Restore Postgresql {database} in place?", yes=command.yes)
    words = ("create", "--filename=-", "--validate=strict", "-o", "json", LIMIT)
    made = kubectl.ask(*words, given=json.dumps(body))
    if made.status != 0:
        raise failures.error_of(words, made.status, made.stderr)
    (created,) = items_of(made)
    name = facts.name_of(created)
    say(f"Restore {name} is created. `kubectl kindling status restore/{name}` shows how far it is.")
    return FINE


def undo(command: Command, kubectl: Kubectl) -> int:
    """Sets spec.undo of a Restore in place that has its data there."""
    type, resource = resources.find_of_kind(kubectl, kinds.served(kubectl), "Restore", command.target)
    name = facts.name_of(resource)
    spec, status = resource.get("spec") or {}, facts.status_of(resource)
    if spec.get("undo"):
        say(f"spec.undo of Restore {name} is true already; nothing was changed.")
        return FINE
    if spec.get("into") != "InPlace":
        raise PluginError(
            f"Restore {name} has replaced nothing",
            why="only a restore in place (spec.into) can be undone",
            remedy="delete what it made, a Postgresql and its claim or databases, if you do not need that.",
            status=FAILED,
        )
    if status.get("phase") not in (*_DONE, "Failed"):
        raise PluginError(
            f"Restore {name} is not done",
            why=facts.ready(resource).message,
            remedy=f"wait; `kubectl kindling status restore/{name}` shows how far it is.",
            status=FAILED,
        )
    database = (spec.get("databaseRef") or {}).get("name")
    say(
        f"The server of Postgresql {database} is stopped, and started with the data from before Restore "
        f"{name}. What was written since then goes with the restored data."
    )
    confirm(f"Undo Restore {name} in namespace {facts.namespace_of(resource)}?", yes=command.yes)
    merge(kubectl, type, resource, {"spec": {"undo": True}})
    say(f"spec.undo is true. `kubectl kindling status restore/{name}` shows when it is Undone.")
    return FINE


def manifest(backup: Object, command: Command, *, now: datetime) -> Object:
    """The Restore, in the Backup's namespace."""
    source = facts.name_of(backup)
    database = dict((backup.get("spec") or {}).get("databaseRef") or {})
    spec: Object = {
        "source": {"backupRef": {"name": source}},
        "databaseRef": {**database, "name": command.to} if command.to else database,
    }
    if command.at:
        spec["recoveryTarget"] = {"targetTime": command.at}
    if command.in_place:
        spec["into"] = "InPlace"
    if command.verify:
        spec["into"] = "Verify"
    if command.databases:
        spec |= {"into": "Databases", "databases": [_database(each) for each in command.databases]}
    return {
        "apiVersion": backup["apiVersion"],
        "kind": "Restore",
        "metadata": {
            "name": dated(source, now, longest=LONGEST_NAME),
            "namespace": facts.namespace_of(backup),
        },
        "spec": spec,
    }


def _database(given: str) -> Object:
    name, other, name_after = given.partition("=")
    return {"name": name, "as": name_after} if other else {"name": name}

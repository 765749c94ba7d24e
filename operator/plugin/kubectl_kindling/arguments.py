"""The arguments of the command line and the help that explains them. Pure: from arguments to a `Command`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PROGRAM = "kubectl kindling"
OPERATOR_NAMESPACE = "kindling-system"
GLOBAL = ("context", "namespace", "kubeconfig")
TAIL = 100
FIELD_MANAGER = "kubectl"

_ABOUT = """\
Shows how Kindling's resources are, and does the few things that a person does by hand. It reaches the
cluster by kubectl alone, with your rights.
"""
_NOTES = """\
KIND is a kind, a plural or a short name: postgresql/mydb, pge/mydb, postgresqls.database.db.example.com/mydb.

exit status: 0 fine, 1 not Ready (`plan`: something is refused, or more than a reload), 2 usage error, 3 it
could not be done (no cluster, no right, no such resource), 130 interrupted; `psql` ends as psql does
"""


@dataclass(frozen=True)
class Command:
    """What was asked for. `target` is KIND/NAME, or NAME where the command says the kind; empty for all.

    `options` are kubectl's own, for the cluster; `rest` are psql's arguments.
    """

    name: str
    target: str = ""
    options: tuple[str, ...] = ()
    json: bool = False
    everywhere: bool = False
    follow: bool = False
    since: str = ""
    tail: int | None = None
    raw: bool = False
    yes: bool = False
    reason: str = ""
    most: int | None = None
    to: str = ""
    at: str = ""
    in_place: bool = False
    verify: bool = False
    databases: tuple[str, ...] = ()
    output_file: str = ""
    input_file: str = ""
    server_side: bool = False
    field_manager: str = FIELD_MANAGER
    operator_namespace: str = OPERATOR_NAMESPACE
    rest: tuple[str, ...] = ()


def parse(args: Sequence[str]) -> Command:
    """Raises `SystemExit`, as argparse does, with status 2 on a usage error and 0 after `--help`."""
    own, rest = _split(list(args))
    found = vars(_parser().parse_args(own))
    options = tuple(f"--{name}={value}" for name in GLOBAL if (value := found.pop(name, None)))
    if rest and found["name"] != "psql":
        _parser().error(f"`{found['name']}` takes nothing after `--`")
    found["json"] = found.pop("output", "") == "json"
    found["databases"] = tuple(found.pop("databases", None) or ())
    return Command(**found, options=options, rest=tuple(rest))


def commands() -> list[str]:
    """The names of all commands."""
    return list(_subparsers())


def actions(command: str) -> dict[str, argparse.Action]:
    """The options that this command takes, by each of their names; without one, those before a command."""
    parser = _subparsers().get(command) or _parser()
    return {name: action for action in parser._actions for name in action.option_strings}


def _subparsers() -> dict[str, argparse.ArgumentParser]:
    # argparse has no public way to list them.
    (found,) = (each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    parsers: dict[str, argparse.ArgumentParser] = dict(found.choices)
    return parsers


def _split(args: list[str]) -> tuple[list[str], list[str]]:
    """What comes before `--`, and what comes after it."""
    if "--" not in args:
        return args, []
    place = args.index("--")
    return args[:place], args[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=_ABOUT, epilog=_NOTES, formatter_class=raw, allow_abbrev=False
    )
    _add_global(parser)
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)

    def add(name: str, text: str, description: str = "") -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=text, description=description or f"{text}.", formatter_class=raw, allow_abbrev=False
        )
        _add_global(sub)
        return sub

    def add_json(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("-o", "--output", choices=("json",), default="", help="as JSON, for programs")

    def add_yes(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--yes", action="store_true", help="do not ask")

    def add_selection(sub: argparse.ArgumentParser) -> None:
        choices = ("MaxDeliveries", "Rejected", "SchemaMismatch")
        sub.add_argument("--reason", choices=choices, default="", help="those alone")
        sub.add_argument("--most", type=_positive, metavar="N", help="so many, the oldest first")

    sub = add("status", "Show one resource on a screen, or all of a namespace, the unready first")
    sub.add_argument("target", nargs="?", default="", metavar="KIND/NAME", help="left out: all of them")
    sub.add_argument(
        "-A", "--all-namespaces", dest="everywhere", action="store_true", help="of every namespace"
    )
    add_json(sub)

    sub = add("logs", "Print the logs of all Pods of a resource, each line with its Pod and container")
    sub.add_argument("target", metavar="KIND/NAME")
    sub.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    sub.add_argument("--since", default="", metavar="DURATION", help="only what is newer than 5s, 2m or 3h")
    sub.add_argument(
        "--tail",
        type=int,
        metavar="LINES",
        help=f"so many of each container, -1 for all; {TAIL} without --since, all with it",
    )
    sub.add_argument("--raw", action="store_true", help="as it is written: a message in JSON stays JSON")

    sub = add("plan", "Show what would be done to a Postgresql, and what each of it disrupts", _PLAN)
    sub.usage = f"{PROGRAM} plan (-f FILE | KIND/NAME) [options]"
    sub.add_argument("target", nargs="?", default="", metavar="KIND/NAME", help="as it is")
    sub.add_argument(
        "-f", "--filename", dest="input_file", default="", metavar="FILE", help="as if applied; - for input"
    )
    sub.add_argument("--server-side", action="store_true", help="as kubectl apply --server-side")
    sub.add_argument(
        "--field-manager", default=FIELD_MANAGER, metavar="NAME", help="whose, with --server-side"
    )
    add_json(sub)

    sub = add("psql", "Open psql in the Pod of a Postgresql, logged in as its default user", _PSQL)
    sub.usage = f"{PROGRAM} psql NAME [options] [-- ARGS ...]"
    sub.add_argument("target", metavar="NAME")

    sub = add("restart", "Restart the server of a Postgresql, with all changes that wait for a restart")
    sub.add_argument("target", metavar="NAME")
    add_yes(sub)
    sub = add("hibernate", "Stop the server of a Postgresql and keep its data (spec.hibernate)")
    sub.add_argument("target", metavar="NAME")
    add_yes(sub)
    sub = add("wake", "Start the server of a hibernated Postgresql again (spec.hibernate, kindling.dev/wake)")
    sub.add_argument("target", metavar="NAME")
    sub = add("rotate", "Have the applications of a Postgresql go on to another login and password")
    sub.add_argument("target", metavar="NAME")
    sub = add("approve", "Approve the changes of a Postgresql that wait for it (spec.approval)")
    sub.add_argument("target", metavar="NAME")
    add_yes(sub)
    sub = add("backup", "Start a run of a Backup now, beside its schedule")
    sub.add_argument("target", metavar="NAME")

    sub = add("drill", "Try a restore of a Backup now, beside its schedule (spec.verify)")
    sub.add_argument("target", metavar="NAME")
    sub = add(
        "restore",
        "Restore a Backup into a new Postgresql, or in place, or databases of it, or try it",
        _RESTORE,
    )
    sub.add_argument("target", metavar="BACKUP")
    sub.add_argument("--to", default="", metavar="NAME", help="of the Postgresql that is made")
    sub.add_argument("--in-place", action="store_true", help="into the Postgresql that is backed up")
    sub.add_argument(
        "--database",
        action="append",
        default=None,
        dest="databases",
        metavar="NAME[=AS]",
        help="load this one into the Postgresql that is backed up, under its name or another; repeatable",
    )
    sub.add_argument("--verify", action="store_true", help="into a copy that is checked and thrown away")
    sub.add_argument("--at", default="", metavar="TIME", help="2026-11-24T06:45:00Z; default: the newest")
    add_yes(sub)
    sub = add("undo", "Bring back the data from before a restore in place (spec.undo)")
    sub.add_argument("target", metavar="RESTORE")
    add_yes(sub)
    sub = add("dead-letters", "Show what a PulsarConsumer gave up, and why", _DEAD_LETTERS)
    sub.add_argument("target", metavar="NAME")
    add_selection(sub)
    add_json(sub)
    sub = add("redrive", "Send the dead letters of a PulsarConsumer back to its topic", _DEAD_LETTERS)
    sub.add_argument("target", metavar="NAME")
    add_selection(sub)
    add_yes(sub)

    sub = add("replay", "Have messages that a PulsarConsumer handled come again (spec.replay)")
    sub.add_argument("target", metavar="NAME")
    sub.add_argument(
        "--from", dest="since", required=True, metavar="TIME", help="2026-11-24T06:45:00Z, or 2h for an age"
    )
    add_yes(sub)

    sub = add("report", "Write a bundle for a ticket, without anything secret", _REPORT)
    sub.add_argument("target", metavar="KIND/NAME")
    sub.add_argument("--file", dest="output_file", default="", metavar="FILE", help="where to; default: here")
    _add_operator(sub)
    sub = add("version", "Show the versions of this plugin, kubectl, the cluster, the operator and the kinds")
    _add_operator(sub)
    add_json(sub)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


_DEAD_LETTERS = """\
Asks a consumer's container, which reads the topic of spec.deadLetter by a subscription of its own. Dead
letters stay there until they are sent back; the oldest come first. That takes the right to exec into Pods.
"""
_PLAN = """\
Nothing is changed: the operator computes the plan for a resource that is created for it, with spec.planFor,
and deleted again. That takes the rights to create and delete resources of the kind.
"""
_PSQL = """\
Runs psql in the Pod of the server, logged in as the default user. ARGS are psql's own. The password is read
from the binding Secret and given to psql where it asks for it: it is on no command line and in no output.
"""
_RESTORE = """\
Creates a Restore, which the operator carries out. In place, the server is stopped meanwhile, and the data
that it has is kept until that Restore is deleted; `undo` brings it back.
"""
_REPORT = """\
Writes a tar.gz with the resource, its children, their Events, the operator's log lines about it, and
versions. Of Secrets and ConfigMaps it has names, keys and sizes, never content; variables of containers have
no values.
"""


def _add_global(parser: argparse.ArgumentParser) -> None:
    """kubectl's options for the cluster, which may come before and after the command."""
    hidden: dict[str, Any] = {"default": argparse.SUPPRESS}
    parser.add_argument("--context", metavar="NAME", help="kubectl's context", **hidden)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default: that of the context", **hidden)
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubectl's configuration", **hidden)


def _add_operator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operator-namespace",
        default=OPERATOR_NAMESPACE,
        metavar="NAME",
        help=f"where the operator runs; default: {OPERATOR_NAMESPACE}",
    )

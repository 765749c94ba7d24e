"""The arguments of the command line and the help that explains them.

Pure: from a list of arguments to a `Command`. Stacks and tools are checked where they are known.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STACK = "dev"
TOOLS = ("pulumi", "kubectl", "kind")

_ABOUT = """\
Brings up Kindling: a kind cluster, the operator and its samples, through Pulumi.

Begin with `python3 -m infra up`. It shows what is installed, what is missing and what it will do, builds
only what this machine does not have, and can be interrupted and run again at any time.
"""
_NOTES = """\
a stack is one environment, described by a file Pulumi.STACK.yaml.

environment:
  KINDLING_CACHE     what can be built again: tools, images, Python packages (~/.cache/kindling)
  KINDLING_STATE     what cannot be: Pulumi's state, the passphrase (~/.local/state/kindling)
  KINDLING_ENGINE    docker or podman, where both are installed
  PULUMI_BACKEND_URL, PULUMI_CONFIG_PASSPHRASE, PULUMI_CONFIG_PASSPHRASE_FILE   as Pulumi knows them

exit status: 0 done, 1 failed (with why and what to do), 2 usage error, 3 `drift` found some, 130 interrupted
"""
_EXEC = """\
Runs a tool from wherever Kindling found or built it, with the stack's own settings: pulumi with its
state, passphrase and stack, kubectl in the stack's context, kind on the stack's engine and cluster.
"""
_EXEC_NOTES = """\
examples:
  python3 -m infra exec kubectl get postgresqls --all-namespaces
  python3 -m infra exec pulumi stack output
  python3 -m infra exec --stack test kind get nodes
"""
_HANDLER = """\
Runs the handler in FILE with the runner that a PulsarConsumer has, at the broker of the stack, and starts it
again with each change of a Python file beside it. Its subscription is its own.
"""
_HANDLER_NOTES = """\
example:
  python3 -m infra handler orders.py --topic orders
"""
_SELFTEST = """\
Tries the operator of this checkout on your own manifests, against an API server that exists for this run
alone: each resource is created and deleted, and once more for each kill of the operator before or after each
of its writes. Every run has to end as the one without a kill, with as many objects made and deleted.
"""
_SELFTEST_NOTES = """\
examples:
  python3 -m infra selftest manifests/
  python3 -m infra selftest --only mydb --writes 3 databases.yaml secrets.yaml
  python3 -m infra selftest --to next.yaml now.yaml

exit status: 0 every run ended the same, 1 one did not (or `error:` says why nothing was tried), 2 usage error
or bad input
"""
_RELEASE = """\
Makes FOLDER with all that is needed to install the operator without this checkout, of the components that
`up` deploys. The same commit, version and images make the same bytes.
"""
_RELEASE_NOTES = """\
example:
  python3 -m infra release --version 1.2.3 --output ../kindling-1.2.3 --images
    registry.example.com/kindling/kindling-operator@sha256:... (and each of the others)
"""


@dataclass(frozen=True)
class Command:
    """What was asked for. `tool` is set for `exec`, `rest` for `exec` and `test`, `source` for `promote`.

    Files: `preview` writes `markdown` and `save_plan`, `up` reads `plan`, `checkout` makes `folder`. With
    `live`, `preview` reads the cluster.
    `release` is the commit of an earlier one for `promote`, empty for what SOURCE runs. `release` makes the
    folder `output` of `version` and of `images`, each [NAME=]REFERENCE; `url` is where its files will be,
    and the private key in `signing_key` signs them.
    `selftest` tries the resources of `files`, or `only` one of them, and changes each to its spec in `to`;
    it kills the operator at so many `writes` of each, None being all, and leaves its logs in `keep`.
    `handler` runs FILE[:NAME] on `topic` with `subscription`, at `server` if that is not the stack's broker;
    it reads payloads by the topic's schemas if `schema` is their type.
    `argv` is what was typed.
    """

    name: str
    stack: str = STACK
    tool: str = ""
    source: str = ""
    rest: tuple[str, ...] = ()
    yes: bool = False
    markdown: Path | None = None
    save_plan: Path | None = None
    live: bool = False
    plan: Path | None = None
    folder: Path | None = None
    release: str = ""
    pull_request: bool = False
    version: str = ""
    images: tuple[str, ...] = ()
    output: Path | None = None
    allow_dirty: bool = False
    url: str = ""
    signing_key: Path | None = None
    handler: str = ""
    topic: str = ""
    subscription: str = ""
    server: str = ""
    earliest: bool = False
    schema: str = ""
    files: tuple[str, ...] = ()
    to: str = ""
    only: str = ""
    writes: int | None = None
    keep: Path | None = None
    json: bool = False
    argv: tuple[str, ...] = field(default=(), compare=False)

    @property
    def again(self) -> str:
        """The same command, to be pasted."""
        return shlex.join(["python3", "-m", "infra", *self.argv])


def parse(args: Sequence[str]) -> Command:
    """Raises `SystemExit`, as argparse does, with status 2 on a usage error and 0 after `--help`."""
    argv = tuple(args)
    if argv[:1] == ("test",) and argv[1:2] not in (("-h",), ("--help",)):
        # Everything after it is pytest's, in whatever order pytest likes.
        return Command("test", rest=argv[1:], argv=argv)
    found = vars(_parser().parse_args(argv))
    rest = found.pop("rest", [])
    images, files = (tuple(found.pop(name, ())) for name in ("images", "files"))
    rest = tuple(rest[1:] if rest[:1] == ["--"] else rest)
    return Command(**found, rest=rest, images=images, files=files, argv=argv)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python3 -m infra", description=_ABOUT, epilog=_NOTES, formatter_class=raw, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)

    def add(name: str, text: str, description: str = "", **options: Any) -> argparse.ArgumentParser:
        description = description or f"{text}."
        return commands.add_parser(
            name, help=text, description=description, allow_abbrev=False, formatter_class=raw, **options
        )

    def add_for_stack(name: str, text: str) -> argparse.ArgumentParser:
        sub = add(name, text)
        sub.add_argument("stack", nargs="?", default=STACK, metavar="STACK", help=f"default: {STACK}")
        return sub

    def add_file(sub: argparse.ArgumentParser, option: str, use: str) -> None:
        sub.add_argument(option, type=Path, metavar="FILE", help=use)

    sub = add_for_stack("up", "Install what is missing and deploy the stack")
    add_file(sub, "--plan", "apply this plan of `preview --save-plan`, and nothing that it does not contain")
    sub.add_argument("--yes", action="store_true", help="change an existing cluster without asking")
    sub = add_for_stack("preview", "Show what `up` would change; needs no cluster and changes nothing")
    add_file(sub, "--markdown", "also write what would change to this file, for a pull request's comment")
    add_file(sub, "--save-plan", "also write a plan to this file, for `up --plan`")
    sub.add_argument(
        "--live",
        action="store_true",
        help="also read the cluster, and show what the new operator would do to all that runs there",
    )
    add_for_stack("drift", "Show what was changed by hand since the last `up`; exit status 3 if anything")
    add_for_stack("refresh", "Update Pulumi's state from the stack's actual resources")
    sub = add_for_stack("destroy", "Remove the stack (cluster, images, context, state) with its data")
    sub.add_argument("--yes", action="store_true", help="do not ask: for pipelines")
    add_for_stack("dev", "Run the operator from this checkout in place of the cluster's, until Ctrl-C")
    sub = add(
        "handler",
        "Run a message handler from its file on this machine, with reload, until Ctrl-C",
        _HANDLER,
        epilog=_HANDLER_NOTES,
    )
    sub.add_argument("handler", metavar="FILE[:NAME]", help="NAME is a function or class; default: handle")
    sub.add_argument("--topic", required=True, metavar="TOPIC", help="whose messages it handles")
    sub.add_argument("--subscription", default="laptop", metavar="NAME", help="default: laptop")
    sub.add_argument(
        "--earliest", action="store_true", help="a new subscription begins with the oldest message"
    )
    sub.add_argument("--schema", default="", choices=("Avro", "JSON"), help="type, as spec.schema has it")
    sub.add_argument(
        "--server", default="", metavar="ADDRESS", help="pulsar://HOST:PORT; default: the stack's"
    )
    sub.add_argument("--stack", default=STACK, metavar="STACK", help=f"default: {STACK}")
    add_for_stack("doctor", "Show what is installed and what `up` would do; changes nothing")

    sub = add(
        "promote",
        "Have a stack run the release that another one was proven with: write it down",
        "Writes the release that SOURCE was proven with (commit, contents, images by digest) into\n"
        "releases/TARGET.json.",
    )
    sub.add_argument("source", metavar="SOURCE", help="a stack that was brought up, such as staging")
    sub.add_argument("stack", metavar="TARGET", help="a stack of promoted images, such as prod")
    sub.add_argument(
        "--release",
        default="",
        metavar="COMMIT",
        help="an earlier release of TARGET, from Git's history: the way back",
    )
    sub.add_argument(
        "--pull-request",
        action="store_true",
        help="propose it: a branch, and a pull request by GitHub's API (GITHUB_TOKEN, GITHUB_REPOSITORY)",
    )
    sub = add(
        "checkout",
        "Make a folder with what a stack runs: the commit of its release, and its settings of today",
        "Makes FOLDER, a Git worktree of the commit that STACK runs, with its settings from here.",
    )
    sub.add_argument("stack", metavar="STACK", help="such as prod")
    sub.add_argument("folder", type=Path, metavar="FOLDER", help="does not exist yet, or is empty")
    sub = add(
        "release",
        "Make a release of this commit: manifests, kustomize, Helm chart, kubectl plugin, bill of materials",
        _RELEASE,
        epilog=_RELEASE_NOTES,
    )
    sub.add_argument("--version", required=True, metavar="X.Y.Z", help="a version of Semantic Versioning")
    sub.add_argument(
        "--images",
        required=True,
        nargs="+",
        action="extend",
        metavar="[NAME=]REFERENCE",
        help="each image by digest; NAME is what follows `kindling-` in the reference, if it is left out",
    )
    sub.add_argument(
        "--output", required=True, type=Path, metavar="FOLDER", help="does not exist yet, or is empty"
    )
    sub.add_argument(
        "--url",
        default="",
        metavar="ADDRESS",
        help="where its files will be downloaded from: for krew's manifest of the kubectl plugin",
    )
    sub.add_argument(
        "--signing-key",
        type=Path,
        metavar="FILE",
        help="a private key of the curve P-256, in PEM, to sign checksums and provenance with; if it is "
        "encrypted, KINDLING_SIGNING_PASSPHRASE opens it",
    )
    sub.add_argument(
        "--allow-dirty",
        action="store_true",
        help="also with files that are in no commit; the release names them",
    )
    add("renew", "Update the versions of the images' Debian packages in their lock files")
    sub = add(
        "selftest",
        "Kill the operator at each of its writes on your own manifests, on this machine",
        _SELFTEST,
        epilog=_SELFTEST_NOTES,
    )
    sub.add_argument("files", nargs="+", metavar="FILE", help="YAML, a folder of it, or - for standard input")
    sub.add_argument(
        "--to", default="", metavar="FILE", help="also change each resource to its spec in this FILE"
    )
    sub.add_argument("--only", default="", metavar="NAME", help="one resource of them: NAME, or KIND/NAME")
    sub.add_argument(
        "--writes",
        type=_positive,
        metavar="N",
        help="kill at N writes of each resource, spread out; default: all",
    )
    sub.add_argument(
        "--json", action="store_true", help="print the report as JSON, and all else to standard error"
    )
    kept = "keep the report and the logs of operator and API server in this folder, for a look afterwards"
    sub.add_argument("--keep", type=Path, metavar="FOLDER", help=kept)
    sub = add(
        "exec",
        "Run pulumi, kubectl or kind with the stack's settings and kubeconfig",
        _EXEC,
        usage="python3 -m infra exec [--stack STACK] TOOL [ARGS ...]",
        epilog=_EXEC_NOTES,
    )
    sub.add_argument("--stack", default=STACK, metavar="STACK", help=f"default: {STACK}")
    sub.add_argument("tool", choices=TOOLS, metavar="TOOL", help=", ".join(TOOLS))
    sub.add_argument("rest", nargs=argparse.REMAINDER, metavar="ARGS", help="the tool's own arguments")
    add(
        "test",
        "Set up all that the tests need, then run the linters and the tests",
        usage="python3 -m infra test [ARGS ...]",
        epilog="ARGS go to pytest, which then runs what they name: python3 -m infra test tests/unit -k plan\n"
        "If they name unit tests alone, nothing but Python's packages is set up.",
    )
    return parser

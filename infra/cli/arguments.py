"""The words of the command line and the help that explains them.

Pure: from a list of words to a `Command`. Stacks and tools are checked where they are known.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STACK = "dev"
TOOLS = ("pulumi", "kubectl", "kind")

_ABOUT = """\
Brings up Kindling: a kind cluster, the operator and its samples, through Pulumi.

Begin with `python3 -m infra up`. It says what is there, what is missing and what it will do, builds
only what this machine does not have, and can be interrupted and run again at any time.
"""
_NOTES = """\
a stack is one environment, described by a file Pulumi.STACK.yaml.

environment:
  KINDLING_CACHE     what can be built again: tools, images, Python packages (~/.cache/kindling)
  KINDLING_STATE     what can not: Pulumi's state, the passphrase (~/.local/state/kindling)
  KINDLING_ENGINE    docker or podman, where both are installed
  PULUMI_BACKEND_URL, PULUMI_CONFIG_PASSPHRASE, PULUMI_CONFIG_PASSPHRASE_FILE   as Pulumi knows them

exit status: 0 done, 1 failed (with why and what to do), 2 wrong words, 3 `drift` found some, 130 interrupted
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

FILES = {
    "up": {"plan": "apply this plan of `preview --save-plan`, and nothing that it does not say"},
    "preview": {
        "markdown": "also write what would change to this file, in words: for a pull request's comment",
        "save_plan": "also write a plan to this file, for `up --plan`",
    },
}
"""The files that a verb takes, by option, with what they are for."""

YES = {
    "up": "change an existing cluster without asking: for pipelines",
    "destroy": "do not ask: for pipelines",
}


@dataclass(frozen=True)
class Command:
    """What was asked for. `tool` is set for `exec`, `rest` for `exec` and `test`, `source` for `promote`.

    Files: `preview` writes `markdown` and `save_plan`, `up` reads `plan`.
    """

    verb: str
    stack: str = STACK
    tool: str = ""
    source: str = ""
    rest: tuple[str, ...] = ()
    yes: bool = False
    markdown: Path | None = None
    save_plan: Path | None = None
    plan: Path | None = None

    @property
    def again(self) -> str:
        """The shortest way to ask for the same."""
        words = ["python3 -m infra", self.verb]
        if self.tool:
            words += [f"--stack {self.stack}"] * (self.stack != STACK) + [self.tool, "..."]
        elif self.source:
            words += [self.source, self.stack]
        elif self.verb not in ("test", "renew") and self.stack != STACK:
            words.append(self.stack)
        for option in FILES.get(self.verb, {}):
            if (file := getattr(self, option)) is not None:
                words.append(f"{_option(option)} {file}")
        words += ["--yes"] * self.yes
        return " ".join(words)


def parse(words: Sequence[str]) -> Command:
    """Raises `SystemExit`, as argparse does, with status 2 on wrong words and 0 after `--help`."""
    words = list(words)
    if words[:1] == ["test"] and words[1:2] not in (["-h"], ["--help"]):
        # Everything after it is pytest's, in whatever order pytest likes.
        return Command("test", rest=tuple(words[1:]))
    found = _parser().parse_args(words)
    if found.verb == "promote":
        return Command("promote", stack=found.target, source=found.source)
    if found.verb != "exec":
        files = {option: getattr(found, option) for option in FILES.get(found.verb, {})}
        yes = getattr(found, "yes", False)
        return Command(found.verb, stack=getattr(found, "stack", STACK), yes=yes, **files)
    rest = found.rest[1:] if found.rest[:1] == ["--"] else found.rest
    return Command("exec", stack=found.stack, tool=found.tool, rest=tuple(rest))


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python3 -m infra", description=_ABOUT, epilog=_NOTES, formatter_class=raw, allow_abbrev=False
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, text in (
        ("up", "set up what is missing and bring the stack up; with nothing to change, take seconds"),
        ("preview", "say what `up` would change, without a cluster and without changing anything"),
        ("drift", "say what was changed by hand since the last `up`, changing nothing; 3 where anything was"),
        ("refresh", "write down in Pulumi's state what has become of the stack's resources"),
        ("destroy", "remove the stack: cluster, images, kubeconfig context, state. Data is lost"),
        ("dev", "run the operator from this checkout in place of the cluster's, until Ctrl-C"),
        ("doctor", "say what is there, in which version, and what `up` would do; change nothing"),
    ):
        sub = verbs.add_parser(
            verb, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
        )
        sub.add_argument("stack", nargs="?", default=STACK, metavar="STACK", help=f"default: {STACK}")
        for option, use in FILES.get(verb, {}).items():
            sub.add_argument(_option(option), type=Path, metavar="FILE", help=use)
        if verb in YES:
            sub.add_argument("--yes", action="store_true", help=YES[verb])
    sub = verbs.add_parser(
        "promote",
        help="have a stack run the very images that another one runs: edit its settings file",
        description="Writes the images that SOURCE runs, by digest, into the settings file of TARGET.",
        allow_abbrev=False,
    )
    sub.add_argument("source", metavar="SOURCE", help="a stack that was brought up, such as staging")
    sub.add_argument("target", metavar="TARGET", help="a stack of promoted images, such as prod")
    verbs.add_parser(
        "renew",
        help="bring the versions of the images' Debian packages up to date: edit their lock files",
        description="Asks Debian for the newest versions, and writes them into the images' lock files.",
        allow_abbrev=False,
    )
    sub = verbs.add_parser(
        "exec",
        help="run pulumi, kubectl or kind with the stack's settings and kubeconfig",
        usage="python3 -m infra exec [--stack STACK] TOOL [ARGS ...]",
        description=_EXEC,
        epilog=_EXEC_NOTES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    sub.add_argument("--stack", default=STACK, metavar="STACK", help=f"default: {STACK}")
    sub.add_argument("tool", choices=TOOLS, metavar="TOOL", help=", ".join(TOOLS))
    sub.add_argument("rest", nargs=argparse.REMAINDER, metavar="ARGS", help="the tool's own arguments")
    verbs.add_parser(
        "test",
        help="set up all that the tests need, then check and test everything",
        usage="python3 -m infra test [ARGS ...]",
        description="Sets up all that the tests need (tools, engine, images), runs the linters, then pytest.",
        epilog="ARGS go to pytest, which then runs what they name: python3 -m infra test tests/unit -k plan\n"
        "Where they name unit tests alone, nothing but Python's packages is set up.",
        allow_abbrev=False,
    )
    return parser


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

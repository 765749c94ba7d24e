"""`preview`: Pulumi's own, with the tools and the stack's settings in place.

It needs no cluster and no engine, so it looks for neither; `--live` alone reads the stack's cluster.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from infra.cli import prepare
from infra.cli.arguments import Command
from infra.cli.preview import live, markdown
from infra.cli.preview.events import lines_of, read
from infra.cli.stacks import placeholders
from infra.errors import KindlingError


def run(command: Command) -> int:
    """Show what `up` would change; with `markdown`, also on a page, which reports a failure too.

    With `live`, also what the new operator would do to what runs. That it cannot be found out is no failure.
    Nothing is written to the backend, and no lock is taken or asked for: what may only read can preview.
    """
    for file in filter(None, (command.markdown, command.save_plan)):
        _clear(file)
    # A plan is for `up`, which has nothing to do before the first promotion; a preview shows all the rest.
    if skipped := placeholders.skips(command.stack, images=command.save_plan is not None):
        _write(command.markdown, markdown.skipped(skipped, stack=command.stack))
        return 0
    if command.markdown is None and not command.live:
        _preview(command)
        return 0
    # The log is for our eyes alone: the engine's notes to itself in it do not spare secrets.
    with tempfile.TemporaryDirectory(prefix="kindling-preview-") as folder:
        events = Path(folder, "events.jsonl")
        try:
            _preview(command, events=events)
        except KindlingError as error:
            errors = read(lines_of(events)).errors or (str(error),)
            _write(command.markdown, markdown.failed("\n\n".join(errors), stack=command.stack))
            raise
        lines = lines_of(events)
    found = live.ask(command.stack, lines) if command.live else None
    if found is not None:
        sys.stdout.write(f"\n{live.text(found)}")
    section = markdown.live(found) if found is not None else ""
    _write(command.markdown, markdown.render(read(lines), stack=command.stack, live=section))
    return 0


def _write(file: Path | None, text: str) -> None:
    """The page as a file and, in a workflow of GitHub's, as part of the job's summary."""
    if file is None:
        return
    file.write_text(text, encoding="utf-8")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page_of_run:
            page_of_run.write(text)


def _preview(command: Command, *, events: Path | None = None) -> None:
    target = prepare.ready_stack(command.stack)
    args, extra = ["preview"], {}
    if events is not None:
        # The Automation API asks in the same way.
        args.append(f"--event-log={events}")
        extra["PULUMI_DEBUG_COMMANDS"] = "true"
    if command.save_plan is not None:
        args.append(f"--save-plan={command.save_plan.absolute()}")
        # What is secret in a plan is encrypted as in the state that it is for, so there must be one.
        target.prepare()
    with target.with_state() as variables:
        target.operate(*args, extra={**extra, **variables})
    if command.save_plan is not None:
        again = f"python3 -m infra up {command.stack} --plan {command.save_plan}"
        sys.stdout.write(f"\nThis and nothing else is done by: {again}\n")


def _clear(file: Path) -> None:
    """Nobody is to take what an earlier run wrote for this one's."""
    try:
        file.unlink(missing_ok=True)
        file.touch()
        file.unlink()
    except OSError as error:
        raise KindlingError(
            f"`{file}` cannot be written",
            why=os.strerror(error.errno or 0),
            remedy="name a file in a directory that is there and is yours.",
        ) from None

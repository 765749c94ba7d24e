"""`python3 -m postgres_backup backup|verify|restore|undo|load|delete`: one run, one termination message."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import Any

from postgres_backup import actions, outcome, programs, progress_page
from postgres_backup.request import Request

TERMINATION_LOG = "/dev/termination-log"
SERVED = ("restore", "load")
"""The actions whose progress is in a status."""


def _stop(number: int, _frame: FrameType | None) -> None:
    # Once: what cleans up after the first is not to be disturbed.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise outcome.Failed(
        outcome.INTERRUPTED, "the run was asked to stop: the next run starts from the beginning"
    )


def main(args: list[str]) -> int:
    """0 for a run that succeeded, 1 for one that did not, 2 for a wrong call."""
    if len(args) != 1 or args[0] not in actions.ACTIONS:
        print(f"usage: python3 -m postgres_backup {'|'.join(actions.ACTIONS)}", file=sys.stderr)
        return 2
    (action,) = args
    began = time.time()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    facts: dict[str, Any]
    if action in SERVED:
        progress_page.serve()
    try:
        facts = actions.ACTIONS[action](Request.load())
        reason, text = outcome.SUCCEEDED, facts.pop("message")
    except outcome.Failed as failed:
        reason, text, facts = failed.reason, failed.message, failed.facts
    except Exception as error:  # noqa: BLE001  # said by its name alone: its words may be anybody's
        programs.note(f"{type(error).__name__} at {_place(error)}", secrets=())
        reason, facts = outcome.ENGINE_FAILED, {}
        text = f"the run failed by itself ({type(error).__name__}): see the Pod's log, and report it"
    written = outcome.message(action, reason, text, began=began, ended=time.time(), facts=facts)
    print(written, flush=True)
    with open(os.environ.get("KINDLING_TERMINATION_LOG", TERMINATION_LOG), "w") as log:
        log.write(written)
    return 0 if reason == outcome.SUCCEEDED else 1


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "nowhere"
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

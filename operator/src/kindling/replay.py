"""`python3 -m kindling.replay FILE`: takes recorded decisions again, with this code.

FILE is a record of the flight recorder, as `kubectl kindling report` has it in `decisions.json`. Each
decision is printed with its time and whether this code takes the same one. `--test NUMBER` writes one of them
into a test that fails for as long as the code decides so.

What a record does not have is secret: values of Secrets, and what is random. A decision that is about these
alone does not come out again; private keys are taken to be those of their certificates.

Exit status: 0 all the same, 1 some are not, 2 the file is no record.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from kindling.engine import decisions
from kindling.engine.redaction import is_redacted
from kindling.engine.store import Key
from kindling.kinds import certificates
from kindling.kinds.base import Kind
from kindling.kinds.conditions import find_condition
from kindling.kinds.registry import Options, kinds_with
from kindling.kube.resources import Object

FORMAT = 1
DECISIONS = (decisions.CHILDREN, decisions.OUTSIDE, decisions.STATUS)


class NoRecord(Exception):
    """Why a file cannot be replayed, as a sentence."""


def record(key: Key, entries: Sequence[Object], options: Options) -> Object:
    """The record of a resource, as `load` reads it."""
    return {
        "format": FORMAT,
        "key": str(key),
        "kind": key.group_kind,
        "operator": {
            "images": dict(options.images),
            "operatorNamespace": options.operator_namespace,
            "localBroker": options.local_broker,
            "pullSecrets": list(options.pull_secrets),
            "certificateSeconds": options.certificate_life.total_seconds(),
        },
        "entries": list(entries),
    }


def load(path: Path) -> Object:
    """:raises NoRecord: for what is none, or one of another format."""
    try:
        found: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NoRecord(f"{path}: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NoRecord(f"{path} is no record of decisions of format {FORMAT}")
    return found


def decide(record: Object, number: int) -> Object:
    """What this code decides from what was seen then, in the form of the entry's `decided`.

    :raises NoRecord: where the entry is no decision, or the kind is not served any more.
    """
    try:
        entry = record["entries"][number]
        if entry["what"] not in DECISIONS:
            raise NoRecord(f"entry {number} is no decision: it is `{entry['what']}`")
        seen = entry["seen"]
        observed, cr = decisions.observed(seen), seen["resource"]
        sync, kind = decisions.sync_of(seen), _kind(record)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise NoRecord(f"entry {number} cannot be read: {error!r}") from None
    with _trusting():
        found: Object = json.loads(
            json.dumps(decisions.decided(kind, cr, observed, entry["what"], sync=sync), default=str)
        )
    return found


def _kind(record: Object) -> Kind:
    options = record["operator"]
    read = Options(
        images=options["images"],
        operator_namespace=options["operatorNamespace"],
        local_broker=options["localBroker"],
        pull_secrets=options["pullSecrets"],
        certificate_life=timedelta(seconds=options["certificateSeconds"]),
    )
    for kind in kinds_with(read):
        if kind.type.group_kind == record["kind"]:
            return kind
    raise NoRecord(f"no kind {record['kind']!r} is served")


class _trusting:
    """A private key is not in a record: it is taken for that of its certificate, and signs nothing."""

    def __enter__(self) -> None:
        self._as_they_are = certificates.is_pair, certificates.make_server, certificates.make_client
        is_pair, make_server, make_client = self._as_they_are
        certificates.is_pair = lambda pair: is_redacted(pair.key) or is_pair(pair)
        certificates.make_server = lambda entropy, *, authority, **rest: (
            authority if is_redacted(authority.key) else make_server(entropy, authority=authority, **rest)
        )
        certificates.make_client = lambda entropy, *, authority, **rest: (
            authority if is_redacted(authority.key) else make_client(entropy, authority=authority, **rest)
        )

    def __exit__(self, *_: object) -> None:
        certificates.is_pair, certificates.make_server, certificates.make_client = self._as_they_are


TEST = '''"""What the operator decided about {kind} {name} at {at}, from the record beside this file."""

from pathlib import Path

from kindling import replay

RECORD = Path(__file__).with_name({file!r})


def test_it_is_not_decided_again() -> None:
    """It was wrong. Say here what is right once the code decides otherwise."""
    record = replay.load(RECORD)
    assert replay.decide(record, 0) != record["entries"][0]["decided"]
'''


def write_test(record: Object, number: int, folder: Path) -> Path:
    """A test of one decision, and its record beside it. Returns the test's path."""
    decide(record, number)
    entry = record["entries"][number]
    name = record["key"].rpartition("/")[2].replace("-", "_").replace(".", "_")
    file = folder / f"decision_of_{name}_{number}.json"
    file.write_text(json.dumps({**record, "entries": [entry]}, indent=1, sort_keys=True) + "\n")
    test = folder / f"test_decision_of_{name}_{number}.py"
    test.write_text(TEST.format(kind=record["kind"], name=record["key"], at=entry["at"], file=file.name))
    return test


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kindling.replay", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, help="decisions.json of a report")
    parser.add_argument("--test", type=int, metavar="NUMBER", help="write this decision into a test")
    parser.add_argument("--into", type=Path, default=Path(), metavar="FOLDER", help="where; here if not said")
    said = parser.parse_args(argv)
    try:
        record = load(said.file)
        if said.test is not None:
            print(write_test(record, said.test, said.into))
            return 0
        differing = 0
        for number, entry in enumerate(record["entries"]):
            if entry["what"] not in DECISIONS:
                print(f"{number:3} {entry['at']} {entry['what']}: {entry.get('message', '')}")
                continue
            now = decide(record, number)
            same = now == entry["decided"]
            differing += not same
            print(f"{number:3} {entry['at']} {entry['what']}: {_said(entry['decided'])}")
            if not same:
                print(f"    this code: {_said(now)}")
    except NoRecord as error:
        print(f"kindling.replay: {error}", file=sys.stderr)
        return 2
    print(f"This code takes {differing} of them otherwise." if differing else "This code takes the same.")
    return 1 if differing else 0


def _said(decision: Object) -> str:
    if (status := decision.get("status")) is not None:
        ready = find_condition(status, "Ready")
        return f"Ready={ready.get('status')} {ready.get('reason')}: {ready.get('message')}"
    if decision.get("problem") is not None:
        return f"{decision['problem']['reason']}: {decision['problem']['message']}"
    said = [
        f"{item['action']} {item['object']}" + (f" ({', '.join(item['fields'])})" if "fields" in item else "")
        for item in decision.get("changes") or ()
    ]
    return "; ".join([*said, *(decision.get("actions") or ())]) or "nothing"


if __name__ == "__main__":
    sys.exit(main())

"""From a spec that the API server refuses to one that it takes, by its own words.

What is drawn from a schema meets few of the CRD's rules: of a hundred specs of a PulsarConsumer none does.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import MINIMAL_SPECS, Kind

ROUNDS = 50
NOT_ALL = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
OF_WHAT_IS_GONE = (NOT_ALL, "Required value")
"""Said of fields that a schema requires: what is drawn has them, until they are taken out."""
_FIELD = re.compile(r"spec(?:\.[A-Za-z]+)+")


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """`spec` is what is left, `stored` what the API server makes of it, `refused` the causes on the way."""

    spec: Json
    stored: Json
    refused: list[Json]


def admitted(api: Api, kind: Kind, spec: Json) -> Admitted:
    """The spec without the fields that are refused; what must be there has the value of the least spec."""
    left, refused = copy.deepcopy(spec), list[Json]()
    for number in range(ROUNDS):
        answer = api.create(kind.collection, kind.resource("drawn", left), dry_run=True)
        if answer.status != 422:
            return Admitted(spec=left, stored=answer.accepted()["spec"], refused=refused)
        causes: list[Json] = answer.body["details"]["causes"]
        refused += [cause for cause in causes if number == 0 or cause["message"] not in OF_WHAT_IS_GONE]
        causes = [cause for cause in causes if cause["message"] != NOT_ALL]
        for path, message in {_path(cause): cause["message"] for cause in causes}.items():
            _take_out(left, path, MINIMAL_SPECS[kind.id], message=message)
    raise AssertionError(f"after {ROUNDS} rounds {left} is still refused: {answer.message}")


def _path(cause: Json) -> tuple[str, ...]:
    """Of the field that a cause is about, without the elements of lists and maps: they go as a whole.

    A rule of the whole spec names the field in its message.
    """
    field = re.sub(r"\[.*", "", cause["field"])
    if field == "spec":
        found = _FIELD.search(cause["message"])
        assert found is not None, cause
        field = found[0]
    return tuple(field.split(".")[1:])


def _take_out(spec: Json, path: tuple[str, ...], least: Json, *, message: str) -> None:
    """The deepest part of the path that is there, since what is missing in an object is needed there.

    Where no part of it is, another field needs it, which the message names.
    """
    inner, holder = spec, spec
    for name in path:
        if not isinstance(inner, dict) or name not in inner:
            break
        inner, holder, last = inner[name], inner, name
    if holder is not inner:
        del holder[last]
    elif path[0] in least:
        spec[path[0]] = least[path[0]]
    else:
        for name in re.findall(r"spec\.(\w+)", message):
            if name not in least:
                spec.pop(name, None)

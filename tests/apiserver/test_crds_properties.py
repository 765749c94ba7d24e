"""Hundreds of specs at random, drawn from the schemas themselves, for the cases nobody thinks of.

What the schema of a field admits is stored unchanged, or refused by a CEL rule in its own words; no
rule ever breaks on it, and no value is dropped, rounded or respelt.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver.apiclient import Api
from tests.apiserver.kinds import KINDS, POSTGRESQL, Kind
from tests.unit.schema.drawing import drawn_from

EXAMPLES = settings(max_examples=150, database=None)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@EXAMPLES
@given(data=st.data())
def test_what_a_schema_admits_is_kept_or_refused_in_words(api: Api, kind: Kind, data: st.DataObject) -> None:
    spec = data.draw(drawn_from(kind.schema["properties"]["spec"]))
    answer = api.create(kind.collection, kind.resource("drawn", spec), dry_run=True)
    if answer.status == 422:
        # Only the others have rules that look beyond one field's schema.
        assert kind.manifest["spec"]["names"]["kind"] != "MyCustomResource", answer.message
        assert "evaluating rule" not in answer.message
        causes = answer.body["details"]["causes"]
        said = (
            "two spellings", "is reserved", "exceeds its limit", "not greater than 0", "is too little",
            "exactly one of them", "does not start with PULSAR_", "use 1 to 65535",
            "than an Exclusive subscription takes",
            "both give the password", "made from this resource", "which takes no volume",
            "can not be a parameter's", "lock it out", "has a line break",
        )  # fmt: skip
        assert [cause for cause in causes if not any(words in cause["message"] for words in said)] == []
    else:
        assert answer.accepted()["spec"] == spec


UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
SIZES = st.tuples(st.integers(1, 2000), st.sampled_from(sorted(UNITS)))


@EXAMPLES
@given(before=SIZES, after=SIZES)
def test_a_size_is_admitted_exactly_when_it_does_not_shrink(
    api: Api, before: tuple[int, str], after: tuple[int, str]
) -> None:
    """Sizes are compared as amounts, whatever their units: 1000M is less than 1Gi, 1024Mi is not."""
    path = f"{POSTGRESQL.collection}/sized"
    sizes = [f"{number}{unit}" for number, unit in (before, after)]
    smaller = after[0] * UNITS[after[1]] < before[0] * UNITS[before[1]]
    api.create(
        POSTGRESQL.collection, POSTGRESQL.resource("sized", {"storage": {"size": sizes[0]}})
    ).accepted()
    try:
        answer = api.merge(path, {"spec": {"storage": {"size": sizes[1]}}})
        assert answer.status == (422 if smaller else 200), answer.message
    finally:
        api.delete(path)

"""GitHub's expressions: what each is worth, and that nothing unknown is worth anything."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.expressions import ExpressionError, Open, Scope

GITHUB = {
    "event_name": "push",
    "repository": "Ada/kindling",
    "event": Open({"number": 7, "head": {"ref": "x"}}),
}
CONTEXTS: dict[str, Any] = {
    "github": GITHUB,
    "secrets": Open({"TOKEN": "t"}),
    "matrix": {"stack": "dev", "many": [1.0, "two"]},
    "needs": {"preview": {"result": "failure", "outputs": {}}},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("github.event_name == 'push'", True),
        ("github.event_name == 'PUSH'", True),
        ("github.event_name != 'push'", False),
        ("github['event_name']", "push"),
        ("github.repository == 'ada/kindling' && github.event.number", 7),
        ("github.event.pull_request.head.repo.full_name", None),
        ("github.event.pull_request.head.repo.full_name == github.repository", False),
        ("github.event.head.ref", "x"),
        ("github.event.head.sha", None),
        ("secrets.TOKEN || 'none'", "t"),
        ("secrets.token", "t"),
        ("secrets.OTHER || 'none'", "none"),
        ("secrets.OTHER == ''", True),
        ("!secrets.OTHER", True),
        ("'' && true || 'else'", "else"),
        ("true && 'then' || 'else'", "then"),
        ("(true || false) && false", False),
        ("true || false && false", True),
        ("'it''s'", "it's"),
        ("1 == '1'", True),
        ("null == 0", True),
        ("'a' == 0", False),
        ("2 > 1 && 1 <= 1", True),
        ("matrix.many[1]", "two"),
        ("contains(matrix.many, 'TWO')", True),
        ("contains(github.repository, 'ada')", True),
        ("startsWith(github.repository, 'ada/')", True),
        ("endsWith(github.repository, '/other')", False),
        ("format('{0}-{1} {{0}}', matrix.stack, 2)", "dev-2 {0}"),
        ("join(matrix.many, '-')", "1-two"),
        ("fromJSON('[\"dev\"]')[0]", "dev"),
        ("toJSON(matrix.stack)", '"dev"'),
        ("needs.preview.result == 'failure'", True),
        ("always() && needs.preview.result == 'success'", False),
    ],
)
def test_an_expression_is_worth_what_github_says(expression: str, value: object) -> None:
    found = Scope(CONTEXTS).evaluate(expression)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("githup.event_name", "there is no context `githup` here"),
        ("github.evnt", "github has no `evnt`"),
        ("matrix.stck", "matrix has no `stck`, only stack, many"),
        ("needs.test.result", "needs has no `test`, only preview"),
        ("needs.preview.outputs.digest", "needs.preview.outputs has no `digest`"),
        ("matrix.stack.name", "matrix.stack has nothing below it"),
        ("hash('x')", "there is no function `hash` here"),
        ("format('{1}', 1)", "format()"),
        ("hashFiles('*')", "needs a workspace"),
        ("github.event_name = 'push'", "not understood from `= 'push'`"),
        ("github.event_name == ", "it ends too early"),
        ("(true", "`)` is missing"),
        ("true true", "`true` was not expected"),
        ('"double"', "not understood"),
    ],
)
def test_what_is_unknown_or_broken_is_an_error_that_names_it(expression: str, named: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Scope(CONTEXTS).evaluate(expression)
    assert named in str(caught.value)
    assert expression.strip() in str(caught.value)


def test_a_text_is_filled_and_a_lone_expression_keeps_its_type() -> None:
    scope = Scope(CONTEXTS)
    assert scope.fill("up-${{ matrix.stack }}-${{ secrets.OTHER }}.") == "up-dev-."
    assert scope.value("${{ matrix.stack }}-${{ matrix.stack }}") == "dev-dev"
    assert scope.value({"a": "${{ github.event.number }}", "b": ["${{ matrix.stack }}!"]}) == {
        "a": 7,
        "b": ["dev!"],
    }


@pytest.mark.parametrize(
    ("condition", "after_success", "after_failure"),
    [
        (None, True, False),
        ("github.event_name == 'push'", True, False),
        ("${{ github.event_name == 'schedule' }}", False, False),
        ("always()", True, True),
        ("${{ !cancelled() }}", True, True),
        ("failure()", False, True),
        ("always() && github.event_name == 'push'", True, True),
        (False, False, False),
    ],
)
def test_without_a_word_on_it_a_step_runs_after_success_alone(
    condition: object, after_success: bool, after_failure: bool
) -> None:
    assert Scope(CONTEXTS).holds(condition) is after_success
    assert Scope(CONTEXTS, status="failure").holds(condition) is after_failure


def test_files_are_hashed_by_their_content_and_an_edit_below_a_folder_shows(tmp_path: Path) -> None:
    (tmp_path / "infra/deep").mkdir(parents=True)
    (tmp_path / "infra/deep/a.py").write_text("a")
    (tmp_path / "requirements.txt").write_text("b")
    scope = Scope({}, workspace=tmp_path)
    before = scope.evaluate("hashFiles('infra/**', 'requirements*.txt')")
    inner = hashlib.sha256(b"a").digest() + hashlib.sha256(b"b").digest()
    assert before == hashlib.sha256(inner).hexdigest()
    (tmp_path / "infra/deep/a.py").write_text("c")
    assert scope.evaluate("hashFiles('infra/**', 'requirements*.txt')") != before
    assert scope.evaluate("hashFiles('nothing/**')") == ""

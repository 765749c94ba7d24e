"""The faults that the core's tests are tried by: each is one, and none is where only people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.mutants import Mutant, compiled, mutants
from bench.mutation import MutationReport


def of(text: str, folder: Path) -> list[Mutant]:
    (folder / "module.py").write_text(text)
    return mutants("module.py", root=folder)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("x = a == b", ["a == b: NotEq for Eq"]),
        ("x = a <= b", ["a <= b: Lt for LtE"]),
        ("x = a in b", ["a in b: NotIn for In"]),
        ("x = a is b", ["a is b: IsNot for Is"]),
        ("x = a and b", ["a and b: Or for And"]),
        ("x = not a", ["not a: without not"]),
        ("x = a + b", ["a + b: Sub for Add"]),
        ("x = a | b", ["a | b: BitAnd for BitOr"]),
        ("x = True", ["False for True"]),
        ("x = 1", ["2 for 1"]),
        ("x = 'a'", ["'a~' for 'a'"]),
        ("def f():\n    return a", ["return a: returns None"]),
        ("if a:\n    b = c", ["if a: never", "if a: always"]),
        ("x = a if b else c", ["a if b else c: always the first", "a if b else c: always the other"]),
        ("f()", ["f(): left out"]),
        ("a += b", ["a += b: left out"]),
        ("raise A", ["raise A: left out"]),
        ("del a", ["del a: left out"]),
        ("while a:\n    break", ["break: left out"]),
        ("while a:\n    continue", ["continue: left out"]),
        ("a.b = c", ["a.b = c: left out"]),
        ("a[b] = c", ["a[b] = c: left out"]),
    ],
)
def test_each_kind_of_fault_is_found_and_makes_another_module(
    text: str, faults: list[str], tmp_path: Path
) -> None:
    found = of(text, tmp_path)
    assert [one.fault for one in found] == faults
    sound = compile(text, str(tmp_path / "module.py"), "exec")
    for one in found:
        assert compiled(one, root=tmp_path) != sound


@pytest.mark.parametrize(
    "text",
    [
        '"""What it is for."""',
        "import a",
        "from a import b",
        "log.warning('it is late')",
        "x = f'{a} is late'",
        "message = 'it is late'",
        "x = f(message='it is late')",
        "x: Literal['a']",
        "def f(x: 'A') -> 'B':\n    pass",
        "class A(Protocol):\n    x = 1",
        "def __str__(self):\n    return 'a'",
        "x = None",
        "def f():\n    return None",
    ],
)
def test_words_for_people_and_types_are_left_alone(text: str, tmp_path: Path) -> None:
    assert of(text, tmp_path) == []


def test_a_fault_is_in_its_place_and_nowhere_else(tmp_path: Path) -> None:
    first, second = of("x = [1, 1]", tmp_path)
    for one, expected in ((first, [2, 1]), (second, [1, 2])):
        names: dict[str, object] = {}
        exec(compiled(one, root=tmp_path), names)
        assert names["x"] == expected


def mutant(path: str, line: int, fault: str) -> Mutant:
    return Mutant(path, line, line, fault)


def test_again_reports_which_survivors_are_noticed_now_wherever_they_moved() -> None:
    before = MutationReport.of(
        {
            mutant("a.py", 1, "seen"): "noticed",
            mutant("a.py", 2, "never seen"): "survived",
            mutant("a.py", 3, "seen at last"): "survived",
            mutant("b.py", 4, "taken out"): "survived",
        },
        mutants=9,
        seed=1,
    )
    assert (before.tried, before.noticed) == (4, 0.25)
    after = before.again(
        {
            mutant("a.py", 12, "never seen"): "survived",
            mutant("a.py", 13, "seen at last"): "timed out",
            mutant("a.py", 22, "never seen"): "survived",  # a place that was not in the sample
        },
        mutants=8,
    )
    assert after.survivors == ["a.py:12: never seen"]
    assert (after.mutants, after.tried, after.noticed) == (8, 3, 0.6667)
    assert after.results == {"gone": 1, "noticed": 2, "survived": 1}
    assert after.modules == {"a.py": {"tried": 3, "survived": 1}}

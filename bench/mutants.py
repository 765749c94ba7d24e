"""Small faults, as a hurried hand makes them: every place of a module where one can be put in.

Apart from the runner, which tries them: here a module's text becomes a list of mutants, always in the same
order. Left alone is what no test should hold fast: words for people (messages, logs), types, docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.FloorDiv: ast.Mult,
}  # fmt: skip
WORDS = frozenset({"message", "serving", "extra"})
LOGS = frozenset({"log", "_log", "info", "warning", "exception"})

Apply = Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """The module at `path` with its `number`-th fault."""

    path: str
    number: int
    line: int
    fault: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.fault}"

    @property
    def lasting(self) -> str:
        """Its text without the line, which moves when others are edited; it may be that of several places."""
        return lasting(str(self))


def lasting(text: str) -> str:
    return re.sub(r":\d+: ", ": ", text, count=1)


def mutants(path: str, *, root: Path) -> list[Mutant]:
    """All of a module."""
    tree = ast.parse((root / path).read_text())
    return [Mutant(path, number, line, fault) for number, (line, fault, _) in enumerate(_faults(tree))]


def compiled(mutant: Mutant, *, root: Path) -> CodeType:
    """The module with its fault."""
    tree = ast.parse((root / mutant.path).read_text())
    list(_faults(tree))[mutant.number][2]()
    return compile(ast.fix_missing_locations(tree), str(root / mutant.path), "exec")


def _faults(node: ast.AST) -> Iterator[tuple[int, str, Apply]]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _for_people(node, child):
                continue

            def put(new: ast.AST, field: str = field, index: int = index, value: object = value) -> None:
                if isinstance(value, list):
                    value[index] = new
                else:
                    setattr(node, field, new)

            for fault, new in _of(child):
                yield child.lineno, fault, lambda put=put, new=new: put(new)  # type: ignore[misc, attr-defined]
            yield from _faults(child)


def _for_people(parent: ast.AST, child: ast.AST) -> bool:
    match child:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in LOGS:
            return True
        case ast.keyword(arg=name) if name in WORDS:
            return True
        case ast.Assign(targets=[ast.Name(id="log" | "message" | "__all__")]) | ast.AnnAssign(value=None):
            return True
        case ast.Assign(value=ast.Subscript()):
            return isinstance(parent, ast.Module)
        case ast.ClassDef():
            return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in child.bases)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return child.name in ("__str__", "__repr__")
        case ast.Call(func=ast.Name(id="TypeVar")):
            return True
    return False


def _of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What can be put in a node's place, with words for it."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            other = COMPARISONS[type(op)]
            yield (
                f"{ast.unparse(node)}: {other.__name__} for {type(op).__name__}",
                ast.Compare(node.left, [other()], node.comparators),
            )
        case ast.BoolOp(op=op):
            flipped = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield (
                f"{_short(node)}: {type(flipped).__name__} for {type(op).__name__}",
                ast.BoolOp(flipped, node.values),
            )
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"{_short(node)}: without not", operand
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            instead = ARITHMETIC[type(op)]
            yield (
                f"{_short(node)}: {instead.__name__} for {type(op).__name__}",
                ast.BinOp(node.left, instead(), node.right),
            )
        case ast.Constant(value=bool() as truth):
            yield f"{not truth} for {truth}", ast.Constant(not truth)
        case ast.Constant(value=int() | float() as number):
            yield f"{number + 1} for {number}", ast.Constant(number + 1)
        case ast.Constant(value=str() as text):
            yield f"{text + '~'!r} for {text!r}", ast.Constant(text + "~")
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield f"{_short(node)}: returns None", ast.Return(ast.Constant(None))
        case ast.If(test=test):
            yield f"if {_short(test)}: never", ast.If(ast.Constant(False), node.body, node.orelse)
            yield f"if {_short(test)}: always", ast.If(ast.Constant(True), node.body, node.orelse)
        case ast.IfExp(test=test):
            yield f"{_short(node)}: always the first", node.body
            yield f"{_short(node)}: always the other", node.orelse
        case (
            ast.Expr(value=ast.Call() | ast.Await())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
            | ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue()
        ):  # fmt: skip
            yield f"{_short(node)}: left out", ast.Pass()


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) < 80 else f"{text[:77]}..."

"""The kinds that the cluster serves, from its own list: every type of the category `kindling`.

Nothing here knows the kinds by name, so one that is added later is served by an older plugin. Pure, but for
`served`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubectl_kindling import failures
from kubectl_kindling.errors import FAILED, USAGE, PluginError
from kubectl_kindling.kubectl import Kubectl

CATEGORY = "kindling"


@dataclass(frozen=True)
class Type:
    """A served type of resource; `shorts` are kubectl's short names of it."""

    plural: str
    group: str
    version: str
    kind: str
    shorts: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """The name that no other type has, as kubectl takes it."""
        return f"{self.plural}.{self.group}"

    @property
    def group_kind(self) -> str:
        """As the label `kindling.dev/kind` of children and the operator's log have it."""
        return f"{self.kind.lower()}.{self.group}"

    def is_called(self, word: str) -> bool:
        singular = self.kind.lower()
        names = (self.plural, singular, *self.shorts, self.full, self.group_kind)
        return word.lower() in names


@dataclass(frozen=True)
class Reference:
    """KIND/NAME as it was typed."""

    kind: str
    name: str


def served(kubectl: Kubectl) -> list[Type]:
    """Raises `PluginError` where no cluster answers, or it has none of our definitions."""
    words = ("api-resources", f"--categories={CATEGORY}", "--no-headers")
    found = kubectl.ask(*words)
    # Where another API of the cluster is down, kubectl prints what it knows and fails.
    types = parse(found.stdout)
    if found.status != 0 and not types:
        raise failures.error_of(words, found.status, found.stderr)
    if not types:
        raise PluginError(
            "the cluster has none of Kindling's kinds",
            why=f"it serves no type of the category `{CATEGORY}`",
            remedy="install the operator, or name another context with --context.",
        )
    return types


def parse(table: str) -> list[Type]:
    """The rows of `kubectl api-resources`: name, short names where there are some, version, scope, kind."""
    found = []
    for line in table.splitlines():
        columns = line.split()
        if len(columns) < 4 or columns[-2] not in ("true", "false") or "/" not in columns[-3]:
            continue
        group, _, version = columns[-3].partition("/")
        shorts = tuple(columns[1].split(",")) if len(columns) == 5 else ()
        found.append(Type(columns[0], group, version, columns[-1], shorts))
    return sorted(found, key=lambda each: (each.kind, each.group))


def reference(text: str) -> Reference:
    """KIND/NAME; raises `PluginError` for anything else."""
    kind, slash, name = text.partition("/")
    if not (kind and slash and name) or "/" in name:
        raise PluginError(
            f"`{text}` names no resource",
            why="a resource is named KIND/NAME",
            remedy="write for example postgresql/mydb; `kubectl kindling status` lists them.",
            status=USAGE,
        )
    return Reference(kind, name)


def called(types: Sequence[Type], word: str) -> list[Type]:
    """Each type that goes by this name; raises `PluginError` where there is none."""
    found = [each for each in types if each.is_called(word)]
    if not found:
        raise PluginError(
            f"there is no kind `{word}`",
            why=f"the cluster serves {', '.join(each.full for each in types)}",
            remedy="name one of these, by its singular or its short name if you like.",
            status=USAGE,
        )
    return found


def of_kind(types: Sequence[Type], kind: str) -> list[Type]:
    """Each served type of this kind, in whatever group; raises `PluginError` where there is none."""
    found = [each for each in types if each.kind == kind]
    if not found:
        raise PluginError(
            f"the cluster does not serve {kind}",
            why=f"it serves {', '.join(each.full for each in types)}",
            remedy="name a cluster that does, with --context.",
            status=FAILED,
        )
    return found


def shortest(type: Type, types: Sequence[Type]) -> str:
    """The shortest name that means this type alone: the kind's, else a short name, else the whole."""
    if len([each for each in types if each.is_called(type.kind)]) == 1:
        return type.kind.lower()
    for short in type.shorts:
        if len([each for each in types if each.is_called(short)]) == 1:
            return short
    return type.full

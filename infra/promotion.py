"""Promotion: what one stack was proven with, written down as what another runs. Text to text.

`python -m infra.promotion SOURCE TARGET` is the half of the verb that can read YAML: it takes SOURCE's
output `images` as JSON and edits TARGET's settings file. Only the lines of `kindling:images` are touched,
so comments and order stay; that the file then says what was meant is checked before it is written.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import paths, setting_values, settings
from infra.errors import KindlingError
from infra.settings import PROJECT

KEY = f"{PROJECT}:images"
_ENTRY = re.compile(r"(?P<before>\s*(?P<name>[a-z0-9-]+):\s+)(?P<value>[^\s#]+)(?P<after>\s*(#.*)?)")


@dataclass(frozen=True)
class Change:
    """One image of the target, by the references it had and gets; empty for none."""

    name: str
    before: str
    after: str


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """What differs, by name."""
    names = sorted({*before, *after})
    found = [Change(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [change for change in found if change.before != change.after]


def checked(images: object, *, source: str) -> dict[str, str]:
    """The source's output, if it can be promoted: each image by the digest that a registry has it under."""
    found = setting_values.promoted(json.dumps(images)) if images else None
    if not found:
        raise KindlingError(
            f"stack `{source}` has no images that can be promoted",
            why="its output `images` must name each by its digest in a registry"
            + ("; those of a kind cluster are on its nodes alone" if images else ", and is missing"),
            remedy=f"promote from a stack with kindling:cluster existing, after python3 -m infra up {source}",
        )
    return found


def with_images(text: str, images: Mapping[str, str]) -> str:
    """The settings file with these images, every other line as it was."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(rf"\s+{re.escape(KEY)}:", line)), None)
    if start is None:
        config = next((n for n, line in enumerate(lines) if re.match(r"config:\s*(#.*)?$", line)), None)
        if config is None:
            lines, config = [*lines, "config:"], len(lines)
        # At the end of `config`, indented as its other keys are.
        end = next((n for n in range(config + 1, len(lines)) if _top(lines[n])), len(lines))
        while end > config + 1 and not lines[end - 1].strip():
            end -= 1
        keys = [
            line for line in lines[config + 1 : end] if line.strip() and not line.lstrip().startswith("#")
        ]
        margin = _margin(keys[0]) if keys else "  "
        lines[end:end] = _block(margin, images)
        return "\n".join(lines) + "\n"
    margin = _margin(lines[start])
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or len(_margin(lines[end])) > len(margin)):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    header = re.sub(r"(images:)\s+\{[^{}]*\}", r"\1", lines[start])
    lines[start:end] = [header, *_entries(lines[start + 1 : end], margin, images)]
    return "\n".join(lines) + "\n"


def _entries(old: list[str], margin: str, images: Mapping[str, str]) -> list[str]:
    """The old lines with new values, without those of images that are gone, and the new ones."""
    left, new = dict(images), []
    for line in old:
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            new.append(line)
        elif (reference := left.pop(entry["name"], None)) is not None:
            new.append(f"{entry['before']}{reference}{entry['after']}")
    entries = [line for line in old if _ENTRY.fullmatch(line)]
    inner = _margin(entries[0]) if entries else f"{margin}  "
    return [*new, *(f"{inner}{name}: {reference}" for name, reference in left.items())]


def _block(margin: str, images: Mapping[str, str]) -> list[str]:
    return [f"{margin}{KEY}:", *(f"{margin}  {name}: {reference}" for name, reference in images.items())]


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _top(line: str) -> bool:
    return bool(line.strip()) and not line[0].isspace() and not line.startswith("#")


def _once(text: str, key: str) -> bool:
    """Whether the key stands in one place: YAML's reader takes the last of two without a word."""
    return len(re.findall(rf"^[^#\n]*\b{re.escape(key)}[\"']?:", text, re.MULTILINE)) == 1


def write(path: Path, images: Mapping[str, str]) -> None:
    """Edit the file, complete or not at all; raises `KindlingError` where its form is not understood."""
    import yaml

    before = path.read_text(encoding="utf-8")
    after = with_images(before, images)
    wanted = yaml.safe_load(before) or {}
    wanted["config"] = {**(wanted.get("config") or {}), KEY: dict(images)}
    try:
        understood = yaml.safe_load(after) == wanted and _once(after, "config") and _once(after, KEY)
    except yaml.YAMLError:
        understood = False
    if not understood:
        raise KindlingError(
            f"{path.name} has a form that can not be edited here",
            why=f"{KEY} must stand below `config`, as a block of lines NAME: REFERENCE",
            remedy="write it so, or by hand:\n" + "\n".join(_block("  ", images)),
        )
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(after, encoding="utf-8")
    os.replace(partial, path)


def promote(source: str, target: str, images: object) -> str:
    """Edit the target's file; returns what to tell. Raises `KindlingError`, with the file as it was."""
    found = checked(images, source=source)
    chosen = settings.read(target)
    if chosen.images.source != settings.PROMOTED:
        raise KindlingError(
            f"stack `{target}` does not run promoted images",
            why="its kindling:imageSource is not `promoted`",
            remedy=f"set that in Pulumi.{target}.yaml, or promote to another stack.",
        )
    differing = changes(chosen.images.promoted, found)
    if not differing:
        return f"Stack {target} has the images of stack {source} already; nothing was written."
    path = paths.REPOSITORY / f"Pulumi.{target}.yaml"
    write(path, found)
    told = [f"{path.name} now has the images of stack {source}:"]
    for change in differing:
        told.append(f"  {change.name}: {_short(change.before)} -> {_short(change.after)}")
    return "\n".join(told)


def _short(reference: str) -> str:
    """A reference with as much of its digest as people compare."""
    place, _, digest = reference.partition("@sha256:")
    return f"{place}@sha256:{digest[:12]}" if digest else reference or "none"


def main(source: str, target: str) -> None:
    """The other half of the verb, run by `infra.cli.promote`."""
    answer: dict[str, Any]
    try:
        answer = {"told": promote(source, target, json.load(sys.stdin))}
    except KindlingError as error:
        answer = {"error": {"what": error.what, "why": error.why, "remedy": error.remedy}}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

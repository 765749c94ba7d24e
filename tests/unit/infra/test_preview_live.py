"""What runs, in a preview: the operator's variables of Pulumi's events, part of the page, failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.cli.preview import live, markdown
from infra.cli.preview.events import UNKNOWN, Preview
from infra.cli.preview.live import Live
from infra.cli.stacks import kubectl
from infra.errors import KindlingError
from tests.unit.infra.test_preview_events import DEPLOYMENT, step

IMAGE = "KINDLING_IMAGE_MEMCACHED"


def inputs(*env: dict[str, Any]) -> dict[str, Any]:
    containers = [
        {"name": "operator", "env": list(env)},
        {"name": "prober", "env": [{"name": "KINDLING_NO"}]},
    ]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


OLD = inputs({"name": IMAGE, "value": "memcached:1"})
FROM_POD = {"name": "KINDLING_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
NEW = inputs({"name": IMAGE, "value": "memcached:2"}, {"name": "OTHER", "value": "x"}, FROM_POD)


def deployment(op: str, *, old: Any = OLD, new: Any = NEW, name: str = "operator-deployment") -> str:
    return step(op, type=DEPLOYMENT, name=name, old=old, new=new)


@pytest.mark.parametrize("op", ["same", "update", "replace"])
def test_the_variables_are_those_of_the_previewed_program(op: str) -> None:
    assert live.variables([step("same"), deployment(op)]) == {IMAGE: "memcached:2"}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [deployment("create", old=None)],
        [deployment("delete", new=None)],
        [deployment("update", name="another-deployment")],
    ],
)
def test_a_stack_without_an_operator_is_not_asked(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_diff", lambda *_: pytest.fail("the cluster was asked"))
    assert live.ask("dev", lines).missing.startswith("The stack has no operator yet")


def test_an_image_that_is_known_later_counts_as_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def diff(stack: str, env: dict[str, str]) -> dict[str, Any]:
        asked.append((stack, dict(env)))
        return FOUND

    monkeypatch.setattr(live, "_diff", diff)
    new = inputs({"name": IMAGE, "value": UNKNOWN}, {"name": "KINDLING_KINDS", "value": "Memcached"})
    found = live.ask("dev", [deployment("update", new=new)])
    assert asked == [("dev", {IMAGE: "known-later.invalid/memcached", "KINDLING_KINDS": "Memcached"})]
    assert found.images == (IMAGE,)
    for text in (live.text(found), markdown.live(found)):
        assert f"Known only after `up`, and taken for other images: {IMAGE}." in text


@pytest.mark.parametrize(
    "new", [inputs({"name": "KINDLING_KINDS", "value": UNKNOWN}), {"spec": {"template": UNKNOWN}}]
)
def test_what_is_not_known_of_the_configuration_is_not_guessed(
    new: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_diff", lambda *_: pytest.fail("the cluster was asked"))
    assert live.ask("dev", [deployment("update", new=new)]).missing.startswith("Not known before `up`")


def test_a_failure_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KindlingError("kubectl ended", why="there is no ```context``` `prod`")

    monkeypatch.setattr(live, "_diff", fail)
    found = live.ask("prod", [deployment("same")])
    page = markdown.render(Preview(unchanged=3), stack="prod", live=markdown.live(found))
    assert "What it would do is not known.\n\n````text\nthere is no ```context``` `prod`\n````" in page
    assert "3 resources stay as they are." in page
    assert live.text(found).endswith("is not known: there is no ```context``` `prod`\n")


def resource(name: str, *rows: dict[str, Any], changes: bool = True) -> dict[str, Any]:
    return {"kind": "Memcached", "namespace": "shop", "name": name, "changes": changes, "rows": list(rows)}


ROW = {
    "object": "Deployment/cache",
    "effect": "is updated; Pods cache-1, cache-2 roll, at once",
    "fields": [{"path": "spec.image", "old": "a|b", "new": "c"}],
}
FOUND: dict[str, Any] = {
    "summary": "2 Pods roll, no data is touched",
    "resources": [resource("cache", ROW), resource("same", changes=False)],
    "notServed": ["backups.example.com"],
    "notCovered": "Not covered: something.",
}


def test_the_part_of_the_page() -> None:
    text = markdown.live(Live(found=FOUND))
    assert text.splitlines()[2] == "**2 Pods roll, no data is touched.**"
    assert (
        "| Memcached `shop/cache` | `Deployment/cache` | `is updated; Pods cache-1, cache-2 roll, at once` |"
    ) in text
    assert "- Memcached `cache` `Deployment/cache` `spec.image`: `a|b` → `c`" in text
    assert "same" not in text
    assert "<sub>The cluster has no definition of backups.example.com yet.</sub>" in text
    assert text.endswith("<sub>Not covered: something.</sub>")


def test_what_users_wrote_cannot_end_a_cell_and_much_of_it_fits() -> None:
    hostile = {"object": "", "effect": "becomes invalid: `a` | b\n\n# c" + "x" * 9999, "fields": []}
    rows = [resource(f"cache-{number}", hostile) for number in range(2000)]
    text = markdown.live(Live(found={**FOUND, "resources": rows}))
    assert "\n# c" not in text
    assert "`a` \\| b # c" in text
    assert f"And {2000 - markdown.MOST_ROWS} more" in text
    assert len(markdown.render(Preview(), stack="dev", live=text)) < markdown.MOST


def test_the_kubeconfig_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def call(stack: str, program: Path, *args: str) -> str:
        asked.append((stack, args))
        return "secret"

    monkeypatch.setattr(kubectl, "call", call)
    with live._kubeconfig("prod", Path("kubectl")) as path:
        assert (path.read_text(), path.stat().st_mode & 0o777) == ("secret", 0o600)
    assert not path.parent.exists()
    assert asked == [("prod", ("config", "view", "--minify", "--flatten", "--raw"))]

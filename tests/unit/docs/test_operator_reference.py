"""docs/reference/operator.md says what the operator's configuration, its Pod and its images are."""

from __future__ import annotations

import logging
import re
from dataclasses import fields, replace
from typing import Any

import pytest
from kindling.config import Config

from infra import program, settings
from infra.paths import REPOSITORY
from infra.settings import BrokerSettings
from tests.unit.docs.pages import rows, strings, text, trees
from tests.unit.infra.fakes import declare

PAGE = "reference/operator.md"


def table(heading: str) -> list[list[str]]:
    """The rows below one `##` heading, up to the next."""
    return rows(text(PAGE).split(f"\n## {heading}\n")[1].split("\n## ")[0])


VARIABLES = {row[0].strip("`"): row for row in table("Environment variables") if len(row) == 4}
IMAGES = {row[0].strip("`"): row for row in table("Environment variables") if len(row) == 3}


@pytest.fixture(scope="module")
def containers() -> dict[str, Any]:
    """The containers of the operator's Pod by name, as stack dev has them."""
    bare = replace(settings.read("dev"), broker=BrokerSettings(enabled=False))
    graph = declare(lambda: program.build(bare), stack="dev", preview=False)
    spec = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    return {one["name"]: one for one in spec["containers"]}


def test_every_variable_that_is_read_has_a_row() -> None:
    ((_, config),) = trees("config.py")
    read = {word for found in strings(config) for word in re.findall(r"^KINDLING_[A-Z_]+[A-Z]$", found)}
    assert set(VARIABLES) == read
    folders = {path.name for path in (REPOSITORY / "operator" / "images").iterdir() if path.is_dir()}
    assert set(IMAGES) == {f"KINDLING_IMAGE_{name.upper().replace('-', '_')}" for name in folders}
    for name, (_, kind, folder) in IMAGES.items():
        assert folder == f"`operator/images/{name.removeprefix('KINDLING_IMAGE_').lower().replace('_', '-')}`"
        kinds = set(kind.lower().split(", "))
        assert kinds <= {"postgresql", "backup", "restore", "memcached", "pulsarconsumer"}


def test_each_default_is_the_one_in_force() -> None:
    config = Config.load({})
    by_variable = {f"KINDLING_{found.name.upper()}": getattr(config, found.name) for found in fields(config)}
    for name, (_, default, *_) in VARIABLES.items():
        value = by_variable[name]
        if name == "KINDLING_LOG_LEVEL":
            value = logging.getLevelName(value)
        if name == "KINDLING_POD":
            assert default == "the host's name"
        elif value in ("", (), None):
            assert default.startswith("empty"), name
        else:
            assert default == f"`{int(value) if isinstance(value, bool) else value}`", name


def test_a_bound_is_the_one_that_is_checked() -> None:
    bounded = {name: row for name, row in VARIABLES.items() if re.search(r"1 to \d+", row[2])}
    assert len(bounded) == 3
    for name, row in bounded.items():
        found = re.search(r"1 to (\d+)", row[2])
        assert found is not None
        for value, good in ((found[1], True), (str(int(found[1]) + 1), False)):
            if good:
                Config.load({name: value})
            else:
                with pytest.raises(Exception, match=name):
                    Config.load({name: value})


def test_the_settings_exist() -> None:
    known = set(re.findall(r"^  (?:kindling:)?(\w+):$", (REPOSITORY / "Pulumi.yaml").read_text(), flags=re.M))
    for row in VARIABLES.values():
        for setting in re.findall(r"`(\w+)`", row[3].partition(":")[0]):
            assert setting in known | {"dev"}, row[0]


def test_probes_and_resources_are_those_of_the_pod(containers: dict[str, Any]) -> None:
    probes = table("Probes")
    assert [row[0] for row in probes] == ["startup", "liveness", "readiness"]
    for name, path, period, failures, timeout in probes:
        probe = containers["operator"][f"{name}Probe"]
        assert path == f"`{probe['httpGet']['path']}`"
        assert (period, timeout) == (f"{probe['periodSeconds']:g} s", f"{probe['timeoutSeconds']:g} s")
        assert failures == f"{probe['failureThreshold']:g}"
    resources = table("Resources and replicas")
    assert len(resources) == 4
    for what, request, limit in resources:
        found = re.fullmatch(r"container `(\w+)`, (\w+)", what)
        assert found is not None
        given = containers[found[1]]["resources"]
        assert (given["requests"][found[2]], given["limits"][found[2]]) == (request, limit)

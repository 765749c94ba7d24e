"""When an image is pulled, said of each container so that it follows the image that is named now."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds import restricted
from kindling.kinds.contract import Kind

from tests.unit.schema.worlds import KINDS, SAMPLES, applied, as_created, nothing


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("postgres", "Always"),
        ("registry.example:5000/team/postgres", "Always"),
        ("postgres:latest", "Always"),
        ("postgres:latest@sha256:00", "Always"),
        ("postgres:17", "IfNotPresent"),
        ("registry.example:5000/team/postgres:17", "IfNotPresent"),
        ("registry.example:5000/team/postgres@sha256:00", "IfNotPresent"),
        ("postgres:17@sha256:00", "IfNotPresent"),
    ],
)
def test_latest_is_pulled_each_time_and_nothing_else(name: str, policy: str) -> None:
    assert restricted.image(name) == {"image": name, "imagePullPolicy": policy}


SECRETS = [{"name": "registry"}, {"name": "mirror"}]
RUNNING = [sample for sample in SAMPLES.values() if sample["kind"] != "MyCustomResource"]


@pytest.mark.parametrize("sample", RUNNING, ids=lambda sample: str(sample["kind"]))
@pytest.mark.parametrize("given", [None, [], SECRETS], ids=["left out", "empty", "two"])
def test_images_are_pulled_with_the_secrets_of_the_spec(
    sample: dict[str, Any], given: list[dict[str, str]] | None
) -> None:
    """Without any, the template is what it was: another one would restart everything at an upgrade."""
    cr = as_created(
        {**sample, "spec": {**sample["spec"], **({} if given is None else {"imagePullSecrets": given})}}
    )
    kind: Kind = KINDS[f"{str(sample['kind']).lower()}.{str(sample['apiVersion']).partition('/')[0]}"]
    done = applied(kind, cr, nothing())
    templates = [
        child.body["spec"].get("template") for child in kind.desired(cr, done) if "spec" in child.body
    ]
    (pod,) = (template["spec"] for template in templates if template)
    assert pod.get("imagePullSecrets") == (given or None)


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
def test_each_container_says_when_its_image_is_pulled(sample: dict[str, object]) -> None:
    cr = as_created(sample)
    kind: Kind = KINDS[f"{str(sample['kind']).lower()}.{str(sample['apiVersion']).partition('/')[0]}"]
    done = applied(kind, cr, nothing())
    for child in kind.desired(cr, done):
        pod = child.body.get("spec", {}).get("template", {}).get("spec", {})
        for container in [*pod.get("initContainers", ()), *pod.get("containers", ())]:
            assert container.items() >= restricted.image(container["image"]).items()

"""When an image is pulled, said of each container so that it follows the image that is named now."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds import pod_security, registry
from kindling.kinds.base import Kind

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
    assert pod_security.image(name) == {"image": name, "imagePullPolicy": policy}


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


def pods(resource: dict[str, Any], *, pull_secrets: tuple[str, ...]) -> list[dict[str, Any]]:
    """What an operator makes of it that was set up with these."""
    folders = ("postgres", "postgres-init", "postgres-backup", "memcached", "exporters", "pulsar-consumer")
    images = dict.fromkeys(folders, "registry.example/kindling/own:1")
    cr, group = as_created(resource), str(resource["apiVersion"]).partition("/")[0]
    (kind,) = (
        each
        for each in registry.kinds(images, pull_secrets=pull_secrets, only=[resource["kind"]])
        if each.type.group == group
    )
    bodies = [child.body for child in kind.desired(cr, applied(kind, cr, nothing()))]
    templates = [body.get("spec", {}).get("template") for body in bodies]
    return [template["spec"] for template in templates if template]


@pytest.mark.parametrize("sample", RUNNING, ids=lambda sample: str(sample["kind"]))
def test_the_operators_own_images_are_pulled_with_the_secrets_that_it_is_set_up_with(
    sample: dict[str, Any],
) -> None:
    """A resource's own come first; whoever names an image gets no Secret that he did not name."""
    spec = {key: value for key, value in sample["spec"].items() if key != "image"}
    (pod,) = pods({**sample, "spec": spec}, pull_secrets=("mirror", "other"))
    assert pod["imagePullSecrets"] == [{"name": "mirror"}, {"name": "other"}]
    # Without any, the template is what it was: another one would restart everything at an upgrade.
    (before,) = pods({**sample, "spec": spec}, pull_secrets=())
    assert before == {key: value for key, value in pod.items() if key != "imagePullSecrets"}
    for own, expected in (
        ({"imagePullSecrets": [{"name": "mine"}]}, [{"name": "mine"}]),
        ({"imagePullSecrets": []}, None),
        ({"image": "example/mine:1"}, None),
        ({"image": "example/mine:1", "imagePullSecrets": [{"name": "mine"}]}, [{"name": "mine"}]),
    ):
        (pod,) = pods({**sample, "spec": {**spec, **own}}, pull_secrets=("mirror",))
        assert pod.get("imagePullSecrets") == expected


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
def test_each_container_says_when_its_image_is_pulled(sample: dict[str, object]) -> None:
    cr = as_created(sample)
    kind: Kind = KINDS[f"{str(sample['kind']).lower()}.{str(sample['apiVersion']).partition('/')[0]}"]
    done = applied(kind, cr, nothing())
    for child in kind.desired(cr, done):
        pod = child.body.get("spec", {}).get("template", {}).get("spec", {})
        for container in [*pod.get("initContainers", ()), *pod.get("containers", ())]:
            assert container.items() >= pod_security.image(container["image"]).items()
